/*
 * Power cuts, in memory: a random story of changes and commits runs on an io that remembers every
 * write, truncation and sync. Then it builds the disks that a power cut could leave: what was
 * synced, and any subset of the calls since then, in any order, torn at 512 bytes. Each disk is
 * opened, which recovers the frame, and must have all of a state of the story, the last one that
 * was acknowledged as durable or a later one. Some commits are partial: they leave out the end of
 * the file.
 *
 *   frame_crash STORIES STATES SEED [--skip-sync N] [--fail] [--forget] [--large] [--bare]
 *               [--checkpoints] [--killed] [--full] [--from FRAME]
 *
 * STATES: disks for each crash point. --skip-sync: every N-th sync does nothing, which has to be
 * noticed. --fail: calls fail now and then, once or several times; a sync that fails may lose what
 * was written since the last one. --forget: some chunks have no checksum, as if there had been no
 * memory for it. --large: as if recovery could not verify all chunks of any frame. --bare: as if
 * every frame had too many chunks for checksums. --checkpoints: now and then the whole file system
 * is synced (frame/era.h). --killed: now and then the process is killed before it writes a header,
 * and the next process just syncs the file. --full: the disk is nearly full, so room for roots is
 * kept behind the end of the file, and cut off again. --from: each story begins with this frame,
 * which may be another program's, of at most MAX_SIZE bytes. Prints how many stories and states
 * there were, and how many of these recovered; exit code 1 and a line at the first violation.
 */
#include "base/log.h"
#include "frame/era.h"
#include "crash_disk.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHUNK 1024u
#define MAX_SIZE 24000u
#define MAX_STATES 512
#define MAX_CALLS (1u << 20) /* of a story: each byte may be a chunk of its own */

/* The recorder. `now` is what the program sees, `safe` what is certainly on the disk. */
static struct {
	struct io io;
	struct buf now, safe;
	struct call call[MAX_CALLS];
	size_t ncalls;
	unsigned skip_every, nsyncs; /* nsyncs: also those that do nothing */
	bool wrote, synced_first;    /* since both were set to false */
	bool forget;   /* the checksums of some chunks */
	bool fail;     /* calls fail now and then: */
	uint32_t left; /* calls until the next one that fails is 1; 0: none */
	uint32_t more; /* as many fail after that */
	bool checkpoints; /* the whole file system is synced now and then */
	bool full;     /* nearly: there is no room for anything that need not be */
	bool killed;   /* the process is killed now and then, before it writes a header */
	bool no_header; /* the next one is not written */
	bool suspect;  /* a sync failed, and none has succeeded since */
	bool lost;     /* a sync of the whole file system failed: the next one does */
	uint64_t nfailed;
} disk;

static struct state states[MAX_STATES];
static uint8_t plains[MAX_STATES][MAX_SIZE];
static uint64_t layers; /* a hash of the metalayers, which stay as they are */
static size_t nstates, nsafe; /* states before nsafe may no longer be shown */
static uint64_t nopened, nrecovered, nboots, ncompacted, nparts, ncheckpoints;

static void record(struct call c)
{
	assert(disk.ncalls < MAX_CALLS);
	disk.call[disk.ncalls++] = c;
}

static int disk_pread(struct io *io, uint64_t at, struct span dst)
{
	if (at > disk.now.n || dst.n > disk.now.n - at)
		return CORRUPT("file ends too early", at);
	memcpy(dst.p, disk.now.p + at, dst.n);
	return 0;
}

static bool fails(void)
{
	if (!disk.left || --disk.left)
		return false;
	if (disk.more && disk.more--)
		disk.left = 1;
	disk.nfailed++;
	return true;
}

static int disk_pwrite(struct io *io, uint64_t at, struct view src)
{
	bool failed = (disk.no_header && at == 0) || fails();
	disk.wrote = true;
	/* what is in one sector, like a header, is written as a whole or not at all */
	if (failed && (draw(2) || at / SECTOR == (at + src.n - 1) / SECTOR))
		return -EIO;
	if (failed)
		src = view_part(src, 0, src.n / 2);
	uint8_t *copy = malloc(src.n);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, src.p, src.n);
	apply_write(&disk.now, at, src.p, src.n);
	record((struct call){CALL_WRITE, at, src.n, copy});
	return failed ? -ENOSPC : 0;
}

