/* Queries of the index: which bytes a chunk holds, and whether it is stored. */
#include "frame/frame_impl.h"
#include "frame/range.h"

#include <assert.h>

uint64_t frame_size(const struct frame *f)
{
	return f->nbytes;
}

uint32_t frame_nchunks(const struct frame *f)
{
	return f->index.n;
}

struct frame_span frame_chunk_span(const struct frame *f, uint32_t n)
{
	assert(n < f->index.n);
	if (f->start)
		return (struct frame_span){f->start[n], (uint32_t)(f->start[n + 1] - f->start[n])};
	uint64_t start = (uint64_t)n * f->info.chunk_size;
	return (struct frame_span){start, (uint32_t)min_u64(f->info.chunk_size, f->nbytes - start)};
}

uint32_t frame_stored_len(const struct frame *f, uint32_t n)
{
	return n == f->stale ? f->stale_len : frame_chunk_span(f, n).len;
}

uint32_t frame_chunk_at(const struct frame *f, uint64_t at)
{
	assert(at < f->nbytes);
	if (!f->start)
		return range_chunk(at, f->info.chunk_size);
	/* The last chunk that starts at or before the byte, which is never an empty one. */
	uint32_t lo = 0, hi = f->index.n;
	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (f->start[mid] <= at)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static enum slot_kind slot_of(uint64_t entry)
{
	if (entry_is_stored(entry))
		return SLOT_STORED;
	return entry == ENTRY_NAN ? SLOT_NAN : entry == ENTRY_UNINIT ? SLOT_UNINIT : SLOT_ZEROS;
}

enum slot_kind frame_slot(const struct frame *f, uint32_t n)
{
	return slot_of(numbers_get(&f->index, n));
}

void frame_count_slots(const struct frame *f, uint32_t count[static SLOT_KINDS])
{
	struct numbers_run r;
	memset(count, 0, SLOT_KINDS * sizeof *count);
	for (uint32_t i = 0; i < f->index.n; i += r.n) {
		r = numbers_run(&f->index, i);
		if (!r.slot)
			count[slot_of(r.same)] += r.n;
		for (uint32_t k = 0; r.slot && k < r.n; k++)
			count[slot_of(r.slot[k])]++;
	}
}

static bool is_hole(uint64_t entry)
{
	enum slot_kind slot = slot_of(entry);
	return slot == SLOT_ZEROS || slot == SLOT_UNINIT;
}

static bool is_data(uint64_t entry)
{
	return !is_hole(entry);
}

bool frame_is_hole(const struct frame *f, uint32_t n)
{
	return is_hole(numbers_get(&f->index, n));
}

uint32_t frame_next_hole(const struct frame *f, uint32_t n)
{
	return numbers_find(&f->index, n, is_hole);
}

uint32_t frame_next_data(const struct frame *f, uint32_t n)
{
	return numbers_find(&f->index, n, is_data);
}

bool frame_slot_is_new(const struct frame *f, uint32_t n)
{
	uint64_t entry = numbers_get(&f->index, n);
	return entry_is_stored(entry) && space_busy_length(&f->space, f->info.header_len + entry);
}
