/*
 * A checksum for each stored chunk (chunk_sum.h): made where the bytes pass by, kept beside the
 * index, looked at whenever all bytes of a chunk are in hand.
 */
#include "frame/frame_impl.h"
#include "frame/stage.h"

#include <assert.h>
#include <errno.h>

#define SUM_NONE ENTRY_ZEROS /* what index_resize fills with */

uint64_t frame_sum(const struct frame *f, uint32_t n)
{
	if (n >= f->sums.n)
		return 0;
	uint64_t sum = index_get(&f->sums, n);
	return sum == SUM_NONE ? 0 : sum;
}

uint32_t frame_count_block_sums(const struct frame *f)
{
	uint32_t n = 0;
	for (uint32_t i = 0; (i = index_next_stored(&f->index, i)) < f->index.n; i++)
		n += chunk_sum_is_of_head(frame_sum(f, i));
	return n;
}

bool frame_stores(const struct frame *f, uint32_t n, struct view cchunk)
{
	uint64_t sum = frame_slot(f, n) == SLOT_STORED ? frame_sum(f, n) : 0;
	if (sum && !chunk_sum_is_of_head(sum))
		return chunk_sum_check(sum, cchunk) == 0;
	return sum && sum == chunk_sum_make(cchunk);
}

int frame_sums_fly(struct frame *f, uint64_t at, uint32_t len, uint64_t sum)
{
	struct flying *fl = &f->flying;
	struct flying_sum now = {at, len, sum};
	int rc = 0;
	pthread_mutex_lock(&fl->lock);
	if (fl->n == fl->cap) {
		uint32_t cap = fl->cap ? 2 * fl->cap : 8;
		struct flying_sum *list = mem_realloc(fl->list, cap * sizeof *list);
		if (list) {
			fl->list = list;
			fl->cap = cap;
		}
		rc = list ? 0 : -ENOMEM;
	}
	if (rc == 0)
		fl->list[fl->n++] = now;
	pthread_mutex_unlock(&fl->lock);
	return rc;
}

static uint64_t land(struct frame *f, uint64_t at, uint64_t len)
{
	struct flying *fl = &f->flying;
	uint64_t sum = 0;
	pthread_mutex_lock(&fl->lock);
	for (uint32_t i = fl->n; i-- > 0;) {
		if (fl->list[i].at != at)
			continue;
		if (fl->list[i].len == len)
			sum = fl->list[i].sum;
		fl->list[i] = fl->list[--fl->n];
	}
	pthread_mutex_unlock(&fl->lock);
	return sum;
}

void frame_sums_forget(struct frame *f, uint64_t at)
{
	(void)land(f, at, 0);
}

void frame_sums_put(struct frame *f, uint32_t n, uint64_t at, uint32_t len)
{
	uint64_t sum = land(f, at, len);
	/* Without memory it stays unknown: a page without slots holds nothing else. */
	if (!index_set(&f->sums, n, sum ? sum : SUM_NONE))
		assert(frame_sum(f, n) == 0);
}

/* Of the stored chunks of a run, from p on. Returns how many there were. */
static uint32_t load_run(struct index_run run, const uint8_t *p, bool whole, uint64_t *to)
{
	uint32_t n = 0;
	for (uint32_t k = 0; k < run.n; k++) {
		if ((run.slot ? run.slot[k] : run.same) & ENTRY_SPECIAL)
			continue;
		uint64_t sum = get_le64(p + 8 * n++);
		to[k] = !sum ? SUM_NONE : whole ? chunk_sum_whole(sum) : sum;
	}
	return n;
}

int frame_sums_load(struct frame *f, const struct root_note *note)
{
	struct view sums = note->sums;
	struct index_run run;
	if (sums.n == 0)
		return 0;
	if (sums.n != 8 * (uint64_t)index_count_stored(&f->index))
		return CORRUPT("number of checksums", sums.n / 8);
	TRY(index_resize(&f->sums, f->index.n));
	for (uint32_t i = 0; (i = index_next_stored(&f->index, i)) < f->index.n; i += run.n) {
		uint64_t *to = index_own(&f->sums, i);
		if (!to)
			return -ENOMEM;
		run = index_run(&f->index, i);
		uint32_t n = load_run(run, sums.p, note->whole_sums, to);
		sums = view_part(sums, 8 * n, sums.n - 8 * n);
	}
	return 0;
}

/* Nothing at all when none is known, or when they would be too many. */
int frame_sums_pack(const struct frame *f, const struct index *ix, struct buf *out)
{
	uint32_t nstored = index_count_stored(ix), nknown = 0;
	out->n = 0;
	if (nstored > ROOT_MAX_SUMS)
		return 0;
	TRY(buf_reserve_fresh(out, nstored * 8));
	uint8_t *p = out->p;
	for (uint32_t i = 0; (i = index_next_stored(ix, i)) < ix->n; i++, p += 8) {
		uint64_t sum = frame_sum(f, i);
		put_le64(p, sum);
		nknown += sum != 0;
	}
	out->n = nknown ? nstored * 8 : 0;
	return 0;
}

void frame_young_add(struct frame *f, uint32_t n, uint32_t len)
{
	struct buf *b = &f->young;
	uint8_t run[8];
	f->young_bytes += len;
	if (f->young_many)
		return;
	if (b->n) {
		uint8_t *last = b->p + b->n - 8;
		uint32_t first = get_le32(last), count = get_le32(last + 4);
		if (n >= first && n - first < count)
			return;
		if (n - first == count) {
			put_le32(last + 4, count + 1);
			return;
		}
	}
	put_le32(run, n);
	put_le32(run + 4, 1);
	if (b->n / 8 >= FRAME_MAX_YOUNG || buf_append(b, view_of(run, 8)) < 0)
		f->young_many = true;
}

