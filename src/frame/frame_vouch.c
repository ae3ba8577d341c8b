/* Makes the fingerprint of a durable root say so (root.h), without another commit. */
#include "frame/commit_impl.h"

/*
 * Replaces the fingerprint of the root on disk; `tail`: its bytes from the index on. Returns 1 if
 * that was tried.
 */
static int sign_again(struct frame *f, struct span tail)
{
	struct root_bytes r = {.head = buf_view(&f->head), .tail = tail};
	struct fingerprint fp = trailer_fingerprint(span_view(tail));
	if (fp.type != TRAILER_TYPE_64 || root_matches(&r) <= 0 || /* it must not be damaged */
	    root_sign(&r, f->latest ? ROOT_SYNCED : ROOT_CONFIRMED, &fp) < 0)
		return 0;
	f->changed = true;
	if (io_pwrite(f->io, f->info.frame_len - TRAILER_PRINT,
		      view_from(span_view(tail), tail.n - TRAILER_PRINT)) < 0)
		return 1;
	f->root_id = frame_root_id(&f->info, fp);
	f->word = fp.word;
	front_forget(f);
	TRY(frame_sync_io(f));
	return 1;
}

/*
 * The root on disk is durable, but its fingerprint does not say so. That lies in one sector, so if
 * rewriting it fails, the root is as good as before.
 */
int frame_vouch(struct frame *f)
{
	uint64_t at = frame_index_at(&f->info);
	struct buf tail = {0};
	if (!frame_unproven(f) || f->unsynced || f->state != FRAME_CLEAN ||
	    frame_compare_root(f) != ROOT_SAME)
		return 0;
	if (!f->info.nbytes)
		return front_confirm(f);
	if (commit_splits_print(f->info.frame_len))
		return 0;
	int rc = 0;
	if (io_pread_buf(f->io, at, f->info.frame_len - at, &tail) == 0)
		rc = sign_again(f, buf_span(&tail));
	buf_free(&tail);
	return rc;
}
