#include "frame/range.h"

#include "base/bytes.h"

#include <assert.h>

struct range range_of(uint64_t at, uint64_t len, uint32_t chunk_size)
{
	assert(chunk_size > 0);
	assert(len <= UINT64_MAX - at);
	assert(range_nchunks(at + len, chunk_size) <= (uint64_t)UINT32_MAX + 1);
	return (struct range){.at = at, .end = at + len, .chunk_size = chunk_size};
}

bool range_next(struct range *r, struct piece *p)
{
	if (r->at >= r->end)
		return false;
	p->chunk = range_chunk(r->at, r->chunk_size);
	p->lo = range_within(r->at, r->chunk_size);
	p->hi = (uint32_t)min_u64(r->chunk_size, p->lo + (r->end - r->at));
	r->at += p->hi - p->lo;
	return true;
}

uint32_t range_chunk(uint64_t at, uint32_t chunk_size)
{
	assert(chunk_size > 0);
	assert(at / chunk_size <= UINT32_MAX);
	return (uint32_t)(at / chunk_size);
}

uint32_t range_within(uint64_t at, uint32_t chunk_size)
{
	assert(chunk_size > 0);
	return (uint32_t)(at % chunk_size);
}

uint64_t range_nchunks(uint64_t nbytes, uint32_t chunk_size)
{
	assert(chunk_size > 0);
	return ceil_div(nbytes, chunk_size);
}
