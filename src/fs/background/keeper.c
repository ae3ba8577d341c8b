#include "fs/background/keeper.h"

#include "base/log.h"
#include "base/meter.h"
#include "base/waker.h"
#include "fs/dirty/flush.h"
#include "fs/file/intent_log.h"
#include "fs/file/kept.h"
#include "fs/file/sync.h"
#include "fs/stats.h"

/* Files in the intent log are committed when no fsync has come for this share of -o commit. */
#define PAUSE_SHARE 0.1

/*
 * A round waits for other programs' locks for that share of -o commit, too, but at most LOCK_MOST:
 * when the mount ends, that is added to the wait of the last commit.
 */
#define LOCK_MOST CLOCK_SECOND

/*
 * Freed memory is returned to the system in a round with fewer than QUIET requests a second, if
 * there were at least ENOUGH since the last time. So an idle mount does it once, and a busy one,
 * which would need the memory again, not at all. Ten thousand files leave 65 MB behind after they
 * are closed.
 */
#define QUIET 200
#define ENOUGH 100

/* How many steps of file_compact a file gets in each round. */
#define COMPACT_STEPS 16

struct keeper {
	struct fs *fs;
	void (*answered)(void *);
	void *ctx;
	pthread_t thread;
	struct waker waker;
	uint64_t pause; /* PAUSE_SHARE, in ns */
	int last_rc;    /* of the latest round */
	uint64_t requests, trimmed; /* how many by the last round, and by the last trim */
	struct meter_sums sums;     /* scratch space for stats_all_requests */
};

/*
 * Which files are committed: those in the intent log, or all that have something to commit. LAST:
 * all, when the mount ends.
 */
enum round_kind { ROUND_NONE, ROUND_LOGGED, ROUND_ALL, ROUND_LAST };

/* A round of commits. */
struct round {
	enum round_kind kind;
	uint64_t patience; /* how long it may yet wait for other programs' locks, in ns       */
	int told;          /* the failure of the round before, which need not be logged again */
	int rc;            /* result: the first failure                                       */
};

/* The result for a file whose commit was put off to the next round. */
#define COMES_BACK 1

/* Commits; if another program has the lock, waits for it for what is left of the patience. */
static int commit_patiently(struct round *r, struct file *f, enum durability how)
{
	int rc = file_try_sync(f, how);

	while (rc == -EAGAIN && r->patience && f->sidecar.there) {
		uint64_t began = meter_now();
		sidecar_wait_some(&f->sidecar, SIDECAR_COMMIT, r->patience);
		rc = file_try_sync(f, how);
		r->patience -= min_u64(r->patience, meter_now() - began);
	}
	if (rc == -EAGAIN)
		sidecar_tell_if_long(&f->sidecar);
	return rc == -EAGAIN ? COMES_BACK : rc;
}

/*
 * Commits a file; durably if it is in the intent log, so that the log can forget it. If another
 * program has the file's lock, the file is put off when the patience is used up, so that other
 * files have their turn; but the last round waits as long as an fsync does.
 */
static int commit_one(struct round *r, struct file *f)
{
	bool logged = file_in_log(f);
	enum durability how = logged ? COMMIT_SYNC : COMMIT_LATER;

	if (!logged && r->kind == ROUND_LOGGED)
		return 0;
	/*
	 * Most chunks are stored here, while writers go on: the commit, which stops them, does the
	 * rest.
	 */
	if (flush_submit_batch(f, FLUSH_ALL))
		IGNORE(flush_wait(f)); /* the commit retries, and reports what fails */
	return r->kind == ROUND_LAST ? file_sync(f, how) : commit_patiently(r, f, how);
}

/* Closes gaps, large ones over several rounds, for which the file stays on the list. */
static void compact(struct file *f)
{
	for (int i = 0; i < COMPACT_STEPS; i++) {
		if (file_compact(f) <= 0) { /* done, or failed, which only costs space */
			file_unlist(f);
			return;
		}
	}
}

/*
 * Logs which file could not be committed, and what becomes of its data. A round in the background
 * logs only its first failure, unless it is that of the round before: a full disk stays full for a
 * while.
 */
static void note_failure(struct round *r, struct file *f, int rc)
{
	char text[ERR_TEXT_MAX];

	err_text(rc, text);
	if (r->kind == ROUND_LAST)
		file_log_err(f, "the last commit failed: %s", text);
	else if (r->rc == 0 && rc != r->told)
		file_log_err(f, "background commit: %s; the data waits in memory", text);
	if (r->rc == 0)
		r->rc = rc;
}

