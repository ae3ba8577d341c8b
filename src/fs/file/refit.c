#include "fs/file/refit.h"

#include "fs/file/drain.h"
#include "fs/workspace.h"

#include <errno.h>

/*
 * A file whose length has come to end within an item is encoded again, as policy.h says, so that
 * the reference can read every slice of it; and so are some chunks once the length is whole items
 * again. For a file larger than this, that would cost too much: its chunks stay.
 */
#define REFIT_MOST (16u << 20)

static bool must_become_bytewise(struct file *f)
{
	uint64_t size = frame_size(f->frame);

	return f->maybe_typed && size <= REFIT_MOST &&
	       policy_wants_bytewise(&f->policy, size, f->chunk_size);
}

/*
 * The header had 1 as the item size, and has the true one again from this commit on, if not before.
 */
static bool must_have_items(struct file *f)
{
	uint64_t size = frame_size(f->frame);
	uint32_t item = frame_chunk_item(f->frame);

	return f->maybe_foreign && size <= REFIT_MOST && item > 1 && size % item == 0 &&
	       f->chunk_size % item == 0;
}

typedef bool unfit_fn(const struct file *f, const struct chunk *c);

/* The chunk has items of more than a byte. */
static bool is_typed(const struct file *f, const struct chunk *c)
{
	(void)f;
	return c->typesize > 1;
}

/* A chunk that the reference wrote while the header had 1, and cannot read beside other chunks. */
static bool is_foreign(const struct file *f, const struct chunk *c)
{
	return c->typesize == 1 && (c->kind == CHUNK_VALUE ||
				    c->blocksize % frame_chunk_item(f->frame) == 0);
}

/* A hole has the items that the header names. */
static bool is_unfit(struct file *f, uint32_t n, struct workspace *ws, unfit_fn *unfit)
{
	struct chunk c = {0};
	bool is = !frame_is_hole(f->frame, n) &&
		  frame_load_chunk(f->frame, n, ws->scratch, &c) >= 0 && unfit(f, &c);
	chunk_deinit(&c);
	return is;
}

/*
 * Makes chunk n DIRTY as a whole, so that it is encoded and stored again. If no root refers to its
 * space, that is freed first, so that the new chunk need not go after it. Otherwise the old chunk
 * stays as long as the new one may still be lost. A chunk that cannot be read stays as well,
 * without failing the others.
 */
static int store_anew(struct file *f, uint32_t n)
{
	struct dirty_chunk *c;

	int rc = dirty_get_whole(f, n, &c);
	if (rc == -EBADMSG || rc == -ENOTSUP || rc == -EIO)
		return 0;
	TRY(rc);
	if (!frame_slot_is_new(f->frame, n))
		return 0;
	c->must_store = true; /* no root may say that it is a hole */
	frame_put_zeros(f->frame, n);
	return 0;
}

/*
 * Stores again the chunks that do not suit the length of the file: it is no longer a whole number
 * of items, so that they must not have items (policy.h); or it is one again. The other chunks of
 * this commit are stored again as well: they lie between the former, which would leave gaps.
 * *may_be: whether the file may have such chunks.
 */
static int store_all_anew(struct file *f, unfit_fn *unfit, bool *may_be)
{
	struct workspace *ws = workspace_get();
	bool any = false;
	int rc = 0;

	if (!ws)
		return -ENOMEM;
	pthread_rwlock_wrlock(&f->lock);
	for (uint32_t n = 0; rc >= 0 && n < frame_nchunks(f->frame); n++)
		if (is_unfit(f, n, ws, unfit)) {
			rc = store_anew(f, n);
			any = true;
		}
	for (uint32_t n = 0; any && rc >= 0 && n < frame_nchunks(f->frame); n++)
		if (frame_slot_is_new(f->frame, n))
			rc = store_anew(f, n);
	*may_be = rc < 0; /* the next commit goes on with the rest */
	pthread_rwlock_unlock(&f->lock);
	return rc < 0 ? rc : file_drain(f);
}

/*
 * This loads all of the file into memory without waiting for the budget, since a writer that waits
 * there may need the gate. So it is done for one file at a time.
 */
static int store_unfit(struct file *f, unfit_fn *unfit, bool *may_be)
{
	pthread_mutex_lock(&f->fs->refitting);
	int rc = store_all_anew(f, unfit, may_be);
	pthread_mutex_unlock(&f->fs->refitting);
	return rc;
}

int file_refit(struct file *f)
{
	if (must_become_bytewise(f))
		return store_unfit(f, is_typed, &f->maybe_typed);
	return must_have_items(f) ? store_unfit(f, is_foreign, &f->maybe_foreign) : 0;
}