/* What a failed sync has lost can still be read, until it is written again or the power is cut. */
static int failed_sync(void)
{
	disk.suspect = true;
	disk.nfailed += disk.lost;
	disk.lost = false;
	if (draw(2))
		return -EIO;
	for (size_t i = 0; i < disk.ncalls; i++)
		apply(&disk.safe, &disk.call[i], draw(2));
	forget_calls(disk.call, &disk.ncalls);
	return -EIO;
}

static int disk_sync(struct io *io)
{
	disk.nsyncs++;
	disk.synced_first |= !disk.wrote;
	if (disk.skip_every && disk.nsyncs % disk.skip_every == 0)
		return 0;
	if (fails() || disk.lost)
		return failed_sync();
	disk.suspect = false;
	for (size_t i = 0; i < disk.ncalls; i++)
		apply(&disk.safe, &disk.call[i], true);
	forget_calls(disk.call, &disk.ncalls);
	return 0;
}

static int disk_size(struct io *io, uint64_t *size)
{
	*size = disk.now.n;
	return 0;
}

static int disk_truncate(struct io *io, uint64_t size)
{
	if (fails())
		return -EIO;
	apply_truncate(&disk.now, size);
	record((struct call){CALL_TRUNCATE, size, 0, NULL});
	return 0;
}

static int disk_punch(struct io *io, uint64_t at, uint64_t len)
{
	if (fails())
		return -EIO;
	apply_punch(&disk.now, at, len);
	record((struct call){CALL_PUNCH, at, len, NULL});
	return 0;
}

static uint64_t disk_room(struct io *io)
{
	return disk.full ? 0 : UINT64_MAX;
}

static int disk_reserve(struct io *io, uint64_t at, uint64_t len)
{
	return fails() ? -ENOSPC : 0;
}

static uint64_t disk_mount(struct io *io)
{
	(void)io;
	return 0;
}

static void disk_close(struct io *io)
{
}

static const struct io_ops disk_ops = {
	.pread = disk_pread, .pwrite = disk_pwrite, .sync = disk_sync, .size = disk_size,
	.truncate = disk_truncate, .punch = disk_punch, .mount = disk_mount, .close = disk_close,
	.room = disk_room, .reserve = disk_reserve,
};

static bool allowed(struct state st)
{
	for (size_t i = nsafe; i < nstates; i++)
		if (states[i].hash == st.hash && states[i].size == st.size)
			return true;
	return false;
}

static bool empty_is_allowed(void)
{
	for (size_t i = nsafe; i < nstates; i++)
		if (states[i].size == 0)
			return true;
	return false;
}

static int complain(const char *what, int rc, struct state st)
{
	char text[ERR_TEXT_MAX];
	printf("%s: %s; size %" PRIu64 ", states %zu..%zu, %zu calls\n", what,
	       rc < 0 ? err_text(rc, text) : "no such state", st.size, nsafe, nstates,
	       disk.ncalls);
	return -EIO;
}

static uint64_t layers_of(const struct frame *f)
{
	const char *name;
	struct view content;
	uint64_t hash = 1;
	for (uint32_t i = 0; frame_meta_at(f, i, &name, &content); i++)
		hash = hash * 31 + sum_of(view_of(name, strlen(name))) + sum_of(content);
	for (uint32_t i = 0; frame_vlmeta_at(f, i, &name, &content); i++)
		if (strcmp(name, TRAILER_NOTE) != 0)
			hash = hash * 31 + sum_of(view_of(name, strlen(name))) + sum_of(content);
	return hash;
}

