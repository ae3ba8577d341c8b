#include "fs/read/fetch_memory.h"

#include "base/log.h"
#include "fs/read/fetch_impl.h"

#include <assert.h>
#include <limits.h>

/* What may be taken now, here and in the scratch. */
static uint64_t bound(const struct fetch *x)
{
	return max_u64(x->memory, LARGE_FREE);
}

static void set_memory(struct fetch *x, uint64_t memory)
{
	x->memory = memory;
	scratch_bound(x->ws->scratch, bound(x));
}

int fetch_ask_memory(struct fetch *x, uint64_t bytes)
{
	if (bytes <= bound(x))
		return 0;
	x->want = bytes;
	return -E2BIG;
}

uint64_t fetch_head_memory(const struct fetch *x)
{
	size_t n = chunk_footprint(&x->lazy->chunk);
	return n > LARGE_FREE ? n : 0;
}

void fetch_use_memory(struct fetch *x)
{
	if (x->used == x->memory)
		return;
	large_use(x->f->fs->large, x->memory - x->used);
	x->used = x->memory;
}

void fetch_give_memory(struct fetch *x, uint64_t keep)
{
	if (x->memory > keep) {
		scratch_trim(x->ws->scratch); /* other parts of the workspace may be in use */
		uint64_t used = min_u64(x->used, keep);
		large_give(x->f->fs->large, x->memory - keep, x->used - used);
		x->used = used;
		set_memory(x, keep);
	}
}

/* Logged once for each file: readers try again, page by page. */
static void refuse(struct fetch *x, uint64_t bytes)
{
	struct fs *fs = x->f->fs;
	char name[NAME_MAX + 1];
	uint64_t more = bytes - large_most(fs->large) + cache_max(fs->cache);

	if (atomic_exchange(&x->f->inode->told.large_block, true))
		return;
	inode_log_name(fs->inodes, x->f->inode, name);
	log_err("%s: chunk %u: reading a block of %u bytes takes %llu MiB of memory; "
		"-o cache=%lluM would allow it",
		name, x->n, x->large_block, (unsigned long long)ceil_div(bytes, 1 << 20),
		(unsigned long long)ceil_div(more, 1 << 20));
}

int fetch_take_memory(struct fetch *x)
{
	uint64_t want = x->want;

	if (!want)
		return 0; /* another reader's fill was refused; ours need not be */
	assert(want > x->memory);
	x->want = 0;
	fetch_give_memory(x, 0);
	int rc = large_take(x->f->fs->large, want);
	if (rc < 0) {
		refuse(x, want);
		return rc;
	}
	set_memory(x, want);
	return 0;
}
