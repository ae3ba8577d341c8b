#include "frame/chunk_sum.h"
#include "base/sum.h"

static uint64_t of_head(const struct chunk *c, struct view head)
{
	return chunk_sum_head(sum64(view_part(head, 0, c->sums_end)));
}

#define ANY_ITEM 1 /* nothing is decoded */

/*
 * Parses a chunk to find the checksums of its blocks, c->sums. A chunk that we do not understand
 * was written by another program, and counts as one without checksums: it can be moved all the
 * same.
 */
static int look(struct chunk *c, struct view cchunk)
{
	int rc = chunk_parse(c, cchunk, cchunk.n, ANY_ITEM);
	if (rc == -ENOMEM)
		return rc;
	if (rc != 0)
		chunk_deinit(c);
	return 0;
}

uint64_t chunk_sum_make(struct view cchunk)
{
	struct chunk c = {0};
	uint64_t sum = CHUNK_SUM_NONE;
	if (look(&c, cchunk) == 0)
		sum = c.sums ? of_head(&c, cchunk) : chunk_sum_whole(sum64(cchunk));
	chunk_deinit(&c);
	return sum;
}

int chunk_sum_check_head(uint64_t sum, const struct chunk *c, struct view head)
{
	if (!chunk_sum_is_of_head(sum) || (c->sums && of_head(c, head) == sum))
		return 0;
	return CORRUPT("checksum of the head of a chunk", c->cbytes);
}

static int check_blocks(uint64_t sum, struct view cchunk)
{
	struct chunk c = {0};
	int rc = look(&c, cchunk);
	if (rc == 0)
		rc = chunk_sum_check_head(sum, &c, cchunk);
	if (rc == 0 && c.sums) {
		struct run all = {0, c.nblocks};
		struct extent e = chunk_extent(&c, all);
		rc = chunk_check(&c, all, view_part(cchunk, e.off, e.len));
	}
	chunk_deinit(&c);
	return rc;
}

int chunk_sum_check(uint64_t sum, struct view cchunk)
{
	if (sum == CHUNK_SUM_NONE || chunk_sum_is_of_head(sum))
		return check_blocks(sum, cchunk);
	if (chunk_sum_whole(sum64(cchunk)) != sum)
		return CORRUPT("checksum of a chunk", cchunk.n);
	return 0;
}
