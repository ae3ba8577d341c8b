/*
 * Verifies stored chunks by their checksums, straight from the file, a piece at a time, without
 * decoding them. That is how chunks prove after a power cut that the disk has them, and how copies
 * are verified. (`cframe verify` decodes everything.)
 */
#include "frame/frame_impl.h"
#include "frame/held.h"
#include "frame/io/hash.h"

#include <assert.h>
#include <stdlib.h>

/*
 * Limits for the memory of a chunk's head, beyond which it is garbage. A block takes at most 20
 * bytes: 8 in the head itself, and its tables (stored.c); no writer makes blocks of less than 32
 * bytes. On the disk, each block has 12 bytes there, of which a compressing file system may save 8:
 * so more than VERIFY_TIMES the file's space on the disk is garbage, too. A file of holes may claim
 * any head.
 */
#define VERIFY_HEAD (16u << 20)
#define VERIFY_TIMES 8

static uint64_t head_most(const struct frame *f)
{
	uint64_t taken = io_taken(f->io), most = f->info.chunk_size;
	if (taken < most / VERIFY_TIMES)
		most = VERIFY_TIMES * taken;
	return max_u64(VERIFY_HEAD, most);
}

/* A chunk of which only the head is loaded: block 0, which delta needs, may be half a gigabyte. */
struct head {
	struct scratch *s;
	struct chunk c;
	bool large; /* large heads are loaded one at a time: held.h */
};

/* Call head_done even if this fails. */
static int head_load(const struct frame *f, const struct stored *st, struct head *h)
{
	*h = (struct head){0};
	TRY(scratch_open(&h->s));
	scratch_bound(h->s, HELD_FREE);
	int rc = stored_load_head(st, 0, h->s, &h->c);
	if (rc != -E2BIG)
		return rc;
	h->large = true;
	held_enter(VERIFY_HEAD);
	scratch_bound(h->s, head_most(f));
	return stored_load_head(st, 0, h->s, &h->c);
}

static void head_done(struct head *h)
{
	chunk_deinit(&h->c);
	scratch_close(h->s);
	if (h->large)
		held_leave(VERIFY_HEAD);
}

static int verify_parts(const struct frame *f, const struct stored *st, uint32_t *len)
{
	struct head h;
	int rc = head_load(f, st, &h);
	if (rc == -ENOTSUP || rc == -E2BIG) /* the chunk never got there: recovery goes on */
		rc = CORRUPT("head of a chunk", st->at);
	*len = h.c.cbytes;
	if (rc == 0 && h.c.sums)
		rc = stored_check_blocks(st, &h.c, h.s);
	head_done(&h);
	return rc;
}

static int verify_stored(const struct frame *f, const struct stored *st, uint32_t *len)
{
	if (chunk_sum_is_of_head(st->sum))
		return verify_parts(f, st, len);
	TRY(stored_length(st, len));
	return stored_check(st, *len);
}

/*
 * Computes the checksum of a chunk that has none yet. If its blocks have checksums, those must
 * match; a chunk that we do not understand was written by another program, and counts as one
 * without.
 */
static int make_sum(const struct frame *f, const struct stored *st, uint32_t len, uint64_t *sum)
{
	struct head h;
	uint64_t hash;
	bool by_head = head_load(f, st, &h) == 0 && h.c.sums;
	int rc = by_head ? stored_check_blocks(st, &h.c, h.s) : 0;
	if (rc == 0)
		rc = io_hash(st->io, st->at, by_head ? h.c.sums_end : len, &hash);
	if (rc == 0)
		*sum = by_head ? chunk_sum_head(hash) : chunk_sum_whole(hash);
	head_done(&h);
	return rc;
}

/* Looks whether the space is still free after reading, which may take the disk long. */
int frame_copy_bytes(struct frame *f, uint64_t from, uint64_t to, uint32_t len)
{
	struct buf b = {0};
	int rc = buf_reserve(&b, min_u64(len, IO_STEP));
	for (uint32_t done = 0; rc == 0 && done < len; done += (uint32_t)b.n) {
		b.n = min_u64(len - done, IO_STEP);
		rc = io_pread(f->io, from + done, buf_span(&b));
		if (rc == 0 && frame_is_overtaken(f))
			rc = -ESTALE;
		if (rc == 0)
			rc = io_pwrite(f->io, to + done, buf_view(&b));
	}
	buf_free(&b);
	return rc;
}

int frame_copy_chunk(struct frame *f, uint32_t n, struct frame_place *p)
{
	struct stored from;
	uint32_t len;
	TRY(frame_stored(f, n, &from));
	if (!from.sum)
		TRY(make_sum(f, &from, p->len, &from.sum));
	struct stored to = from;
	to.io = f->io;
	to.at = p->at;
	to.room = p->len;
	p->sum = from.sum;
	TRY(frame_copy_bytes(f, from.at, to.at, p->len));
	return verify_stored(f, &to, &len);
}

/* Verifies a chunk whose checksum is known. */
static int verify_chunk(struct frame *f, uint32_t n, uint32_t *len)
{
	struct stored st;
	TRY(frame_stored(f, n, &st));
	*len = 0;
	int rc = verify_stored(f, &st, len);
	*len = (uint32_t)min_u64(*len, st.room); /* garbage may claim any length */
	frame_stored_done(f, &st);
	return rc;
}

/*
 * Verifies chunks *at .. to - 1, as far as their checksums are known and the budget lasts. *at
 * advances to the next stored chunk, so holes are passed only once.
 */
static int prove(struct frame *f, uint32_t *at, uint32_t to, uint64_t *budget)
{
	uint32_t len = 0;
	int rc = 0;
	for (; rc == 0 && *budget; ++*at) {
		*at = index_next_stored(&f->index, *at);
		if (*at >= to)
			break;
		if (!frame_sum(f, *at))
			continue;
		rc = verify_chunk(f, *at, &len);
		*budget -= min_u64(*budget, len);
	}
	return rc;
}

static int compare_runs(const void *a, const void *b)
{
	uint64_t x = ((const struct young_run *)a)->first, y = ((const struct young_run *)b)->first;
	return (x > y) - (x < y);
}

/*
 * Verifies each chunk once, however many runs have it: a few bytes of runs may name a quarter of a
 * billion chunks over and over. And since our chunks do not overlap, no more bytes are read than
 * the chunk area has.
 */
static int prove_runs(struct frame *f, struct young_run *run, size_t n, uint64_t *budget)
{
	uint64_t most = min_u64(*budget, f->info.cbytes), left = most;
	uint32_t at = 0;
	int rc = 0;
	if (!f->sums.n) /* no checksum is known */
		return 0;
	qsort(run, n, sizeof *run, compare_runs);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		at = (uint32_t)max_u64(at, min_u64(run[i].first, f->index.n));
		rc = prove(f, &at, (uint32_t)min_u64(run[i].end, f->index.n), &left);
	}
	*budget -= most - left;
	return rc;
}

int frame_prove_young(struct frame *f, struct view runs, uint64_t *budget)
{
	struct young_run run[YOUNG_MAX_RUNS];
	size_t n = 0;
	assert(runs.n <= YOUNG_MAX_RUNS * YOUNG_RUN_BYTES);
	while (young_next(&runs, &run[n]))
		n++;
	return prove_runs(f, run, n, budget);
}

int frame_prove_all(struct frame *f, uint64_t *budget)
{
	struct young_run all = {0, f->index.n};
	return prove_runs(f, &all, 1, budget);
}
