/*
 * The inside of struct frame, shared by the files of this layer that work on whole frames:
 * frame*.c, recover.c, redo.c, compact.c and sframe.c. Locking is up to the owner (frame.h).
 */
#ifndef FRAME_FRAME_IMPL_H
#define FRAME_FRAME_IMPL_H

#include "frame/chunk_sum.h"
#include "frame/format/header.h"
#include "frame/format/meta.h"
#include "frame/format/trailer.h"
#include "frame/frame.h"
#include "frame/index.h"
#include "frame/root.h"
#include "frame/space.h"
#include "frame/young.h"

#include <stdatomic.h>

/* The most chunks in a frame that we write: 16 TiB of 1 MiB chunks, and 128 MiB of index. */
#define FRAME_MAX_CHUNKS (1u << 24)

/* The longest header or trailer, each of which is kept in memory as a whole. */
#define FRAME_MAX_SECTION (64u << 20)

/* The chunk size we use where another program's frame has never held data and so names none. */
#define FRAME_DEFAULT_CHUNK (1u << 20)

/* The block size of a hole where the frame names none: small enough to be cheap in a cache. */
#define HOLE_BLOCK (64u << 10)

enum frame_layout { FRAME_CONTIGUOUS, FRAME_SPARSE };

enum frame_state { FRAME_CLEAN, FRAME_DIRTY, FRAME_COMMITTING, FRAME_BROKEN };

#define FRAME_NO_CHUNK UINT32_MAX

/* Is our trailer of the empty root still at the front? */
enum front { FRONT_UNKNOWN, FRONT_VALID, FRONT_NONE };

/* Do we know which bytes of the chunk area belong to no chunk (frame_space.c)? */
enum survey { SURVEY_NOT_YET, SURVEY_DONE, SURVEY_IMPOSSIBLE };

struct frame {
	struct io *io; /* owned; for a sparse frame its index file */
	struct io *copy; /* owned; a small file in memory, to read from until it changes; or NULL */
	int dirfd;     /* owned; for a sparse frame, else -1       */
	bool writable; /* frame_writable; fixed after opening      */
	bool had_note; /* the root that was opened has a note      */
	bool notes;    /* each root that we write with data gets one: strip_note */
	bool tight;    /* frame_set_tight: small gaps count        */
	bool wary;     /* frame_set_wary: looks before it commits  */

	/* The states at the top of frame.c. */
	enum frame_state state;
	bool ahead; /* ahead of the newest full commit: by a COMMIT_PART, or not committed */

	/* What a reader sees: the root on disk, and the changes since. */
	uint64_t nbytes;
	struct numbers index;
	struct numbers sums;  /* checksums of stored chunks; NUMBER_NEW: unknown           */
	struct numbers lengths; /* of stored chunks that were put, or found by a survey      */
	uint64_t *start;    /* chunks of different sizes: n + 1 decoded offsets, else NULL */
	uint32_t type_size; /* item size, even while a partial item makes the header say 1 */
	uint32_t stale;     /* the last chunk, if it has to be put again after frame_resize ... */
	uint32_t stale_len; /* ... and how many bytes its stored form holds                */
	_Atomic uint32_t hint; /* block size last seen; 0: none. Readers race on it, harmlessly */

	/* The root on disk. */
	struct frame_info info;
	struct buf head;         /* header_len bytes; a commit patches the first 87        */
	uint8_t fixed[HEADER_FIXED]; /* of the current root, while `head` has the next one's */
	struct buf trailer;      /* without the note, as in an empty root of ours          */
	struct meta meta, vlmeta; /* borrow `head` and `trailer`                           */
	uint64_t held;           /* bytes of these and of `start` that are counted: held.h */
	struct frame_roots roots; /* which of our roots are on disk                        */
	uint64_t root_id;        /* its frame_root_id; 0: not known                        */
	/*
	 * The fingerprint's word (root.h). ROOT_SYNCED if it is empty; ROOT_CONFIRMED: it has none.
	 */
	uint64_t word;
	enum front front;
	bool recoverable;        /* recovery would find it                                 */
	bool went_back;          /* opened at a root that the header did not name          */
	bool latest;             /* frame_latest                                           */

