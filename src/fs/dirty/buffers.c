#include "fs/dirty/buffers.h"

#include "base/container.h"
#include "codec/codec.h"
#include "fs/dirty/dirty.h"
#include "fs/dirty/encode.h"

#include <stdlib.h>

/* A block of up to this size is filtered in buffers that each thread may keep (scratch.h). */
#define BLOCK_FREE (1u << 20)

/*
 * The size of a worker's buffers: the encoded chunk; its blocks for parallel encoding; where only
 * pages are dirty, the stored chunk and its decoded bytes; two buffers for a large block between
 * its filters; and the chunk once more where a dictionary is tried.
 */
static int64_t buffer_bytes(const struct dirty_chunk *c)
{
	struct pipeline p = policy_header(&c->file->policy);
	int64_t block = (int64_t)min_u64(p.blocksize, c->len);
	int64_t buffers = c->whole ? 1 + (c->bytes.n < c->len) : 3;

	buffers += (c->len <= ENCODE_SHARED_MAX) + p.use_dict;
	return buffers * c->len + (block > BLOCK_FREE ? 2 * block : 0);
}

/* The codec's tables: once for each worker that encodes a block of the chunk. */
static int64_t table_bytes(const struct dirty_chunk *c)
{
	struct file *f = c->file;
	struct pipeline p = policy_header(&f->policy);
	const struct codec *codec = codec_by_id(p.codec);
	uint64_t block = min_u64(p.blocksize, c->len), n = 1;

	int level = f->policy.level_auto ? BUDGET_LEVEL_MAX : p.level;

	if (!codec || !codec->encode_memory || !block)
		return 0;
	if (c->len <= ENCODE_SHARED_MAX)
		n = min_u64(ceil_div(c->len, block), f->fs->opt.workers);
	return (int64_t)(n * codec->encode_memory(level, block));
}

bool buffers_take(struct dirty_chunk *c)
{
	c->buffers = (struct budget_buffers){.bytes = buffer_bytes(c), .tables = table_bytes(c)};
	return budget_buffers_take(c->file->fs->budget, &c->buffers, c->file);
}

/* Larger buffers are taken out of the cache's share, smaller ones in addition to it. */
#define LARGE_BUFFERS (16ll << 20)

static void press(struct fs *fs, int64_t bytes)
{
	if (llabs(bytes) > LARGE_BUFFERS)
		large_press(fs->large, bytes);
}

void buffers_begin(struct fs *fs, const struct budget_buffers *held)
{
	press(fs, held->bytes + held->tables);
}

void buffers_end(struct fs *fs, const struct budget_buffers *held)
{
	struct budget_buffers *w;

	press(fs, -held->bytes - held->tables);
	if (!held->bytes)
		return;
	budget_buffers_give(fs->budget, held->bytes, held->tables);
	while ((w = budget_buffers_next(fs->budget)))
		pool_submit(fs->pool, &CONTAINER_OF(w, struct dirty_chunk, buffers)->job,
			    POOL_LATER);
}
