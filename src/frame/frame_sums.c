/*
 * A checksum for each stored chunk (chunk_sum.h): computed when the chunk is written, kept beside
 * the index, and verified whenever the bytes that it covers are at hand.
 */
#include "frame/frame_impl.h"

#include <assert.h>

#define SUM_NONE NUMBER_NEW

static uint32_t max_sums = ROOT_MAX_SUMS;

void frame_sums_bound(uint32_t most)
{
	max_sums = most;
}

uint64_t frame_sum(const struct frame *f, uint32_t n)
{
	if (n >= f->sums.n)
		return 0;
	uint64_t sum = numbers_get(&f->sums, n);
	return sum == SUM_NONE ? 0 : sum;
}

uint64_t frame_stored_sum(const struct frame *f, uint32_t n)
{
	uint64_t sum = frame_slot(f, n) == SLOT_STORED ? frame_sum(f, n) : 0;
	return chunk_sum_is_of_head(sum) ? 0 : sum;
}

uint32_t frame_count_block_sums(const struct frame *f)
{
	uint32_t n = 0;
	if (!f->sums.n) /* none is known, however many chunks there are */
		return 0;
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

void frame_sums_note(struct frame *f, uint32_t n, uint64_t sum)
{
	/* That can only fail on a folded page, where no checksum is known. */
	if (!numbers_set(&f->sums, n, sum ? sum : SUM_NONE))
		assert(frame_sum(f, n) == 0);
}

/* Takes over the checksums of a run's stored chunks, which begin at p. Returns their number. */
static uint32_t load_run(struct numbers_run run, const uint8_t *p, bool whole, uint64_t *to)
{
	uint32_t n = 0;
	for (uint32_t k = 0; k < run.n; k++) {
		if (!entry_is_stored(run.slot ? run.slot[k] : run.same))
			continue;
		uint64_t sum = get_le64(p + 8 * n++);
		to[k] = !sum ? SUM_NONE : whole ? chunk_sum_whole(sum) : sum;
	}
	return n;
}

int frame_sums_load(struct frame *f, const struct root_note *note)
{
	struct view sums = note->sums;
	struct numbers_run run;
	if (sums.n == 0)
		return 0;
	if (sums.n != 8 * (uint64_t)index_count_stored(&f->index))
		return CORRUPT("number of checksums", sums.n / 8);
	TRY(numbers_resize(&f->sums, f->index.n));
	for (uint32_t i = 0; (i = index_next_stored(&f->index, i)) < f->index.n; i += run.n) {
		uint64_t *to = numbers_own(&f->sums, i);
		if (!to)
			return -ENOMEM;
		run = numbers_run(&f->index, i);
		uint32_t n = load_run(run, sums.p, note->whole_sums, to);
		sums = view_from(sums, 8 * n);
	}
	return 0;
}

bool frame_sums_fit(const struct numbers *ix)
{
	return ix->n <= max_sums || index_count_stored(ix) <= max_sums;
}

int frame_sums_pack(const struct frame *f, const struct numbers *ix, struct buf *out)
{
	out->n = 0;
	if (!frame_sums_fit(ix))
		return 0;
	uint32_t nstored = index_count_stored(ix), nknown = 0;
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
