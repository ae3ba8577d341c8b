/*
 * Is the root on disk the one that this frame knows? Where other programs may change the file, that
 * is checked before anything builds on the root.
 */
#include "frame/format/trailer.h"
#include "frame/frame_impl.h"
#include "frame/io/hash.h"

uint64_t frame_root_id(const struct frame_info *info, struct fingerprint fp)
{
	/*
	 * Not the whole header: the reference notes its number of threads in it, which changes
	 * nothing.
	 */
	const uint64_t all[] = {info->nbytes,     info->frame_len,   info->cbytes,
				info->header_len, info->trailer_len, info->chunk_size,
				info->type_size,  fp.type,           fp.hash,
				fp.word};
	return sum64_not_0(view_of(all, sizeof all));
}

/* Another program's root has no fingerprint: a hash of index and trailer stands in for it. */
static int read_root_id(struct io *io, uint64_t *id, bool *ours)
{
	uint8_t end[TRAILER_PRINT];
	struct frame_info info;
	TRY(frame_read_info(io, FRAME_CONTIGUOUS, &info));
	TRY(io_pread(io, info.frame_len - sizeof end, span_of(end, sizeof end)));
	struct fingerprint fp = trailer_fingerprint(view_of(end, sizeof end));
	*ours = fp.type == TRAILER_TYPE_64;
	if (!*ours) {
		uint64_t at = info.nbytes ? frame_index_at(&info) : info.header_len;
		fp = (struct fingerprint){.type = fp.type};
		TRY(io_hash(io, at, info.frame_len - at, &fp.hash));
	}
	*id = frame_root_id(&info, fp);
	return 0;
}

void frame_identify_root(struct frame *f)
{
	bool ours;
	if (read_root_id(f->io, &f->root_id, &ours) < 0)
		f->root_id = 0;
}

void frame_remember_root(struct frame *f)
{
	if (!f->root_id)
		frame_identify_root(f);
}

/*
 * True: the file still has all chunks put since. Whoever else writes a root also truncates the file
 * after it, where those may be.
 */
static bool is_all_there(struct frame *f)
{
	uint64_t end, len;
	return frame_live_end(f, &f->index, &end) == 0 && io_size(f->io, &len) == 0 && end <= len;
}

enum root_match frame_compare_root(struct frame *f)
{
	uint64_t id = 0;
	bool ours = false;
	if (!f->root_id || read_root_id(f->io, &id, &ours) < 0 || id != f->root_id ||
	    !is_all_there(f))
		return ROOT_OTHER;
	return ours ? ROOT_SAME : ROOT_ALIKE;
}
