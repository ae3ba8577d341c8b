#include "codec/block_sums.h"
#include "base/sum.h"
#include "codec/chunk_impl.h"

#define MARK 0x31534643u /* "CFS1" */
#define AT_SUMS 4        /* the sums of blocks, after the mark */

size_t block_sums_len(uint32_t nblocks)
{
	return nblocks < 2 ? 0 : AT_SUMS + 4 * (size_t)nblocks + 4;
}

uint32_t block_sums_of(struct view block)
{
	return (uint32_t)sum64(block);
}

void block_sums_put(uint8_t *table, uint32_t i, uint32_t sum)
{
	put_le32(table + AT_SUMS + 4 * (size_t)i, sum);
}

void block_sums_seal(uint8_t *chunk, size_t at, uint32_t nblocks)
{
	size_t last = at + AT_SUMS + 4 * (size_t)nblocks;
	put_le32(chunk + at, MARK);
	put_le32(chunk + last, block_sums_of(view_of(chunk, last)));
}

int block_sums_load(struct chunk *c, struct view head, uint64_t at)
{
	uint64_t end = at + block_sums_len(c->nblocks);
	if (c->nblocks < 2 || c->is_vl || c->bstart[0] != end)
		return 0;
	if (head.n < end)
		return (int)end;
	if (get_le32(head.p + at) != MARK)
		return 0;
	if (get_le32(head.p + end - 4) != block_sums_of(view_part(head, 0, end - 4)))
		return CORRUPT("checksum of the head of a chunk", c->cbytes);
	c->sums = mem_zalloc_array(c->nblocks, sizeof *c->sums);
	if (!c->sums)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->nblocks; i++)
		c->sums[i] = get_le32(head.p + at + AT_SUMS + 4 * (size_t)i);
	c->sums_end = (uint32_t)end;
	return 0;
}

int block_sums_check(const struct chunk *c, uint32_t i, struct view block)
{
	if (c->sums && block_sums_of(block) != c->sums[i])
		return CORRUPT("checksum of a block does not match", i);
	return 0;
}

int chunk_check(const struct chunk *c, struct run run, struct view stored)
{
	if (!c->sums || !run.n)
		return 0;
	uint32_t from = chunk_extent(c, run).off;
	for (uint32_t i = run.first; i < run.first + run.n; i++)
		TRY(block_sums_check(c, i, stored_block(c, i, stored, from)));
	return 0;
}

bool chunk_plain_fits(const struct chunk *c, uint32_t block, struct view bytes)
{
	uint8_t csize[STREAM_CSIZE];
	put_le32(csize, (uint32_t)bytes.n);
	return (uint32_t)sum64_of_two(view_of(csize, sizeof csize), bytes) == c->sums[block];
}