static void commit_files(struct fs *fs, struct round *r)
{
	uint64_t ticket = uncommitted_ticket(&fs->uncommitted);
	struct file *f;

	while ((f = uncommitted_pin_oldest(&fs->uncommitted, ticket))) {
		err_clear(); /* the note of a worker's failure is with the worker */
		int rc = commit_one(r, f);
		if (rc < 0)
			note_failure(r, f, rc);
		else if (rc == 0 && r->kind != ROUND_LOGGED)
			compact(f);
		kept_unpin(f, rc);
	}
	intent_settle(fs->intent, &fs->sync_failed);
}

int keeper_commit_all(struct fs *fs)
{
	struct round r = {.kind = ROUND_LAST};

	commit_files(fs, &r);
	return r.rc;
}

static void commit_in_background(struct keeper *k, enum round_kind kind)
{
	struct round r = {.kind = kind,
			  .patience = min_u64(k->pause, LOCK_MOST),
			  .told = k->last_rc};

	commit_files(k->fs, &r);
	if (r.rc == 0 && k->last_rc < 0)
		log_info("background commit works again");
	k->last_rc = r.rc;
}

/* The time when everything is to be committed; with -o commit=0 never. */
static uint64_t next_round(const struct keeper *k)
{
	double commit = k->fs->opt.commit;
	return commit > 0 ? meter_now() + clock_from_seconds(commit) : WAKER_NEVER;
}

/*
 * Waits until `next`, the time for all files; or until no fsync has gone to the intent log for a
 * while, for the files in it. ROUND_NONE: the thread shall end.
 */
static enum round_kind wait_for_round(struct keeper *k, uint64_t next)
{
	/*
	 * While the disk is full, which may last, each try would encode all that waits in vain. Of
	 * a file at its limit, others are none the worse.
	 */
	bool full = err_is_full(k->last_rc) && k->last_rc != -EFBIG;

	while (meter_now() < next) {
		bool logged = !full && intent_waits(k->fs->intent, 0);
		if (!waker_sleep(&k->waker, logged ? min_u64(next, meter_now() + k->pause) : next))
			return ROUND_NONE;
		if (!full && intent_waits(k->fs->intent, k->pause))
			return waker_stopped(&k->waker) ? ROUND_NONE : ROUND_LOGGED;
	}
	return waker_stopped(&k->waker) ? ROUND_NONE : ROUND_ALL;
}

/* Called by the intent log: the keeper has something new to wait for. */
static void on_logged(void *arg)
{
	struct keeper *k = arg;
	waker_wake(&k->waker);
}

static void trim_memory(struct keeper *k)
{
	uint64_t before = k->requests;

	k->requests = stats_all_requests(&k->sums);
	bool quiet = (double)(k->requests - before) < QUIET * k->fs->opt.commit;
	if (quiet && k->requests - k->trimmed >= ENOUGH) {
		mem_trim();
		k->trimmed = k->requests;
	}
}

static void *keeper_main(void *arg)
{
	struct keeper *k = arg;
	enum round_kind kind;

	if (waker_sleep(&k->waker, WAKER_NEVER)) /* keeper_wake */
		k->answered(k->ctx);
	uint64_t next = next_round(k);
	while ((kind = wait_for_round(k, next)) != ROUND_NONE) {
		commit_in_background(k, kind);
		if (kind == ROUND_ALL) {
			spare_trim(k->fs->spare);
			trim_memory(k);
			next = next_round(k);
		}
	}
	return NULL;
}

static void keeper_free(struct keeper *k)
{
	waker_deinit(&k->waker);
	mem_free(k);
}

int keeper_start(struct keeper **out, struct fs *fs, void (*answered)(void *), void *ctx)
{
	struct keeper *k = mem_zalloc(sizeof *k);

	if (!k)
		return -ENOMEM;
	*k = (struct keeper){.fs = fs, .answered = answered, .ctx = ctx,
			     .pause = clock_from_seconds(fs->opt.commit * PAUSE_SHARE)};
	waker_init(&k->waker);
	intent_on_work(fs->intent, on_logged, k);
	int rc = -pthread_create(&k->thread, NULL, keeper_main, k);
	if (rc < 0) {
		intent_on_work(fs->intent, NULL, NULL);
		keeper_free(k);
	} else {
		*out = k;
	}
	return rc;
}

void keeper_wake(struct keeper *k)
{
	waker_wake(&k->waker);
}

void keeper_stop(struct keeper *k)
{
	if (!k)
		return;
	waker_stop(&k->waker);
	pthread_join(k->thread, NULL);
	intent_on_work(k->fs->intent, NULL, NULL); /* no request is served any more */
	keeper_free(k);
}
