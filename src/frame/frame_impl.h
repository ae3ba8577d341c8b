/*
 * The inside of struct frame, shared by frame.c (open, mutate), frame_read.c,
 * frame_commit.c and sframe.c, and by nobody else.
 */
#ifndef FRAME_FRAME_IMPL_H
#define FRAME_FRAME_IMPL_H

#include "frame/extent.h"
#include "frame/frame.h"
#include "frame/index.h"
#include "frame/meta.h"

#include <stdatomic.h>

/* How many chunks a frame that we write may have: 16 TiB of 1 MiB chunks, and 128 MiB of index. */
#define FRAME_MAX_CHUNKS (1u << 24)

/* A header or trailer longer than this is not read: it is kept in memory whole. */
#define FRAME_MAX_SECTION (64u << 20)

/* For a frame of others that never received data, and therefore has no chunk size. */
#define FRAME_DEFAULT_CHUNK (1u << 20)

enum frame_state { FRAME_CLEAN, FRAME_DIRTY, FRAME_COMMITTING, FRAME_BROKEN };

#define FRAME_NO_CHUNK UINT32_MAX

struct frame {
	struct io *io;           /* owned; of a sparse frame: its index file     */
	int dirfd;               /* owned; of a sparse frame, else -1            */
	enum frame_state state;
	int error;               /* BROKEN: what every commit answers            */
	bool writable;
	bool changed;            /* a commit of ours wrote a root                */
	bool doubt;              /* a failed write may have put another root on disk */
	bool unsynced;           /* the root on disk may not be durable yet      */
	struct frame_info info;  /* the root on disk                             */
	uint64_t nbytes;         /* with the changes since                       */
	struct index index;      /* likewise                                     */
	uint64_t *start;         /* variable sizes: n + 1 decoded offsets        */
	struct buf head;         /* header_len bytes; a commit patches the first */
	struct buf trailer;      /* copied behind every index                    */
	struct meta meta, vlmeta; /* borrow `head` and `trailer`                 */
	struct space space;      /* positions from the frame's start             */
	uint32_t type_size;      /* of an item, also while a tail hides it       */
	uint32_t stale;          /* stored chunk that frame_resize left for frame_put */
	_Atomic uint32_t hint;   /* block size last seen, 0: none. Readers race, harmlessly */
};

/* Where chunk n is stored: fills *st. For sparse frames opens the file: stored_done. */
NODISCARD int frame_stored(const struct frame *f, uint32_t n, struct stored *st);
void frame_stored_done(const struct frame *f, struct stored *st);

/* sframe.c */
NODISCARD int sframe_open_index(int dirfd, struct io **io);
NODISCARD int sframe_open_chunk(int dirfd, uint64_t id, struct io **io);

/* Header, trailer's end and layout of a frame in `io`: contiguous, or the index file of a sparse one. */
NODISCARD int frame_read_info(struct io *io, bool sparse, struct frame_info *info);

/* Everything behind the info: metalayers, index, starts of chunks. */
NODISCARD int frame_load(struct frame *f, bool sparse);

/* The index of the root on disk. */
NODISCARD int frame_load_index(const struct frame *f, struct index *ix, struct scratch *s);

/* A frame around `io` (taken in every case) and `dirfd` (taken likewise, or -1). */
NODISCARD int frame_new_take(struct frame **f, struct io *io, int dirfd);

#endif