static int judge(struct buf *b, struct scratch *s)
{
	struct io *io;
	struct frame *f;
	struct frame_info probed;
	struct state st = {0}, again = {0};
	TRY(io_mem_open(&io, buf_view(b)));
	int rc = frame_probe(io, &probed);
	/*
	 * If only an empty root is left, and bytes follow it, the
	 * frame is refused rather than taken for empty.
	 */
	bool may_fail = empty_is_allowed();
	if (rc < 0) {
		io_close(io);
		return may_fail && rc == -EBADMSG ? 0 : complain("probe", rc, st);
	}
	rc = frame_open_take(&f, io);
	if (rc < 0)
		return may_fail && rc == -EBADMSG ? 0 : complain("open", rc, st);
	rc = content(f, s, &st);
	if (rc < 0)
		return complain("read", rc, st);
	if (!allowed(st))
		return complain("content", 0, st);
	if (layers_of(f) != layers)
		return complain("metalayers", 0, st);
	nopened++;
	struct view after = io_mem_bytes(frame_io(f));
	nrecovered += memcmp(after.p, b->p, min_u64(b->n, 87)) != 0;
	/* It stays recovered: opened again, it is the same, and it can be changed. */
	TRY(io_mem_open(&io, after));
	frame_close(f);
	TRY(frame_open_take(&f, io));
	rc = content(f, s, &again);
	if (rc < 0 || again.hash != st.hash || again.size != st.size)
		return complain("second opening", rc, again);
	frame_close(f);
	return 0;
}

static int cut_power(struct scratch *s, unsigned count)
{
	struct buf b = {0};
	int rc = 0;
	uint64_t boot = era_boot();
	for (unsigned i = 0; rc == 0 && i < count; i++) {
		/* what was verified on another disk does not count */
		era_boot_set(boot + 2 * ++nboots);
		build_disk(&b, buf_view(&disk.safe), disk.call, disk.ncalls);
		rc = judge(&b, s);
	}
	era_boot_set(boot);
	buf_free(&b);
	return rc;
}

struct story {
	struct frame *f;
	struct scratch *s;
	struct pipeline p;
	uint8_t plain[MAX_SIZE + CHUNK];
	uint32_t chunk;
	bool failed;        /* a commit failed since the last sync that did not */
	uint64_t size;
	uint64_t kept; /* the least size since the last commit that was not partial */
};

static int try_put(struct story *t, uint32_t n)
{
	struct frame_span sp = frame_chunk_span(t->f, n);
	struct view plain = view_of(t->plain + sp.start, sp.len);
	struct buf packed = {0};
	struct frame_place place;
	if (bytes_are_zero(plain)) {
		frame_put_zeros(t->f, n);
		return 0;
	}
	int rc = chunk_encode(t->s, &t->p, plain, &packed);
	if (rc == 0)
		rc = frame_alloc(t->f, n, (uint32_t)packed.n, &place);
	if (rc == 0)
		rc = frame_write(t->f, &place, buf_view(&packed));
	if (rc == 0 && disk.forget && draw(4) == 0)
		place.sum = 0;
	uint64_t before = t->f->young.bytes;
	(void)before; /* used by an assert only */
	if (rc == 0) {
		frame_put(t->f, n, &place);
		assert(t->f->young.bytes == before + packed.n);
	}
	buf_free(&packed);
	return rc;
}

/* One that fails can be repeated, and has to be. */
static int put(struct story *t, uint32_t n)
{
	int rc = try_put(t, n);
	if (rc == 0 || !disk.fail)
		return rc;
	disk.left = 0;
	return try_put(t, n);
}

static int change(struct story *t)
{
	uint32_t kind = draw(10);
	uint64_t at = draw(MAX_SIZE - 1), len = 1 + draw(draw(3) ? 1024 : 6144),
		 old = t->size;
	if (kind == 0 || kind == 1) {
		t->size = kind == 0 && draw(2) ? 0 : at;
		if (t->size < old)
			memset(t->plain + t->size, 0, old - t->size);
		at = len = 0;
	} else {
		len = min_u64(len, MAX_SIZE - at);
		for (uint64_t i = 0; i < len; i++)
			t->plain[at + i] = (uint8_t)(kind == 2 ? 0 : draw(256) >> draw(6));
		t->size = max_u64(t->size, at + len);
	}
	TRY(frame_resize(t->f, t->size));
	t->kept = min_u64(t->kept, t->size);
	uint64_t edge = min_u64(old, t->size);
	if (t->size != old && edge % t->chunk && edge)
		TRY(put(t, (uint32_t)(edge / t->chunk)));
	for (uint64_t n = at / t->chunk; len && n <= (at + len - 1) / t->chunk; n++)
		TRY(put(t, (uint32_t)n));
	return 0;
}

