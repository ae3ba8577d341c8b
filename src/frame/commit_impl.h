/*
 * Shared by the files that write roots: frame_commit.c, and for the two kinds of roots,
 * frame_draft.c (with data) and frame_front.c (without). All functions need a writable frame and
 * exclusive access to it.
 */
#ifndef FRAME_COMMIT_IMPL_H
#define FRAME_COMMIT_IMPL_H

#include "frame/format/header.h"
#include "frame/frame_impl.h"

/* Which of the changes since the root on disk a new root has. */
enum changes {
	CHANGES_ALL,  /* all: a full commit                                                      */
	CHANGES_PART, /* some: more that belong with these follow, in another root (COMMIT_PART) */
	CHANGES_NONE, /* none: it has the same data, some of it moved to another place           */
};

/* A root that is to be written. */
struct new_root {
	uint64_t nbytes;       /* its decoded size                                            */
	struct numbers *index; /* borrowed; encoding it may fold pages. Empty roots have none */
	enum changes changes;
	bool durable;          /* everything is synced before its header is written           */
};

/*
 * Writes the header, which is in f->head already, and makes the new root the current one of *f.
 * From then on it may be on disk, even if this fails. `seq`: number of the root; 0: it has no note.
 * With CHANGES_NONE, what the pending changes have replaced stays retired, since the root still
 * refers to it.
 */
NODISCARD int commit_header(struct frame *f, const struct header_root *root, uint32_t trailer_len,
			    uint64_t seq, enum changes changes);

/* Syncs everything that was written, the newest root included. */
NODISCARD int commit_sync(struct frame *f);

/*
 * A number above those of all earlier roots, including any hidden by another program. The numbers
 * after it differ from it modulo COMMIT_RESIDUES, by which the position of a root's end is chosen
 * (frame_draft.c: slack_at).
 */
#define COMMIT_RESIDUES 32u
uint64_t commit_next_seq(const struct frame *f);

#define COMMIT_SECTOR 512u /* bytes that a disk writes atomically */

/*
 * True: the fingerprint of a trailer that ends at `end` spans two sectors. Torn between them, it
 * could look like another program's fingerprint.
 */
static inline bool commit_splits_print(uint64_t end)
{
	uint64_t over = end % COMMIT_SECTOR;
	return over && over < TRAILER_PRINT;
}

/*
 * frame_items.c. The item size for the header. The library's Python wrapper counts the super-chunk
 * and its chunks in items: a size that does not divide the lengths of both would hide the tail of
 * the data, or shift what follows a chunk.
 */
uint32_t commit_type_size(const struct frame *f, const struct numbers *ix, uint64_t nbytes);

/*
 * frame_items.c: enters the root into the header in memory, with everything that depends on its
 * item size.
 */
void commit_enter_root(struct frame *f, const struct header_root *root);

/* frame_draft.c: writes a root with data, and makes it the current one. */
NODISCARD int draft_commit(struct frame *f, const struct new_root *to);

/* frame_front.c: the same for the empty root. */
NODISCARD int front_commit(struct frame *f, const struct new_root *to);

/*
 * frame_vacate.c: moves the data of the root on disk away from the front, if any is there, by a
 * durable commit. Pending changes stay pending.
 */
NODISCARD int front_vacate(struct frame *f);

/*
 * For frame_vouch, returning what that does: gives the empty root on disk a number above those of
 * all roots in the file, and syncs.
 */
NODISCARD int front_confirm(struct frame *f);

/*
 * Invalidates the empty root at the front of the file. Once data is durable, recovery never needs
 * it, and damage must not make a file look empty. If this fails, nothing changes.
 */
void front_forget(struct frame *f);

#endif
