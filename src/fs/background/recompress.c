#include "fs/background/recompress.h"

#include "base/waker.h"
#include "fs/background/recompress_search.h"
#include "fs/stats.h"

#include <sys/resource.h>

/* A file is cold when it has not changed for this many times -o recompress (seconds). */
#define COLD 60

/*
 * The pause after looking at all files, in multiples of the time that took: at most a tenth of the
 * time is spent looking.
 */
#define REST 10

struct recompress {
	struct fs *fs;
	pthread_t thread;
	struct waker waker;

	/* used by the thread alone */
	struct meter_sums *sums; /* room for stats_requests */
	uint64_t requests;       /* how many there had been when the mount was idle last */
	struct recompress_search search;
};

/* True: there was a request, or written data waits to be stored. */
static bool is_used(struct recompress *r)
{
	return stats_requests(r->sums) != r->requests || budget_used(r->fs->budget);
}

static bool must_stop(void *ctx)
{
	struct recompress *r = ctx;
	return waker_stopped(&r->waker) || is_used(r);
}

/* False: the thread shall end. */
static bool wait_idle(void *ctx)
{
	struct recompress *r = ctx;

	while (is_used(r)) {
		r->requests = stats_requests(r->sums);
		if (!waker_sleep_for(&r->waker, r->fs->opt.recompress))
			return false;
	}
	return !waker_stopped(&r->waker);
}

static void *recompress_main(void *arg)
{
	struct recompress *r = arg;

	(void)setpriority(PRIO_PROCESS, 0, 19); /* of this thread alone */
	while (wait_idle(r)) {
		uint64_t start = meter_now();
		if (!recompress_search(&r->search))
			break;
		double took = clock_to_seconds(meter_now() - start);
		if (!waker_sleep_for(&r->waker, r->search.cold + REST * took))
			break;
	}
	return NULL;
}

static bool is_asked(void *ctx)
{
	bool (*const *asked)(void) = ctx;
	return (*asked)();
}

static bool is_not_asked(void *ctx)
{
	return !is_asked(ctx);
}

void recompress_all(struct fs *fs, bool (*stop)(void), struct recompress_totals *t)
{
	struct recompress_search s = {.fs = fs, .pool = fs->pool, .totals = t,
				      .wait = is_not_asked, .stop = is_asked, .ctx = &stop};

	*t = (struct recompress_totals){0};
	t->stopped = !recompress_search(&s);
	known_clear(&s.known);
}

static void recompress_free(struct recompress *r)
{
	known_clear(&r->search.known);
	waker_deinit(&r->waker);
	mem_free(r->sums);
	mem_free(r);
}

int recompress_start(struct recompress **out, struct fs *fs)
{
	*out = NULL;
	if (fs->opt.recompress <= 0 || fs->opt.read_only)
		return 0;
	struct recompress *r = mem_zalloc(sizeof *r);
	if (!r)
		return -ENOMEM;
	r->fs = fs;
	r->search = (struct recompress_search){.fs = fs, .cold = COLD * fs->opt.recompress,
					       .wait = wait_idle, .stop = must_stop, .ctx = r};
	r->requests = UINT64_MAX;
	waker_init(&r->waker);
	r->sums = mem_zalloc(sizeof *r->sums);
	int rc = r->sums ? -pthread_create(&r->thread, NULL, recompress_main, r) : -ENOMEM;
	if (rc < 0)
		recompress_free(r);
	else
		*out = r;
	return rc;
}

void recompress_stop(struct recompress *r)
{
	if (!r)
		return;
	waker_stop(&r->waker);
	pthread_join(r->thread, NULL);
	recompress_free(r);
}
