/*
 * Power cuts, in memory: a random story of changes and commits runs on an io that remembers every
 * write, truncation and sync. Then the disks that a power cut could leave are built: what was
 * synced is there; of the calls since, any subset, in any order, torn at 512 bytes. Each disk is
 * opened, which recovers, and must show a state of the story at or after the last one that
 * was acknowledged as durable, whole. Some commits are parts that leave out the end of the file.
 *
 *   frame_crash STORIES STATES SEED [--skip-sync N]
 *
 * STATES: disks a crash point. --skip-sync: every N-th sync does nothing, to see that it is
 * noticed. Prints "STORIES stories, STATES states, RECOVERED recovered"; exit code 1 and a line at
 * the first violation.
 */
#include "base/log.h"
#include "crash_disk.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHUNK 1024u
#define MAX_SIZE 24000u
#define MAX_STATES 512
#define MAX_CALLS 512

/* The recorder. `now` is what the program sees, `safe` what the disk is sure to have. */
static struct {
	struct io io;
	struct buf now, safe;
	struct call call[MAX_CALLS];
	size_t ncalls;
	unsigned skip_every, nsyncs; /* nsyncs: also those that do nothing */
} disk;

static struct state states[MAX_STATES];
static size_t nstates, nsafe; /* states before nsafe may no longer be shown */
static uint64_t nopened, nrecovered, nboots, ncompacted, nparts;

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

static int disk_pwrite(struct io *io, uint64_t at, struct view src)
{
	uint8_t *copy = malloc(src.n);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, src.p, src.n);
	apply_write(&disk.now, at, src.p, src.n);
	record((struct call){CALL_WRITE, at, src.n, copy});
	return 0;
}

static int disk_sync(struct io *io)
{
	disk.nsyncs++;
	if (disk.skip_every && disk.nsyncs % disk.skip_every == 0)
		return 0;
	disk.safe.n = 0;
	TRY(buf_append(&disk.safe, buf_view(&disk.now)));
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
	apply_truncate(&disk.now, size);
	record((struct call){CALL_TRUNCATE, size, 0, NULL});
	return 0;
}

static int disk_punch(struct io *io, uint64_t at, uint64_t len)
{
	apply_punch(&disk.now, at, len);
	record((struct call){CALL_PUNCH, at, len, NULL});
	return 0;
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
	char text[256];
	printf("%s: %s; size %" PRIu64 ", states %zu..%zu, %zu calls\n", what,
	       rc < 0 ? err_text(rc, text, sizeof text) : "no such state", st.size, nsafe, nstates,
	       disk.ncalls);
	return -EIO;
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
	 * Where only an empty root is left and bytes are behind it,
	 * the frame is refused, not taken for empty.
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
	nopened++;
	struct view after = io_mem_bytes(frame_io(f));
	nrecovered += memcmp(after.p, b->p, min_u64(b->n, 87)) != 0;
	/* Recovered for good: opened again it is the same, and it can be changed. */
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
	uint64_t boot = root_boot();
	for (unsigned i = 0; rc == 0 && i < count; i++) {
		/* what was proven on another disk counts for nothing */
		root_boot_set(boot + 2 * ++nboots);
		build_disk(&b, buf_view(&disk.safe), disk.call, disk.ncalls);
		rc = judge(&b, s);
	}
	root_boot_set(boot);
	buf_free(&b);
	return rc;
}

struct story {
	struct frame *f;
	struct scratch *s;
	struct pipeline p;
	uint8_t plain[MAX_SIZE + CHUNK];
	uint64_t size;
	uint64_t kept;      /* the least size since the last commit that was no part */
	uint64_t committed; /* the size of the newest root                           */
};

static int put(struct story *t, uint32_t n)
{
	struct frame_span sp = frame_chunk_span(t->f, n);
	struct view plain = view_of(t->plain + sp.start, sp.len);
	struct buf packed = {0};
	uint64_t at;
	if (bytes_are_zero(plain)) {
		frame_put_zeros(t->f, n);
		return 0;
	}
	int rc = chunk_encode(t->s, &t->p, plain, &packed);
	if (rc == 0)
		rc = frame_alloc(t->f, n, (uint32_t)packed.n, &at);
	if (rc == 0)
		rc = frame_write(t->f, at, buf_view(&packed));
	uint64_t before = t->f->young.bytes;
	(void)before; /* of an assert alone */
	if (rc == 0) {
		frame_put(t->f, n, at, (uint32_t)packed.n);
		assert(t->f->young.bytes == before + packed.n);
	}
	buf_free(&packed);
	return rc;
}

static int change(struct story *t)
{
	uint32_t kind = draw(10);
	uint64_t at = draw(MAX_SIZE - 1), len = 1 + draw(draw(3) ? CHUNK : 6 * CHUNK),
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
	if (t->size != old && edge % CHUNK && edge)
		TRY(put(t, (uint32_t)(edge / CHUNK)));
	for (uint64_t n = at / CHUNK; len && n <= (at + len - 1) / CHUNK; n++)
		TRY(put(t, (uint32_t)n));
	return 0;
}