void frame_young_clear(struct frame *f)
{
	f->young.n = 0;
	f->young_many = false;
	f->young_bytes = 0;
}

/* So much of a chunk is in memory while it is verified. A file may hold chunks of 2 GiB. */
#define VERIFY_STEP (1u << 20)

/*
 * Memory for its head. A block takes 28 bytes at most there (stored.c), and no writer makes blocks
 * of less than 32. With delta the first block belongs to it: as it is stored, decoded, and twice
 * between filters, and may be half of the chunk. What needs more than all that is garbage.
 */
#define VERIFY_HEAD (16u << 20)

static uint64_t head_most(const struct frame *f)
{
	return max_u64(VERIFY_HEAD, 4 * (uint64_t)f->info.chunk_size);
}

/* A block that is longer than a step. */
static int verify_long(const struct stored *st, const struct chunk *c, uint32_t block)
{
	uint64_t hash;
	uint32_t at = c->bstart[block];
	TRY(stored_hash(st, at, c->bend[block] - at, &hash));
	return (uint32_t)hash == c->sums[block] ? 0 : CORRUPT("checksum of a block", block);
}

/* Blocks that have checksums lie in order. */
static int verify_blocks(const struct stored *st, const struct chunk *c)
{
	for (uint32_t b = 0, n; b < c->nblocks; b += n) {
		uint32_t at = c->bstart[b];
		struct span bytes;
		for (n = 1; b + n < c->nblocks && c->bend[b + n] - at <= VERIFY_STEP;)
			n++;
		uint32_t len = c->bend[b + n - 1] - at;
		if (len > VERIFY_STEP) {
			TRY(verify_long(st, c, b));
			continue;
		}
		TRY(stage_get(len, &bytes));
		TRY(io_pread(st->io, st->at + at, bytes));
		TRY(chunk_check(c, (struct run){b, n}, span_view(bytes)));
	}
	return 0;
}

static int load_head(const struct stored *st, uint64_t most, struct chunk *c)
{
	struct scratch *s;
	TRY(scratch_open(&s));
	scratch_bound(s, most);
	int rc = stored_load(st, 0, s, c);
	scratch_close(s);
	return rc;
}

static int verify_parts(const struct stored *st, uint64_t most, uint32_t *len)
{
	struct chunk c = {0};
	int rc = load_head(st, most, &c);
	if (rc == -ENOTSUP || rc == -E2BIG) /* it never came to its place: recovery goes on */
		rc = CORRUPT("head of a chunk", st->at);
	*len = c.cbytes;
	if (rc == 0 && c.sums)
		rc = verify_blocks(st, &c);
	chunk_deinit(&c);
	return rc;
}

static int verify_whole(const struct stored *st, uint32_t *len)
{
	TRY(stored_length(st, len));
	return stored_check(st, *len);
}

static int verify_stored(const struct frame *f, const struct stored *st, uint32_t *len)
{
	return chunk_sum_is_of_head(st->sum) ? verify_parts(st, head_most(f), len)
					     : verify_whole(st, len);
}

/*
 * The checksum of a chunk of which none is known. Those of its blocks have to fit, if it has any; a
 * chunk that is not understood is one of others, without.
 */
static int make_sum(const struct frame *f, const struct stored *st, uint32_t len, uint64_t *sum)
{
	struct chunk c = {0};
	uint64_t hash;
	bool by_head = load_head(st, head_most(f), &c) == 0 && c.sums;
	int rc = by_head ? verify_blocks(st, &c) : 0;
	if (rc == 0)
		rc = stored_hash(st, 0, by_head ? c.sums_end : len, &hash);
	if (rc == 0)
		*sum = by_head ? chunk_sum_head(hash) : chunk_sum_whole(hash);
	chunk_deinit(&c);
	return rc;
}

int frame_copy_chunk(struct frame *f, uint32_t n, uint64_t at, uint32_t len, uint64_t *sum)
{
	struct stored from;
	TRY(frame_stored(f, n, &from));
	if (!from.sum)
		TRY(make_sum(f, &from, len, &from.sum));
	struct stored to = from;
	to.io = f->io;
	to.at = at;
	to.room = len;
	*sum = from.sum;
	TRY(stored_copy(&from, to.io, to.at, len));
	return verify_stored(f, &to, &len);
}

/* A chunk whose checksum is known. */
static int verify_chunk(struct frame *f, uint32_t n, uint32_t *len)
{
	struct stored st;
	TRY(frame_stored(f, n, &st));
	*len = 0;
	int rc = verify_stored(f, &st, len);
	*len = (uint32_t)min_u64(*len, st.room); /* garbage may claim to be more than was read */
	frame_stored_done(f, &st);
	return rc;
}

static int verify(struct frame *f, uint32_t from, uint32_t to, uint64_t *budget)
{
	uint32_t len = 0;
	int rc = 0;
	for (uint32_t i = from; rc == 0 && *budget; i++) {
		i = index_next_stored(&f->index, i);
		if (i >= to || i >= f->index.n)
			break;
		if (!frame_sum(f, i))
			continue;
		rc = verify_chunk(f, i, &len);
		*budget -= min_u64(*budget, len);
	}
	return rc;
}

int frame_verify_young(struct frame *f, struct view young, uint64_t *budget)
{
	for (size_t i = 0; i + 8 <= young.n; i += 8) {
		uint64_t first = get_le32(young.p + i), count = get_le32(young.p + i + 4);
		TRY(verify(f, (uint32_t)min_u64(first, f->index.n),
			   (uint32_t)min_u64(first + count, f->index.n), budget));
	}
	return 0;
}

int frame_verify_all(struct frame *f, uint64_t *budget)
{
	return verify(f, 0, f->index.n, budget);
}