/*
 * As the reference library writes: without a fingerprint. It is
 * synced, so it stays; nothing tells it from another such write.
 */
static int by_another(struct story *t)
{
	static const uint8_t none[17];
	uint64_t end = frame_info(t->f)->frame_len;
	TRY(io_sync(&disk.io));
	TRY(io_pwrite(&disk.io, end - sizeof none, view_of(none, sizeof none)));
	TRY(io_sync(&disk.io));
	nsafe = nstates - 1;
	return 0;
}

static void expect(struct story *t, uint64_t size)
{
	assert(nstates < MAX_STATES);
	memcpy(plains[nstates], t->plain, size);
	states[nstates++] = (struct state){sum_of(view_of(t->plain, size)), size};
}

/* Continues from the state that the frame shows. */
static int look(struct story *t)
{
	struct state st;
	TRY(content(t->f, t->s, &st));
	size_t i = nstates;
	while (i > nsafe && (states[i - 1].hash != st.hash || states[i - 1].size != st.size))
		i--;
	if (i == nsafe)
		return complain("reopened", 0, st);
	memset(t->plain, 0, sizeof t->plain);
	memcpy(t->plain, plains[i - 1], st.size);
	t->size = t->kept = st.size;
	return 0;
}

static int reopen(struct story *t)
{
	bool suspect = frame_suspect(t->f), given_up = frame_dirty(t->f);
	bool latest = frame_latest(t->f) && !given_up;
	if (given_up && !suspect && draw(2)) { /* the process was killed: nobody knows */
		disk.left = 0;
		given_up = false;
	}
	if (draw(4) == 0 && !t->failed && !suspect && !disk.lost) {
		disk.left = 0;
		TRY(by_another(t));
	}
	frame_close(t->f);
	int rc = frame_open_take(&t->f, &disk.io);
	if (rc < 0 && disk.fail) {
		disk.left = 0;
		rc = frame_open_take(&t->f, &disk.io);
	}
	if (rc < 0)
		return complain("reopen", rc, states[nstates - 1]);
	frame_remember_root(t->f);
	if (suspect)
		frame_set_suspect(t->f);
	if (latest)
		frame_set_latest(t->f);
	if (given_up)
		frame_cut_given_up(t->f);
	TRY(look(t));
	if (draw(4) || frame_commit(t->f, COMMIT_SYNC) < 0)
		return 0;
	expect(t, t->size);
	nsafe = nstates - 1;
	IGNORE(frame_vouch(t->f));
	return cut_power(t->s, 5);
}

/* A commit may fail if calls do. Then its state may be on the disk; the next commit includes it. */
static int commit_done(struct story *t, int rc)
{
	if (rc < 0 && disk.fail) {
		t->failed = true;
		rc = 1;
	}
	space_check(&t->f->space);
	frame_check(t->f);
	return rc;
}

/* As if chunk `missing` had not been stored: what was added after `kept` ends before it. */
static int commit_part(struct story *t, unsigned count)
{
	t->kept = frame_kept(t->f); /* a commit that failed counts */
	uint32_t missing = draw(4) ? draw(MAX_SIZE / t->chunk) : UINT32_MAX;
	uint32_t first = (uint32_t)(t->kept / t->chunk);
	if (missing <= first) /* a hole may be cut anywhere */
		missing = first + (t->kept < t->size && frame_slot(t->f, first) == SLOT_STORED);
	uint64_t end = min_u64(t->size, max_u64(t->kept, (uint64_t)missing * t->chunk));
	expect(t, end);
	TRY(cut_power(t->s, count / 4));
	TRY(commit_done(t, frame_commit_part(t->f, missing)));
	nparts += end < t->size;
	return cut_power(t->s, count);
}

/*
 * As if so many bytes had been stored since the last sync, or in so many places, that there was no
 * room to note them: no root is written before they are synced.
 */
static void put_many(struct young *y)
{
	if (draw(2)) {
		y->bytes += YOUNG_MAX_BYTES + 1;
		return;
	}
	y->runs.n = 0;
	y->many = true;
}

