/*
 * The inside of struct frame, shared by the files of this layer that work on whole frames:
 * frame*.c, recover.c, redo.c, compact.c, verify.c and sframe.c. The locks are its owner's
 * (frame.h); only `flying` has one of its own.
 */
#ifndef FRAME_FRAME_IMPL_H
#define FRAME_FRAME_IMPL_H

#include "frame/chunk_sum.h"
#include "frame/space.h"
#include "frame/format/meta.h"
#include "frame/format/trailer.h"
#include "frame/frame.h"
#include "frame/index.h"
#include "frame/root.h"
#include "frame/young.h"

#include <pthread.h>
#include <stdatomic.h>

/* How many chunks a frame that we write may have: 16 TiB of 1 MiB chunks, and 128 MiB of index. */
#define FRAME_MAX_CHUNKS (1u << 24)

/* A header or trailer longer than this is not read: it is kept in memory whole. */
#define FRAME_MAX_SECTION (64u << 20)

/* For a frame of others that never received data, and therefore has no chunk size. */
#define FRAME_DEFAULT_CHUNK (1u << 20)

/* All in one file, or a directory of files. */
enum frame_layout { FRAME_CONTIGUOUS, FRAME_SPARSE };

enum frame_state { FRAME_CLEAN, FRAME_DIRTY, FRAME_COMMITTING, FRAME_BROKEN };

#define FRAME_NO_CHUNK UINT32_MAX

/* Is there a trailer of ours right behind the header, for an empty root? frame_front.c. */
enum front { FRONT_UNKNOWN, FRONT_VALID, FRONT_NONE };

/* Is it known which bytes of the chunk area belong to no chunk (frame_space.c)? */
enum survey { SURVEY_NOT_YET, SURVEY_DONE, SURVEY_IMPOSSIBLE };

/*
 * Checksums on their way from frame_write, which computes them beside everything else, to
 * frame_put, which files them. Few: as many as chunks are being written.
 */
struct flying {
	pthread_mutex_t lock; /* innermost of all */
	uint32_t n, cap;
	struct flying_sum {
		uint64_t at, len, sum;
	} *list;
};

struct frame {
	struct io *io; /* owned; of a sparse frame: its index file */
	struct io *copy; /* owned; of all of a small file, for reading until it changes; or NULL */
	int dirfd;     /* owned; of a sparse frame, else -1        */
	bool writable; /* frame_writable; fixed after opening      */
	bool had_note; /* the root that was opened has one: ours   */
	bool notes;    /* every root with data gets a note         */
	bool tight;    /* frame_set_tight: small gaps count        */
	bool wary;     /* frame_set_wary: looks before it commits  */

	/* The states at the top of frame.c. */
	enum frame_state state;
	int error; /* BROKEN: what every commit answers        */
	bool part; /* COMMITTING: the caller has more to come  */

	/* What a reader sees: the root on disk, and the changes since. */
	uint64_t nbytes;
	struct index index;
	struct index sums;  /* checksums of stored chunks; ENTRY_ZEROS: not known          */
	uint64_t *start;    /* chunks of different sizes: n + 1 decoded offsets, else NULL */
	uint32_t type_size; /* of an item, also while a tail hides it in the header        */
	uint32_t root_chunk; /* chunk size of the root on disk, where info has another; else 0 */
	uint32_t stale;     /* the stored chunk that frame_resize left for frame_put       */
	_Atomic uint32_t hint; /* block size last seen, 0: none. Readers race, harmlessly  */

	/* The root on disk. */
	struct frame_info info;
	struct buf head;         /* header_len bytes; a commit patches the first 87        */
	struct buf trailer;      /* without note: that of an empty root                    */
	struct meta meta, vlmeta; /* borrow `head` and `trailer`                           */
	struct frame_roots roots; /* which of ours are on disk                             */
	uint64_t root_id;        /* frame_root_id of it; 0: not known                      */
	enum front front;
	bool recoverable;        /* recovery would find it                                 */
	bool went_back;          /* opened at another root than the header named           */

	/* Numbers of roots. */
	uint64_t seq;   /* of the newest root, or of one that failed after it              */
	uint64_t whole; /* of the newest that was not committed in part                    */
	uint64_t kept;  /* the least size since then: what is behind it has come since     */

	/*
	 * What the disk may not have, by opening and by commits:
	 *
	 *               set when                                     until
	 *   changed     a root is written; frame_cut_given_up        the frame is closed
	 *   unsynced    a header is written; a frame is opened that  a sync, with neither of the
	 *               may be written: nobody knows of its root     next two set
	 *   recovered   the root is one that recovery has found, and that header is written,
	 *               the header on disk still names another       or a newer one
	 *   doubt       writing a header fails: the disk may have    the next one is written
	 *               the root of before, or that one
	 *   suspect     a sync fails, of this frame or of the one    a commit and its sync: redo.c
	 *               that the file had open before
	 *   young       a chunk is put: young.h                      a sync
	 */
	bool changed, unsynced, recovered, doubt, suspect;
	struct young young;
	uint64_t prove;   /* bytes that proving young chunks may yet read: frame_load_root */
	struct flying flying;

	/* Which bytes may be written. Positions count from the frame's start. */
	struct space space;
	enum survey survey;
	uint64_t area; /* end of the chunk area when the frame was opened                  */
};

/* Where chunk n is stored: fills *st. Of a sparse frame opens its file: frame_stored_done. */
NODISCARD int frame_stored(const struct frame *f, uint32_t n, struct stored *st);
void frame_stored_done(const struct frame *f, struct stored *st);

/* sframe.c: the file of one chunk of a sparse frame. */
NODISCARD int sframe_open_chunk(int dirfd, uint64_t id, struct io **io);

