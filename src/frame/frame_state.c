/*
 * What an open frame is, and what is known of the root on disk: answers from memory. The table in
 * frame_impl.h says what the latter depend on.
 */
#include "frame/frame_impl.h"

const struct frame_info *frame_info(const struct frame *f)
{
	return &f->info;
}

struct io *frame_io(const struct frame *f)
{
	return f->io;
}

bool frame_writable(const struct frame *f)
{
	return f->writable;
}

/*
 * Other programs put their first chunk right after the header, where our frames have the trailer of
 * the empty root.
 */
bool frame_is_ours(const struct frame *f)
{
	uint32_t first = index_next_stored(&f->index, 0);
	return f->had_note && (first == f->index.n || numbers_get(&f->index, first) > 0);
}

bool frame_meta(const struct frame *f, const char *name, struct view *content)
{
	const struct meta_entry *e = meta_find(&f->meta, name);
	if (e)
		*content = e->content;
	return e;
}

static bool entry_at(const struct meta *m, uint32_t i, const char **name, struct view *content)
{
	if (i >= m->n)
		return false;
	*name = m->entry[i].name;
	*content = m->entry[i].content;
	return true;
}

bool frame_meta_at(const struct frame *f, uint32_t i, const char **name, struct view *content)
{
	return entry_at(&f->meta, i, name, content);
}

bool frame_vlmeta_at(const struct frame *f, uint32_t i, const char **name, struct view *chunk)
{
	return entry_at(&f->vlmeta, i, name, chunk);
}

bool frame_dirty(const struct frame *f)
{
	return f->state != FRAME_CLEAN || f->ahead;
}

uint64_t frame_kept(const struct frame *f)
{
	return f->kept;
}

bool frame_is_part(const struct frame *f)
{
	return f->full != f->seq;
}

struct frame_roots frame_roots(const struct frame *f)
{
	struct frame_roots roots = f->roots;
	if (roots.newest) /* a COMMIT_PART may name a full commit that did not get to the disk */
		roots.newest = max_u64(roots.newest, f->full);
	/*
	 * Another program that removes all chunks leaves our note in place; our own empty roots
	 * have none.
	 */
	roots.emptied = !f->info.nbytes && !f->had_note && !f->went_back;
	return roots;
}

bool frame_went_back(const struct frame *f)
{
	return f->went_back;
}

bool frame_recovered(const struct frame *f)
{
	return f->recovered;
}

bool frame_latest(const struct frame *f)
{
	return f->latest;
}

void frame_set_latest(struct frame *f)
{
	f->latest = !f->went_back;
}

bool frame_unproven(const struct frame *f)
{
	return f->word > ROOT_CONFIRMED || (f->word == ROOT_SYNCED && !f->latest);
}

bool frame_suspect(const struct frame *f)
{
	return f->suspect;
}

void frame_set_suspect(struct frame *f)
{
	f->suspect = f->doubt = f->writable;
}