static int commit(struct story *t, unsigned count)
{
	enum durability how = draw(3) ? COMMIT_LATER : COMMIT_SYNC;
	if (draw(4) == 0)
		return commit_part(t, count);
	expect(t, t->size);
	TRY(cut_power(t->s, count / 4));
	bool many = t->size && frame_dirty(t->f) && draw(8) == 0;
	disk.wrote = frame_suspect(t->f) || !t->f->notes; /* then something else comes first */
	disk.synced_first = disk.wrote;
	unsigned before = disk.nsyncs;
	if (many)
		put_many(&t->f->young);
	int rc = commit_done(t, frame_commit(t->f, how));
	TRY(rc);
	if (rc > 0)
		return cut_power(t->s, count);
	if (many && (disk.nsyncs == before || !disk.synced_first || t->f->young.bytes))
		return complain("no sync for many young chunks", -EIO, states[nstates - 1]);
	t->kept = t->size;
	if (how == COMMIT_SYNC) {
		nsafe = nstates - 1;
		t->failed = false;
		if (draw(2)) /* if it fails, that is for the next sync to find */
			IGNORE(frame_vouch(t->f));
	}
	return cut_power(t->s, count);
}

/*
 * The whole file system is synced, which the frame is not told, and roots written until then need
 * no verification any more. If syncs failed before, what they lost stays lost.
 */
static int checkpoint(struct story *t, unsigned count)
{
	uint64_t nfailed = disk.nfailed;
	bool shown = !frame_suspect(t->f) && !t->failed;
	era_end();
	if (draw(2)) {
		TRY(change(t));
		TRY(commit(t, 0));
	}
	bool lost = disk.fail && draw(4) == 0;
	for (size_t i = 0; i < disk.ncalls; i++)
		apply(&disk.safe, &disk.call[i], !lost || draw(2));
	forget_calls(disk.call, &disk.ncalls);
	if (lost) {
		disk.lost = true;
		era_spoil();
		return cut_power(t->s, count);
	}
	era_synced(0);
	ncheckpoints++;
	if (shown && disk.nfailed == nfailed && !disk.lost)
		nsafe = nstates - 1;
	return cut_power(t->s, count);
}

static int open_again(struct story *t)
{
	frame_close(t->f);
	TRY(frame_open_take(&t->f, &disk.io));
	frame_remember_root(t->f);
	return look(t);
}

/*
 * The process is killed before a header is written; the rest of the commit is in the file. The next
 * process makes durable what the file shows, and ends.
 */
static int killed(struct story *t)
{
	disk.left = 0;
	TRY(change(t));
	disk.no_header = true;
	bool dirty = frame_dirty(t->f);
	int rc = frame_commit(t->f, COMMIT_LATER);
	disk.no_header = false;
	if (rc == 0 && dirty)
		return complain("no header was written", -EIO, states[nstates - 1]);
	TRY(open_again(t));
	TRY(frame_commit(t->f, COMMIT_SYNC));
	IGNORE(frame_vouch(t->f));
	expect(t, t->size);
	nsafe = nstates - 1;
	bool goes_on = frame_latest(t->f) && draw(2);
	TRY(open_again(t));
	if (goes_on) /* it does not end, but closes the file */
		frame_set_latest(t->f);
	return 0;
}

static int begin(struct story *t, struct view from)
{
	struct state st;
	disk.io.ops = &disk_ops;
	disk.left = 0;
	disk.suspect = disk.lost = t->failed = false;
	forget_calls(disk.call, &disk.ncalls);
	disk.now.n = disk.safe.n = nsafe = nstates = 0;
	memset(t->plain, 0, sizeof t->plain);
	t->chunk = CHUNK;
	if (from.n) {
		TRY(buf_append(&disk.now, from));
		TRY(buf_append(&disk.safe, from));
		TRY(frame_open_take(&t->f, &disk.io));
		t->chunk = frame_info(t->f)->chunk_size;
		if (!frame_writable(t->f) || frame_size(t->f) > MAX_SIZE)
			return -EINVAL;
	} else {
		TRY(frame_create_take(&t->f, &disk.io, &t->p, CHUNK));
	}
	TRY(io_sync(&disk.io));
	TRY(content(t->f, t->s, &st));
	t->size = t->kept = st.size;
	TRY(frame_read(t->f, 0, t->s, span_of(t->plain, t->size)));
	layers = layers_of(t->f);
	expect(t, t->size);
	return 0;
}