static inline enum frame_layout frame_layout(const struct frame *f)
{
	return f->dirfd < 0 ? FRAME_CONTIGUOUS : FRAME_SPARSE;
}

/* Where the index chunk starts, in the file of the frame, or in the index file of a sparse one. */
static inline uint64_t frame_index_at(const struct frame_info *info)
{
	return info->header_len + (info->sparse ? 0 : info->cbytes);
}

/*
 * Judges header, end of the trailer and layout of a frame in `io`: contiguous, or the index file of
 * a sparse one.
 */
NODISCARD int frame_read_info(struct io *io, enum frame_layout layout,
			      struct frame_info *info);

/* All of the frame: metalayers, index, starts of chunks; of the newest root that is whole. */
NODISCARD int frame_load(struct frame *f);

/* The same of a frame that was just written, all of it. */
NODISCARD int frame_load_made(struct frame *f, struct view all);

/* The root that this header, of 87 bytes, points at. f->info stays zero when there is none. */
NODISCARD int frame_load_root(struct frame *f, struct view fixed);

/*
 * frame_identity.c. Tells a root from all others: a hash of its lengths and its fingerprint, or of
 * index and trailer where it has none. Never 0.
 */
uint64_t frame_root_id(const struct frame_info *info, struct fingerprint fp);

/* Sets f->root_id to that of the root on disk; 0: it could not be read. */
void frame_identify_root(struct frame *f);

/* Forgets what was loaded; only `io` stays. */
void frame_unload(struct frame *f);

/* recover.c: loads the newest other root that is whole. -EBADMSG: there is none. */
NODISCARD int frame_recover(struct frame *f);

/* frame_front.c: signs the trailer of an empty root, with the next sequence number. */
NODISCARD int frame_sign_empty(struct frame *f, struct view head, struct span trailer);

/* frame_sums.c. The checksum of chunk n, as in chunk_sum.h. */
uint64_t frame_sum(const struct frame *f, uint32_t n);

/*
 * A checksum from frame_write (sums_fly; any thread) to frame_put (sums_put), or to the end of the
 * place it is of, if nothing is put there (sums_forget).
 */
NODISCARD int frame_sums_fly(struct frame *f, uint64_t at, uint32_t len, uint64_t sum);
void frame_sums_put(struct frame *f, uint32_t n, uint64_t at, uint32_t len);
void frame_sums_forget(struct frame *f, uint64_t at);

/*
 * Takes over the checksums of a note; makes those for a note: one for each stored chunk of the
 * index, or no bytes at all if none is known, or there would be too many.
 */
NODISCARD int frame_sums_load(struct frame *f, const struct root_note *note);
NODISCARD int frame_sums_pack(const struct frame *f, const struct index *ix, struct buf *out);

/*
 * frame_prove.c. Copies the `len` bytes of chunk n to `at` in the file, piece by piece, and then
 * holds what is there against the chunk's checksum: what was written is what was checked. *sum:
 * that, or one made of it before, if none was known. Not for sparse frames.
 */
NODISCARD int frame_copy_chunk(struct frame *f, uint32_t n, uint64_t at, uint32_t len,
			       uint64_t *sum);

/*
 * Holds stored chunks against their checksums, as far as those are known: the chunks of the runs
 * (young.h), or all. *budget is how many bytes may be read, and gets less by those that were; with
 * none left the rest counts as proven.
 */
NODISCARD int frame_prove_young(struct frame *f, struct view runs, uint64_t *budget);
NODISCARD int frame_prove_all(struct frame *f, uint64_t *budget);

/* redo.c: io_sync, which may be believed. A frame that is suspect has to be committed as well. */
NODISCARD int frame_sync_io(struct frame *f);

/* frame_space.c. When the frame is opened: what lies behind its root waits, as if replaced. */
void frame_space_open(struct frame *f, uint64_t file_len);

/* Chunk n, or all from n on, will not be part of the next root. */
void frame_space_drop(struct frame *f, uint32_t n);
void frame_space_drop_from(struct frame *f, uint32_t n);

/* The same of bytes [at, end), but for those of the trailer of an empty root. */
void frame_space_retire(struct frame *f, uint64_t at, uint64_t end);

/* The end of the last chunk of `ix`: the next index may begin there. */
NODISCARD int frame_live_end(struct frame *f, const struct index *ix, uint64_t *end);

/* True: so much waits for a durable root that the next one had better be one. */
bool frame_space_presses(const struct frame *f);

/* True: what would be free after a sync is much beside what the root on disk uses. */
bool frame_space_outgrown(const struct frame *f);

/* The root on disk is durable: what waited for that is free. */
void frame_space_durable(struct frame *f);

/* Gives free space back to the disk: large gaps, and the end of the file. */
void frame_space_trim(struct frame *f);

/* Looks for the garbage that was there when the frame was opened, unless that was done. */
void frame_space_survey(struct frame *f);

/* The same before chunk n is replaced, where the chunk's place needs it, or chunks are few. */
void frame_space_survey_for(struct frame *f, uint32_t n);

/* The index of the root on disk. */
NODISCARD int frame_load_index(const struct frame *f, struct index *ix, struct scratch *s);

/* A frame around `io` (taken in every case) and `dirfd` (taken likewise, or -1). */
NODISCARD int frame_new_take(struct frame **f, struct io *io, int dirfd);

/* Hands out a frame that was opened or made; closes it where that failed, as `rc` says. */
NODISCARD int frame_ready_take(struct frame **out, struct frame *f, int rc);

/* True: the frame is wary, and another program has written it. */
static inline bool frame_is_overtaken(struct frame *f)
{
	return f->wary && frame_compare_root(f) == ROOT_OTHER;
}

#endif