	/* Numbers of roots. */
	uint64_t seq;   /* of the newest root, or of one that failed after it              */
	uint64_t floor; /* the next one is at least this: after_changes                    */
	uint64_t full;  /* of the newest full commit                                       */
	uint64_t kept;  /* the smallest size since then: all bytes beyond it are newer     */

	/*
	 * What the disk may lack:
	 *
	 *               set when                                     until
	 *   changed     a root is written, or is about to be         the frame is closed
	 *   unsynced    a header is written; a writable frame is     a sync, with neither of the
	 *               opened: its root may not be synced           next two set
	 *   recovered   the root is one that recovery has found, and that header is written,
	 *               the header on disk still names another       or a newer one
	 *   doubt       writing a header fails, or a sync of it: the the next one is written
	 *               disk may have the old root or the new one
	 *   suspect     a sync fails, of this frame or of the one    a commit and its sync: redo.c
	 *               that the file had open before
	 *   young       a chunk is put: young.h                      a sync
	 *
	 * Between calls, these hold together (x: yes, -: no, .: either; frame_check):
	 *
	 *   unsynced  recovered  doubt  suspect   the disk has
	 *      -          -        -       -      this root, and all of it
	 *      x          -        -       -      this root, perhaps torn, or one before it
	 *      x          x        -       -      a torn root's header; recovery finds this one
	 *      x          .        x       -      any of these, or a newer root: writing it failed
	 *      .          .        x       x      nobody knows: a sync failed
	 *      -          -        -       x      this root, synced again; the commit failed later
	 *
	 * A recovered root is never `latest`, and has been gone back to.
	 */
	bool changed, unsynced, recovered, doubt, suspect;
	struct young young;

	/* Which bytes may be written; offsets from the start of the frame */
	struct space space;
	enum survey survey;
	uint64_t firm;  /* end of the last byte that was put, or is a root's, and not cut off */
	uint64_t roomy; /* how far it may grow before the disk is asked: frame_disk_reserve */
	bool reserved;  /* some of the disk is kept for roots after its end                */
	uint64_t area; /* end of the chunk area when the frame was opened                  */
};

/* ---- Making and unmaking: frame.c ---- */

/* Makes a frame of `io` and `dirfd` (-1: none), and takes both, even if it fails. */
NODISCARD int frame_new_take(struct frame **f, struct io *io, int dirfd);

/* Asserts what holds between calls that change a frame: the states, and what the disk may lack. */
void frame_check(const struct frame *f);

/* Hands out a frame that was opened or made; or closes it, if `rc` says that this failed. */
NODISCARD int frame_ready_take(struct frame **out, struct frame *f, int rc);

/* Reserves memory so that whatever is lent, and one chunk more, can be put without any. */
NODISCARD int frame_reserve_put(struct frame *f);

/* Frees everything loaded, so that another root can be loaded: only the file stays. */
void frame_unload(struct frame *f);

/* ---- Opening: frame_open.c, frame_load.c, recover.c ---- */

static inline enum frame_layout frame_layout(const struct frame *f)
{
	return f->dirfd < 0 ? FRAME_CONTIGUOUS : FRAME_SPARSE;
}

/*
 * The offset of the index chunk in the file of the frame, or in the index file of a sparse frame.
 * It cannot overflow: header_parse rejects values of 2^63 and above.
 */
static inline uint64_t frame_index_at(const struct frame_info *info)
{
	return info->header_len + (info->sparse ? 0 : info->cbytes);
}

/*
 * Reads and validates the header, the end of the trailer and the layout of a frame in `io`: a
 * contiguous one, or the index file of a sparse one.
 */