/*
 * As the reference does when it writes: no fingerprint. It
 * is there for good, and cannot be told from others.
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

static int reopen(struct story *t)
{
	if (draw(4) == 0)
		TRY(by_another(t));
	frame_close(t->f);
	t->f = NULL;
	memset(t->plain + t->committed, 0, sizeof t->plain - t->committed);
	t->size = t->kept = t->committed;
	return frame_open_take(&t->f, &disk.io);
}

static void expect(struct story *t, uint64_t size)
{
	assert(nstates < MAX_STATES);
	states[nstates++] = (struct state){sum_of(view_of(t->plain, size)), size};
	t->committed = size;
}

/* As if chunk `missing` had not been put: what has come behind `kept` ends before it. */
static int commit_part(struct story *t, unsigned count)
{
	uint32_t missing = draw(4) ? draw(MAX_SIZE / CHUNK) : UINT32_MAX;
	uint32_t first = (uint32_t)(t->kept / CHUNK);
	if (missing <= first) /* a hole may be cut anywhere */
		missing = first + (t->kept < t->size && frame_slot(t->f, first) == SLOT_STORED);
	expect(t, min_u64(t->size, max_u64(t->kept, (uint64_t)missing * CHUNK)));
	TRY(cut_power(t->s, count / 4));
	TRY(frame_commit_part(t->f, missing));
	space_check(&t->f->space);
	nparts += t->committed < t->size;
	return cut_power(t->s, count);
}

static int commit(struct story *t, unsigned count)
{
	enum durability how = draw(3) ? COMMIT_LATER : COMMIT_SYNC;
	if (draw(4) == 0)
		return commit_part(t, count);
	expect(t, t->size);
	TRY(cut_power(t->s, count / 4));
	/* As if so many bytes had been put since the last sync: they do not wait for the next. */
	bool many = t->size && frame_dirty(t->f) && draw(8) == 0;
	unsigned before = disk.nsyncs;
	if (many)
		t->f->young.bytes += YOUNG_MAX_BYTES + 1;
	TRY(frame_commit(t->f, how));
	if (many && (disk.nsyncs == before || t->f->young.bytes))
		return complain("no sync for many young chunks", -EIO, states[nstates - 1]);
	t->kept = t->size;
	space_check(&t->f->space);
	if (how == COMMIT_SYNC)
		nsafe = nstates - 1;
	return cut_power(t->s, count);
}

static int story(struct story *t, unsigned count)
{
	static const char *const pipelines[] = {"zstd:1", "store", "shuffle:4+lz4"};
	char why[64];
	forget_calls(disk.call, &disk.ncalls);
	disk.io.ops = &disk_ops;
	disk.now.n = disk.safe.n = nsafe = nstates = 0;
	t->size = t->kept = t->committed = 0;
	memset(t->plain, 0, sizeof t->plain);
	pipeline_default(&t->p);
	TRY(pipeline_parse(&t->p, pipelines[draw(3)], why, sizeof why));
	TRY(frame_create_take(&t->f, &disk.io, &t->p, CHUNK));
	TRY(io_sync(&disk.io));
	states[nstates++] = (struct state){0, 0};
	for (uint32_t i = 0, n = 4 + draw(24); i < n; i++) {
		for (uint32_t k = 1 + draw(4); k > 0; k--)
			TRY(change(t));
		if (draw(6) == 0) {
			int moved = frame_compact(t->f, 4096);
			TRY(moved);
			ncompacted += (uint64_t)moved;
		}
		TRY(commit(t, count));
		if (draw(8) == 0)
			TRY(reopen(t));
	}
	frame_close(t->f);
	t->f = NULL;
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	unsigned stories = (unsigned)atoi(argv[1]), count = (unsigned)atoi(argv[2]), done = 0;
	unsigned first = (unsigned)atoi(argv[3]);
	struct story *t = mem_zalloc(sizeof *t);
	int rc = t ? scratch_open(&t->s) : -ENOMEM;
	if (argc == 6)
		disk.skip_every = (unsigned)atoi(argv[5]);
	log_init(LOG_LEVEL_ERR, LOG_SINK_STDERR);
	for (; rc == 0 && done < stories; done++) {
		seed = (first + done) * 2654435761u;
		rc = story(t, count);
		if (rc < 0)
			printf("story %u: %s\n", first + done, strerror(-rc));
	}
	printf("%u stories, %" PRIu64 " states, %" PRIu64 " recovered, %" PRIu64
	       " compacted, %" PRIu64 " cut\n",
	       done, nopened, nrecovered, ncompacted, nparts);
	fflush(stdout);
	if (rc < 0)
		_exit(1); /* nobody tidies up after a failure */
	scratch_close(t->s);
	mem_free(t);
	forget_calls(disk.call, &disk.ncalls);
	buf_free(&disk.now);
	buf_free(&disk.safe);
	return 0;
}
