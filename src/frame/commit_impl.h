/*
 * What the two kinds of commits share: that of a root with data (frame_commit.c), and that of the
 * empty root (frame_front.c). All functions need a writable frame, and are called by its only
 * mutator.
 */
#ifndef FRAME_COMMIT_IMPL_H
#define FRAME_COMMIT_IMPL_H

#include "frame/format/header.h"
#include "frame/frame_impl.h"

/* What a root with data leads to. */
struct content {
	struct numbers *ix; /* borrowed; encoding it may fold pages */
	uint64_t nbytes;  /* decoded                              */
	bool part;  /* changes that belong to it are to come: COMMIT_PART            */
	bool moved; /* the same data as the root on disk, some of it at other places */
};

/* Writes index and trailer of a new root, and the header that makes it the current one. */
NODISCARD int commit_index(struct frame *f, const struct content *has, enum durability how);

/*
 * Writes the header, which is in f->head already, and makes the new root that of *f. From then on
 * it may be on disk, even if this fails. `seq`: number of the root; 0: it has no note. `moved`: as
 * in struct content; the root refers to chunks that the present index has dropped, and these go on
 * waiting.
 */
NODISCARD int commit_header(struct frame *f, const struct header_root *root, uint32_t trailer_len,
			    uint64_t seq, bool moved);

/* Syncs everything that was written, the newest root included. */
NODISCARD int commit_sync(struct frame *f);

/*
 * A number larger than those of all roots before, including those that another program hid. The
 * next 31 will have other residues modulo 32, by which a root's end is chosen.
 */
uint64_t commit_next_seq(const struct frame *f);

#define COMMIT_SECTOR 512u /* what a disk writes whole or not at all */

/*
 * True: the fingerprint of a trailer that ends at `end` lies in two sectors. Then one half could be
 * written without the other, and look like another program's fingerprint.
 */
static inline bool commit_splits_print(uint64_t end)
{
	uint64_t over = end % COMMIT_SECTOR;
	return over && over < TRAILER_PRINT;
}

/*
 * frame_items.c. The item size for the header. The library's Python wrapper counts a super-chunk
 * and its chunks in items: a size that does not divide both would hide the tail of the data, or
 * shift what follows a chunk.
 */
uint32_t commit_type_size(const struct frame *f, const struct numbers *ix, uint64_t nbytes);

/* frame_items.c: enters the root into the header in memory, with what its item size changes. */
void commit_enter_root(struct frame *f, const struct header_root *root);

/* frame_front.c: makes the empty root the current one. */
NODISCARD int front_commit(struct frame *f, enum durability how);

/*
 * For frame_vouch: gives the empty root on disk a number above those of all roots in the file, and
 * syncs. 1: done.
 */
NODISCARD int front_confirm(struct frame *f);

/*
 * Invalidates the empty root at the front of the file. Once data is durable nobody needs to go back
 * to it, and damage must not make a file look empty. If it fails, nothing changes.
 */
void front_forget(struct frame *f);

#endif
