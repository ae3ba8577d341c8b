#include "fs/read/fetch_memory.h"

#include "fs/read/fetch_impl.h"

#include <assert.h>

/* What may be taken now, here and in the scratch. */
static uint64_t bound(const struct fetch *x)
{
	return max_u64(x->loan.bytes, LARGE_FREE);
}

static void set_loan(struct fetch *x, uint64_t bytes)
{
	x->loan.bytes = bytes;
	scratch_bound(x->ws->scratch, bound(x));
}

int fetch_want_memory(struct fetch *x, uint64_t bytes, uint32_t block)
{
	x->loan.want = bytes;
	x->loan.block = block;
	return -E2BIG;
}

int fetch_ask_memory(struct fetch *x, uint64_t bytes, uint32_t block)
{
	return bytes <= bound(x) ? 0 : fetch_want_memory(x, bytes, block);
}

uint64_t fetch_head_memory(const struct fetch *x)
{
	size_t n = chunk_footprint(&x->lazy->chunk);
	return n > LARGE_FREE ? n : 0;
}

void fetch_use_memory(struct fetch *x)
{
	struct fetch_loan *l = &x->loan;

	if (l->used == l->bytes)
		return;
	large_use(x->f->fs->large, l->bytes - l->used);
	l->used = l->bytes;
}

void fetch_give_memory(struct fetch *x, uint64_t keep)
{
	struct fetch_loan *l = &x->loan;

	if (l->bytes <= keep)
		return;
	scratch_trim(x->ws->scratch); /* other parts of the workspace may be in use */
	uint64_t used = min_u64(l->used, keep);
	large_give(x->f->fs->large, l->bytes - keep, l->used - used);
	l->used = used;
	set_loan(x, keep);
}

/* Logged once for each file: readers try again, page by page. */
static void refuse(struct fetch *x, uint64_t bytes)
{
	struct fs *fs = x->f->fs;
	uint64_t more = bytes - large_most(fs->large) + cache_max(fs->cache);

	if (atomic_exchange(&x->f->inode->told.large_block, true))
		return;
	file_log_err(x->f, "chunk %u: reading a block of %u bytes takes %llu MiB of memory; "
			   "-o cache=%lluM would allow it",
		     x->n, x->loan.block, (unsigned long long)ceil_div(bytes, 1 << 20),
		     (unsigned long long)ceil_div(more, 1 << 20));
}

/* Waits for what the last step wanted. */
static int take_loan(struct fetch *x)
{
	uint64_t want = x->loan.want;

	if (!want)
		return 0; /* another reader's fill was refused; ours need not be */
	assert(want > x->loan.bytes);
	x->loan.want = 0;
	fetch_give_memory(x, 0);
	int rc = large_take(x->f->fs->large, want);
	if (rc < 0) {
		refuse(x, want);
		return rc;
	}
	set_loan(x, want);
	return 0;
}

int fetch_with_memory(struct fetch *x, int (*step)(struct fetch *x))
{
	int rc;

	while ((rc = step(x)) == -E2BIG)
		TRY(take_loan(x));
	fetch_give_memory(x, 0);
	return rc;
}