NODISCARD int frame_read_info(struct io *io, enum frame_layout layout,
			      struct frame_info *info);

/* Loads metalayers, index and chunk starts of the newest whole root. */
NODISCARD int frame_load(struct frame *f);

/* The same for a frame that was just created; `all`: all of its bytes. */
NODISCARD int frame_load_made(struct frame *f, struct view all);

/*
 * Loads the root that this header of 87 bytes points to. f->info stays zero if there is none.
 * *prove: how many bytes may be read to verify its young chunks; reduced by what was read.
 */
NODISCARD int frame_load_root(struct frame *f, struct view fixed, uint64_t *prove);

/*
 * The steps of that, once f->info has been judged. frame_load_sections loads header and trailer,
 * and parses their metalayers; frame_load_places loads the index, and what only the chunks
 * themselves can tell. frame_load_settle comes last: it stops counting memory that is no longer
 * needed (held.h), and lifts the bound for the rest.
 */
NODISCARD int frame_load_sections(struct frame *f, struct view fixed);
NODISCARD int frame_load_places(struct frame *f);
void frame_load_settle(struct frame *f);

/* Loads the index of the root on disk, a part of frame_load_places. f->index must be zeroed. */
NODISCARD int frame_load_index(struct frame *f, struct scratch *s);

/* Checks the length of a header or trailer. -ENOTSUP: too long to be kept in memory. */
NODISCARD int frame_judge_section(uint32_t len);

/* Loads the newest whole root other than the header's. -EBADMSG: there is none. */
NODISCARD int frame_recover(struct frame *f);

/* For tests: how many bytes of chunks recovery may verify; the rest count as proven. */
void frame_recover_bound(uint64_t bytes);

/* ---- The identity of a root: frame_identity.c ---- */

/*
 * Identifies a root: a hash of its lengths and its fingerprint, or of index and trailer if it has
 * no fingerprint. Never 0.
 */
uint64_t frame_root_id(const struct frame_info *info, struct fingerprint fp);

/* Sets f->root_id to that of the root on disk; 0: it could not be read. */
void frame_identify_root(struct frame *f);

/* True: the frame is wary, and another program has replaced its root. */
static inline bool frame_is_overtaken(struct frame *f)
{
	return f->wary && frame_compare_root(f) == ROOT_OTHER;
}

/* ---- Where chunks are stored: frame_read.c, sframe.c ---- */

/*
 * Fills in *st for chunk n. For a sparse frame it opens the chunk's file; frame_stored_done closes
 * it.
 */
NODISCARD int frame_stored(const struct frame *f, uint32_t n, struct stored *st);
void frame_stored_done(const struct frame *f, struct stored *st);

/* Opens the file of one chunk of a sparse frame. */
NODISCARD int sframe_open_chunk(int dirfd, uint64_t id, struct io **io);

/* Counts the files of a sparse frame, the index file included, but stops at `enough`. */
NODISCARD int sframe_count_files(int dirfd, uint64_t enough, uint64_t *n);

/* ---- Checksums of chunks: frame_sums.c, frame_prove.c ---- */

/* The checksum of chunk n, as in chunk_sum.h. */
uint64_t frame_sum(const struct frame *f, uint32_t n);

/* Records the checksum of chunk n. If memory is short, it stays unknown. */
void frame_sums_note(struct frame *f, uint32_t n, uint64_t sum);

/*
 * Load the checksums of a note, and make those of a new one: one for each stored chunk of the
 * index, or none at all if none is known or there would be too many.
 */
NODISCARD int frame_sums_load(struct frame *f, const struct root_note *note);
NODISCARD int frame_sums_pack(const struct frame *f, const struct numbers *ix, struct buf *out);

/* False: this index has too many stored chunks, so its note has no checksums. */
bool frame_sums_fit(const struct numbers *ix);

/* For tests: more checksums than this are too many. */
void frame_sums_bound(uint32_t most);

