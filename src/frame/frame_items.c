/*
 * The item size of a frame: which one its header names, and where else it is noted when that has to
 * be 1. policy/policy.h says which faults of the reference all this is about.
 */
#include "frame/commit_impl.h"

static bool is_nan(uint64_t entry)
{
	return entry == ENTRY_NAN;
}

/* True: some chunk would decode differently with another item size in the header. */
static bool depends_on_type_size(const struct frame *f, const struct numbers *ix)
{
	/* NaN chunks are floats or doubles, depending on the item size */
	return filters_need_item(f->info.pipeline.filter, f->info.pipeline.meta) ||
	       numbers_find(ix, 0, is_nan) < ix->n;
}

uint32_t commit_type_size(const struct frame *f, const struct numbers *ix, uint64_t nbytes)
{
	uint32_t size = f->type_size;
	if (nbytes % size == 0 && f->info.chunk_size % size == 0)
		return size;
	return depends_on_type_size(f, ix) ? f->info.type_size : 1;
}

uint32_t frame_chunk_item(const struct frame *f)
{
	return f->type_size;
}

uint32_t frame_block_size(const struct frame *f, uint32_t item)
{
	uint32_t block = f->info.block_size, rest = block % item;
	return rest && rest == item - 1 ? block + 1 : block - rest;
}

/*
 * Chunks of items may exist while the header says 1: in a large file, or because of filters without
 * a bytewise form. The library makes holes, and its own chunks, with what the header says, and
 * reuses the buffers for those, which are too small for items, for any chunk whose blocks are no
 * larger (policy.h). So the header then gets a block size of one byte less.
 */
static void enter_block_size(struct frame *f, bool hidden)
{
	uint32_t item = f->type_size, block = frame_block_size(f, item);

	if (item > min_u64(CHUNK_MAX_TYPESIZE, f->info.chunk_size)) /* no chunk has such items */
		return;
	if (hidden) {
		block = (uint32_t)min_u64(block < item ? HOLE_BLOCK : block, f->info.chunk_size);
		block -= block % item + 1;
	}
	header_set_block_size(f->head.p, block);
}

void commit_enter_root(struct frame *f, const struct header_root *root)
{
	bool hidden = root->type_size < f->type_size;
	header_set_root(f->head.p, root);
	enter_block_size(f, hidden);
	if (hidden) /* else the item size of the chunks would be lost */
		header_note_item(f->head.p, f->type_size);
	else
		header_imply_item(f->head.p, root->type_size);
}

void frame_expect_items(struct frame *f, uint32_t size)
{
	if (f->type_size == 1 && !depends_on_type_size(f, &f->index))
		f->type_size = size;
}