static void arm(void)
{
	if (!disk.fail || draw(3))
		return;
	disk.left = 1 + draw(draw(2) ? 6 : 20);
	disk.more = draw(2) ? 0 : draw(8);
}

static int story(struct story *t, unsigned count, struct view from)
{
	static const char *const pipelines[] = {"zstd:1", "store", "shuffle:4+lz4"};
	pipeline_default(&t->p);
	TRY(pipeline_parse(&t->p, pipelines[draw(3)], NULL));
	TRY(begin(t, from));
	for (uint32_t i = 0, n = 4 + draw(24); i < n; i++) {
		arm();
		for (uint32_t k = 1 + draw(4); k > 0; k--)
			TRY(change(t));
		if (draw(6) == 0) {
			int moved = frame_compact(t->f, 4096);
			if (moved < 0 && !disk.fail)
				return moved;
			ncompacted += moved > 0 ? (uint64_t)moved : 0;
		}
		TRY(commit(t, count));
		if (disk.checkpoints && draw(8) == 0)
			TRY(checkpoint(t, count));
		if (draw(8) == 0)
			TRY(reopen(t));
		if (disk.killed && draw(4) == 0 && !t->failed && !disk.lost &&
		    !frame_suspect(t->f))
			TRY(killed(t));
	}
	frame_close(t->f);
	t->f = NULL;
	return 0;
}

static int read_file(const char *name, struct buf *b)
{
	FILE *file = fopen(name, "rb");
	if (!file)
		return -errno;
	TRY(buf_reserve(b, 1 << 20));
	b->n = fread(b->p, 1, 1 << 20, file);
	fclose(file);
	return 0;
}

static int options(char **arg, struct buf *from)
{
	int rc = 0;
	for (; *arg && rc == 0; arg++)
		if (strcmp(*arg, "--fail") == 0)
			disk.fail = true;
		else if (strcmp(*arg, "--checkpoints") == 0)
			disk.checkpoints = true;
		else if (strcmp(*arg, "--killed") == 0)
			disk.killed = true;
		else if (strcmp(*arg, "--full") == 0)
			disk.full = true;
		else if (strcmp(*arg, "--forget") == 0)
			disk.forget = true;
		else if (strcmp(*arg, "--large") == 0)
			frame_recover_bound(3 * CHUNK);
		else if (strcmp(*arg, "--bare") == 0)
			frame_sums_bound(0);
		else if (strcmp(*arg, "--skip-sync") == 0 && arg[1])
			disk.skip_every = (unsigned)atoi(*++arg);
		else if (strcmp(*arg, "--from") == 0 && arg[1])
			rc = read_file(*++arg, from);
		else
			rc = -EINVAL;
	return rc;
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	unsigned stories = (unsigned)atoi(argv[1]), count = (unsigned)atoi(argv[2]), done = 0;
	unsigned first = (unsigned)atoi(argv[3]);
	struct story *t = mem_zalloc(sizeof *t);
	int rc = t ? scratch_open(&t->s) : -ENOMEM;
	struct buf from = {0};
	if (rc == 0)
		rc = options(argv + 4, &from);
	log_init(LOG_LEVEL_ERR, LOG_SINK_STDERR);
	for (; rc == 0 && done < stories; done++) {
		seed = (first + done) * 2654435761u;
		rc = story(t, count, buf_view(&from));
		if (rc < 0)
			printf("story %u: %s\n", first + done, strerror(-rc));
	}
	printf("%u stories, %" PRIu64 " states, %" PRIu64 " recovered, %" PRIu64
	       " compacted, %" PRIu64 " cut, %" PRIu64 " checkpoints, %" PRIu64 " failed\n",
	       done, nopened, nrecovered, ncompacted, nparts, ncheckpoints, disk.nfailed);
	fflush(stdout);
	if (rc < 0)
		_exit(1); /* nothing is cleaned up after a failure */
	scratch_close(t->s);
	mem_free(t);
	forget_calls(disk.call, &disk.ncalls);
	buf_free(&disk.now);
	buf_free(&disk.safe);
	buf_free(&from);
	return 0;
}