/* Copies `len` bytes within the file, piece by piece. -ESTALE: frame_is_overtaken. */
NODISCARD int frame_copy_bytes(struct frame *f, uint64_t from, uint64_t to, uint32_t len);

/*
 * Copies all bytes of chunk n to that place in this way, and then verifies the copy by the chunk's
 * checksum, so that what was written is what was checked. p->sum: that checksum, or, if none was
 * known, one made before copying. Not for sparse frames.
 */
NODISCARD int frame_copy_chunk(struct frame *f, uint32_t n, struct frame_place *p);

/*
 * Verify stored chunks by their checksums, as far as those are known: the chunks of the runs
 * (young.h), or all. *budget is how many bytes may be read, and is reduced by what was; once it is
 * used up, the remaining chunks count as proven.
 */
NODISCARD int frame_prove_young(struct frame *f, struct view runs, uint64_t *budget);
NODISCARD int frame_prove_all(struct frame *f, uint64_t *budget);

/* ---- Writing roots: frame_front.c, redo.c; the rest is in commit_impl.h ---- */

/* The end of the front: the place for the trailer of an empty root, which is never handed out. */
static inline uint64_t frame_front_end(const struct frame *f)
{
	return (uint64_t)f->info.header_len + f->trailer.n;
}

/* Signs the trailer of an empty root, with the next sequence number, which becomes f->seq. */
NODISCARD int frame_sign_empty(struct frame *f, struct view head, struct span trailer);

/*
 * io_sync, after writing the young chunks of a suspect frame again. That has to be committed, too.
 */
NODISCARD int frame_sync_io(struct frame *f);

/* ---- Free space: frame_space.c ---- */

/* Called when the frame is opened: the bytes after its root wait, as if they had been replaced. */
void frame_space_open(struct frame *f, uint64_t file_len);

/* Records the stored length of chunk n, for when it is dropped. */
void frame_space_note(struct frame *f, uint32_t n, uint32_t len);

/* Chunk n, or all chunks from `first` on, will not be part of the next root. */
void frame_space_drop(struct frame *f, uint32_t n);
void frame_space_drop_from(struct frame *f, uint32_t first);

/* The same for bytes [at, end), except those of the trailer of an empty root. */
void frame_space_retire(struct frame *f, uint64_t at, uint64_t end);

/* *end: where the last chunk of `ix` ends, and the next index may begin. */
NODISCARD int frame_live_end(struct frame *f, const struct numbers *ix, uint64_t *end);

/* True: so much space waits for a durable root that the next commit should make one. */
bool frame_space_wants_sync(const struct frame *f);

/* True: a sync would free much in proportion to what the root on disk uses. */
bool frame_space_outgrown(const struct frame *f);

/* Called when the root on disk is durable: frees what waited for that. */
void frame_space_durable(struct frame *f);

/* Bytes in use by the root on disk or by the next one. */
uint64_t frame_space_live(const struct frame *f);

/* Finds the garbage that existed when the frame was opened, unless that was done before. */
void frame_space_survey(struct frame *f);

/*
 * The same, before chunk n is replaced, if its place makes that necessary or there are few chunks.
 */
void frame_space_survey_for(struct frame *f, uint32_t n);

/* ---- What the file takes of the disk: frame_disk.c ---- */

/*
 * Call when *p has been lent to chunk n. If the disk is nearly full, keeps some of it for the next
 * roots; -ENOSPC, -EDQUOT: that is not possible, so the chunk has to wait for them. A full commit
 * gives back what they did not need, by frame_disk_release.
 */
NODISCARD int frame_disk_reserve(struct frame *f, uint32_t n, const struct frame_place *p);
void frame_disk_release(struct frame *f);

/* Roughly an upper bound for the length of the next root, index and trailer: frame_draft.c. */
uint64_t frame_root_most(const struct frame *f);

/* Gives free space back to the file system: large gaps, and the tail of the file. */
void frame_disk_trim(struct frame *f);

#endif
