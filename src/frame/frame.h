/*
 * A super-chunk in a file: a contiguous frame (FORMAT.md 9, 10), read and written, or a sparse
 * frame (a directory, FORMAT.md 13), read only.
 *
 * Terms. A *root* is a header that is, or may be, on disk, together with the index, the trailer and
 * the chunks reachable from it; each commit writes a new one. A root is *torn* if any of that is
 * missing on disk, otherwise *whole*. The index has a *slot* for each chunk, which says where the
 * chunk is stored, or that it is a *hole* and takes no space. Bytes no longer reachable from any
 * root are *garbage* and can be overwritten.
 *
 * Threads: a frame has either many readers or one mutator; its owner sees to that, with the lock of
 * the open file (file.lock). Functions marked [reader] may run concurrently; those marked [mutator]
 * need exclusive access. frame_write is the exception: it may run concurrently with anything, since
 * it only fills space that frame_alloc has handed out.
 *
 * Only a commit changes what a reader of the file sees: chunks go to space that no root refers to,
 * then the index is written, then the trailer, then the first 87 bytes of the header in one write
 * (FORMAT.md 10). header_len never changes.
 *
 * Errors: as in base/err.h. Offsets and lengths are in bytes; chunks are counted from 0.
 */
#ifndef FRAME_FRAME_H
#define FRAME_FRAME_H

#include "codec/chunk.h"
#include "frame/io/io.h"

#include <sys/stat.h>

struct frame;

/* ---- Opening and closing: frame.c, frame_open.c, sframe.c, frame_state.c ---- */

/* What the fixed part of a header says, validated. FORMAT.md 9.1. */
struct frame_info {
	uint64_t nbytes;     /* decoded bytes of all chunks                    */
	uint64_t frame_len;  /* header through trailer                         */
	uint64_t cbytes;     /* chunk area, garbage included                   */
	uint32_t header_len;
	uint32_t trailer_len;
	uint32_t chunk_size; /* 0: chunks of different sizes; never 0 in frames we create */
	uint32_t block_size; /* 0: automatic                                   */
	uint32_t type_size;
	uint8_t version;     /* 0..3; 1 with 13 elements: early beta           */
	bool sparse;    /* each chunk is a separate file: FORMAT.md 13 */
	bool variable;  /* its chunks are of different sizes                  */
	bool vl_blocks; /* the blocks of a chunk differ in size, too: FORMAT.md 3.7 */
	bool beta;      /* written by an early beta: FORMAT.md 11             */
	struct pipeline pipeline; /* as in the header; each chunk has its own  */
};

/* The stored size in bytes, chunks included: frame_len does not count those of a sparse frame. */
static inline uint64_t frame_info_stored(const struct frame_info *info)
{
	return info->frame_len + (info->sparse ? info->cbytes : 0);
}

/*
 * Would frame_open_take accept this? Checks the header, the end of the trailer and the place of the
 * index; if the root has a fingerprint, verifies all that it covers; if the root is torn, looks for
 * the one that opening would show. Does not check what is in index and chunks, and writes nothing.
 * -EBADMSG: no. *info is filled in on success.
 */
NODISCARD int frame_probe(struct io *io, struct frame_info *info);

/* The same, but makes all the checks that opening would. */
NODISCARD int frame_probe_all(struct io *io, struct frame_info *info);

/* The same for a sparse frame. `dirfd` is borrowed. */
NODISCARD int frame_probe_sparse(int dirfd, struct frame_info *info);

/*
 * Adjusts *st, of the directory of a sparse frame, so that it shows changes of the index file too,
 * which is written last and need not change the directory: each time becomes the later of the two,
 * and the size the sum. `dirfd` is borrowed, and may be O_PATH.
 */
void frame_stat_sparse(int dirfd, struct stat *st);

/*
 * Opens a contiguous frame, and validates everything that later calls rely on. Takes `io`, even if
 * it fails.
 */
NODISCARD int frame_open_take(struct frame **f, struct io *io);

/* Opens a sparse frame. `dirfd` is its directory, and is taken even if this fails. */
NODISCARD int frame_open_sparse_take(struct frame **f, int dirfd);

/*
 * Creates an empty frame in an empty file: header and trailer, 132 bytes, which every reader can
 * open at once. chunk_size is fixed as soon as there is a chunk. Takes `io`, even if it fails.
 */
NODISCARD int frame_create_take(struct frame **f, struct io *io, const struct pipeline *p,
				uint32_t chunk_size);

void frame_close(struct frame *f); /* NULL is fine. Uncommitted changes are lost */

/*
 * About the open frame; all down to frame_vlmeta_at are [reader]. A mutator may change *frame_info.
 */
const struct frame_info *frame_info(const struct frame *f);
struct io *frame_io(const struct frame *f);

/* True: as far as can be told, the frame was created by us, not just written to. */
bool frame_is_ours(const struct frame *f);

/* False: sparse, variable, VL-blocks, beta, or more chunks than we allow in a frame. */
bool frame_writable(const struct frame *f);

/* True: there is a fixed metalayer of that name. *content is borrowed until frame_close. */
bool frame_meta(const struct frame *f, const char *name, struct view *content);

/*
 * The i-th fixed or variable-length metalayer; false past the last. Names end with a NUL. A
 * variable-length one has its content in a chunk of its own. All is borrowed until frame_close.
 */
bool frame_meta_at(const struct frame *f, uint32_t i, const char **name, struct view *content);
bool frame_vlmeta_at(const struct frame *f, uint32_t i, const char **name, struct view *chunk);

/* ---- What the index says of chunks: frame_slots.c ---- */

/* The decoded size, and the number of chunks, uncommitted changes included. [reader] */
uint64_t frame_size(const struct frame *f);
uint32_t frame_nchunks(const struct frame *f);

/* Which decoded bytes chunk n holds. [reader] */
struct frame_span {
	uint64_t start;
	uint32_t len;
};
struct frame_span frame_chunk_span(const struct frame *f, uint32_t n);

/*
 * How many decoded bytes the stored form of chunk n holds: the length of its span, unless
 * frame_resize has changed that and the chunk has not been put since. Such a chunk can still be
 * loaded and its blocks read until frame_resize changes the length of another one. [reader]
 */
uint32_t frame_stored_len(const struct frame *f, uint32_t n);

/* The chunk that holds decoded byte `at` < frame_size. [reader] */
uint32_t frame_chunk_at(const struct frame *f, uint64_t at);

enum slot_kind { SLOT_STORED, SLOT_ZEROS, SLOT_NAN, SLOT_UNINIT };

/*
 * What the index says of chunk n. SLOT_UNINIT, which only other programs write, reads as zeros.
 * [reader]
 */
enum slot_kind frame_slot(const struct frame *f, uint32_t n);

/* How many chunks there are of each kind. [reader] */
#define SLOT_KINDS (SLOT_UNINIT + 1)
void frame_count_slots(const struct frame *f, uint32_t count[static SLOT_KINDS]);

/* True: chunk n reads as zeros, and nothing is stored for it. [reader] */
bool frame_is_hole(const struct frame *f, uint32_t n);

/*
 * The first chunk from n on that is a hole, or that is not one; frame_nchunks if there is none.
 * Long runs of equal slots cost next to nothing. [reader]
 */
uint32_t frame_next_hole(const struct frame *f, uint32_t n);
uint32_t frame_next_data(const struct frame *f, uint32_t n);

/* The root's checksum of all bytes of stored chunk n. 0: it has none. [reader] */
uint64_t frame_stored_sum(const struct frame *f, uint32_t n);

/*
 * True: chunk n is stored, but no root refers to its present bytes, so its space becomes free as
 * soon as it is put again. [reader]
 */
bool frame_slot_is_new(const struct frame *f, uint32_t n);

/* ---- Reading: the head of a chunk first, then any of its blocks: frame_read.c ---- */

/*
 * Reads header, block offsets, dictionary and (for delta) block 0 of chunk n, after which any of
 * its blocks can be read. A special slot yields a chunk that needs no stored bytes. *c must be
 * zeroed; call chunk_deinit on it whatever this returns. On success, nbytes of the chunk matches
 * frame_stored_len. -E2BIG, here and below: it needs more memory than scratch_bound allows.
 * [reader]
 */
NODISCARD int frame_load_chunk(struct frame *f, uint32_t n, struct scratch *s, struct chunk *c);

/* Chunk n of a frame, loaded into *c. Borrows both. */
struct frame_chunk {
	struct frame *f;
	uint32_t n;
	const struct chunk *c;
};

/*
 * Decodes a run of blocks of a loaded chunk into dst, whose length is chunk_run_bytes. Reads only
 * their stored bytes. [reader]
 */
NODISCARD int frame_read_blocks(struct frame_chunk at, struct run run, struct scratch *s,
				struct span dst);

/*
 * Reads one block of a stored chunk in packed form, as chunk_decode_packed leaves it. Only for
 * chunks that frame_can_pack: those that chunk_can_pack, except those that frame_read_blocks reads
 * as a whole even for one block, to verify their checksum. [reader]
 */
bool frame_can_pack(struct frame_chunk at);
NODISCARD int frame_read_packed(struct frame_chunk at, uint32_t block, struct scratch *s,
				struct span dst);

/*
 * Reads some bytes of a block without decoding the bytes after them. Only for stored chunks that
 * chunk_has_parts. CHUNK_NO_PART: this block has to be read as a whole. [reader]
 */
NODISCARD int frame_read_part(struct frame_chunk at, struct chunk_part part, struct scratch *s,
			      struct span dst);

/*
 * Reads a loaded chunk and compares it with its checksum; -EBADMSG: they differ. Returns 0 without
 * reading if no checksum is known, or if each block has its own: those are verified whenever a
 * block is read. [reader]
 */
NODISCARD int frame_check_chunk(struct frame_chunk at);

/* Compares all blocks of a loaded chunk with their checksums, which it must have. [reader] */
NODISCARD int frame_check_blocks(struct frame_chunk at, struct scratch *s);

/*
 * The memory in bytes needed to read a run of blocks in that form, the blocks themselves included.
 * [reader]
 */
uint64_t frame_run_memory(struct frame_chunk at, struct run run, enum block_form form);

/*
 * Reads the decoded bytes [lo, lo + dst.n) of a chunk that needs no decoding and has no checksum to
 * verify. Allocates nothing, however large its blocks are. [reader]
 */
bool frame_can_read_within(struct frame_chunk at);
NODISCARD int frame_read_within(struct frame_chunk at, uint32_t lo, struct span dst);

/* Decodes all of chunk n. dst.n must be the length of its span. [reader] */
NODISCARD int frame_read_chunk(struct frame *f, uint32_t n, struct scratch *s, struct span dst);

/*
 * Reads the stored bytes of chunk n, a stored slot, from its header on, and verifies them: for
 * patching, and for copying without decoding. cchunk is replaced, and grows to cbytes without any
 * bound; it is empty after a failure. [reader]
 */
NODISCARD int frame_read_raw(struct frame *f, uint32_t n, struct buf *cchunk);

/*
 * Reads and verifies the stored bytes of chunk n in a form that another frame with the same chunk
 * length can store by frame_alloc, frame_write and frame_put. No bytes: a hole. -ENOTSUP: this
 * chunk has to be decoded instead. -E2BIG: the chunk, or reading its head, needs more than `most`
 * bytes. [reader]
 */
NODISCARD int frame_read_copy(struct frame *f, uint32_t n, uint64_t most, struct scratch *s,
			      struct buf *cchunk);

/*
 * Reads dst.n decoded bytes from `at` on, which must lie within frame_size. For tools and tests.
 * [reader]
 */
NODISCARD int frame_read(struct frame *f, uint64_t at, struct scratch *s, struct span dst);

/* ---- What is known of chunks by their checksums: frame_sums.c ---- */

/* The number of stored chunks whose blocks have checksums, according to the root. [reader] */
uint32_t frame_count_block_sums(const struct frame *f);

/*
 * True: by its checksum, stored chunk n has exactly these bytes. False also if it has no checksum.
 * [reader]
 */
bool frame_stores(const struct frame *f, uint32_t n, struct view cchunk);

/*
 * ---- Changing: frame.c, frame_items.c ----
 *
 * A chunk is stored in three steps: frame_alloc finds space, frame_write fills it, and frame_put
 * enters it into the index; instead of the last, frame_unalloc gives the space back. The next
 * commit makes the change visible.
 */

/* Where the stored bytes of a chunk go. The caller keeps it from step to step. */
struct frame_place {
	uint64_t at; /* offset from the frame's start */
	uint32_t len;
	uint32_t epoch; /* when it was allocated: era.h */
	uint64_t sum; /* checksum of what frame_write wrote (chunk_sum.h); 0: not known */
};

/*
 * Changes the decoded size. Growing adds holes, shrinking drops chunks. Every stored chunk must
 * hold as many bytes as its span: if the chunk that was last before the call, or is last after it,
 * is not a hole and its span has changed, the caller has to put it again (frame_put) before the
 * next commit. -EFBIG: more than frame_max_size, which follows from the number of chunks that a
 * frame may have. [mutator]
 */
NODISCARD int frame_resize(struct frame *f, uint64_t nbytes);
uint64_t frame_max_size(const struct frame *f); /* [reader] */

/*
 * Finds space for `len` stored bytes of chunk n that no root refers to. -ENOSPC, -EDQUOT: the disk
 * is so full that a root, which frees the space of other chunks, might find no room any more.
 * [mutator]
 */
NODISCARD int frame_alloc(struct frame *f, uint32_t n, uint32_t len, struct frame_place *p);

/* Writes the p->len bytes of a chunk there. Any thread, at any time. */
NODISCARD int frame_write(struct frame *f, struct frame_place *p, struct view cchunk);

/*
 * Makes these bytes chunk n. The space of its previous bytes will be free once no root needs it.
 * [mutator]
 */
void frame_put(struct frame *f, uint32_t n, const struct frame_place *p);

/* Gives back space from frame_alloc that will not be used. [mutator] */
void frame_unalloc(struct frame *f, const struct frame_place *p);

/* Makes chunk n a hole. [mutator] */
void frame_put_zeros(struct frame *f, uint32_t n);

/*
 * Sets the pipeline that the header names from the next commit on: that of the first data chunk,
 * often chosen only once there is data. [mutator]
 */
void frame_set_pipeline(struct frame *f, const struct pipeline *p);

/*
 * The item size that the header names whenever the length is a whole number of items: the header's
 * own; or, while a partial item at the end makes it say 1, that of the first chunk if it is stored,
 * else that of frame_expect_items. [reader]
 */
uint32_t frame_chunk_item(const struct frame *f);

/*
 * The block size that the header means for such items: while it says type_size 1 instead, the block
 * size that it names is one byte less.
 */
uint32_t frame_block_size(const struct frame *f, uint32_t item);

/*
 * Announces chunks with items of `size` bytes. The header says so whenever the length is a multiple
 * of `size`; while the frame ends inside an item, it says 1. Ignored if the frame has an item size
 * already. (The library makes holes with the header's item size, and its buffers for them are too
 * small for chunks with larger items: policy.h.) [mutator]
 */
void frame_expect_items(struct frame *f, uint32_t size);

/* Changes the chunk size of a frame that has no chunks. [mutator] */
void frame_set_chunk_size(struct frame *f, uint32_t chunk_size);

/* ---- Committing: frame_commit.c, frame_vouch.c ---- */

enum durability {
	COMMIT_PART,  /* as COMMIT_LATER, but more changes that belong with these follow */
	COMMIT_LATER, /* written in order; reaches the disk whenever the kernel likes */
	COMMIT_SYNC,  /* data, index, trailer - sync - header - sync             */
};

/*
 * Makes all changes since the last commit visible to readers of the file. On failure the file shows
 * the last good commit and the changes stay pending, so a later call may succeed. With COMMIT_SYNC
 * everything is durable on return, including earlier commits, even if there are no new changes.
 * [mutator]
 */
NODISCARD int frame_commit(struct frame *f, enum durability how);

/*
 * COMMIT_PART of a frame with chunks that have not been put yet: `missing` is the first of them,
 * UINT32_MAX: there are none. A reader would see zeros there that nobody wrote, so the frame on
 * disk ends before that chunk, though never below frame_kept, the smallest size since the last full
 * commit. If that end lies inside a chunk, the chunk must be a hole. What is left out stays
 * pending. [mutator]
 */
NODISCARD int frame_commit_part(struct frame *f, uint32_t missing);
uint64_t frame_kept(const struct frame *f); /* [reader] */

/* True: a commit of this durability writes to the file; otherwise it syncs at most. [reader] */
bool frame_writes(const struct frame *f, enum durability how);

/*
 * Makes the root on disk durable. Changes since then stay pending. A suspect frame (below) has to
 * be committed instead. [mutator]
 */
NODISCARD int frame_sync_root(struct frame *f);

/*
 * True: the root on disk says that its newest chunks may not have reached the disk with it. After
 * the next boot their checksums have to prove that they did, and if one is damaged by then, the
 * whole file goes back to an older root. Or another process wrote the root, and the next one could
 * not tell that we have synced it (frame_latest). A COMMIT_SYNC of changes ends that; without
 * changes, frame_vouch does after it. It returns 1 if it has written to the file, or failed to,
 * which may change the file's mtime all the same; 0 if not. The root stays as it was if it has not
 * written. [reader], [mutator]
 */
bool frame_unproven(const struct frame *f);
NODISCARD int frame_vouch(struct frame *f);

/*
 * Wary: before a chunk is moved, and before a commit of data replaces the root on disk, that root
 * is read again; -ESTALE if another program has written it. The tail of such a file is left alone.
 * Returns whether it was before. [mutator]
 */
bool frame_set_wary(struct frame *f, bool wary);

/* ---- What is known of the root on disk: frame_state.c, frame_identity.c ---- */

/*
 * True: there are changes since the last full commit, so another one has to follow. Moved chunks do
 * not count once they are committed. [reader]
 */
bool frame_dirty(const struct frame *f);

/*
 * True: the root that the header pointed to was torn, and the newest whole one was opened instead.
 * Warning the user is left to the caller, which knows the file's name.
 */
bool frame_went_back(const struct frame *f); /* [reader] */

/* True: the newest root is from a COMMIT_PART, whose writer never got to the full commit. */
bool frame_is_part(const struct frame *f); /* [reader] */

/*
 * True: recovery found the root, and the header on disk still points elsewhere, so other programs
 * cannot open the frame. A COMMIT_SYNC ends that. [reader]
 */
bool frame_recovered(const struct frame *f);

/*
 * True: the root on disk was written by this process. If not, the file may also contain a newer
 * root that no header ever pointed to, because its writer was killed first. Recovery would prefer
 * it to the root that was opened. So once the latter has been synced, the next commit does not rely
 * on recovery, and syncs before it writes its header; after frame_vouch, so does the first commit
 * after any later opening. A caller that closes and reopens a frame in the same state may pass this
 * on with frame_set_latest, but not if changes were given up. [reader], [mutator]
 */
bool frame_latest(const struct frame *f);
void frame_set_latest(struct frame *f);

/*
 * True: a sync has failed. Until one succeeds, every commit has to rewrite everything since the
 * last good one. A caller that closes and reopens a frame has to pass this on with
 * frame_set_suspect. [reader], [mutator]
 */
bool frame_suspect(const struct frame *f);
void frame_set_suspect(struct frame *f);

/*
 * Our roots have sequence numbers that only grow. `newest` is that of the root on disk, `durable`
 * that of the newest root known to be durable: after a power cut the frame opens at a root from
 * `durable` to `newest`, or at one that another program has written since. 0: a root without a
 * number (another program's), or not known.
 *
 * `durable` is 0 if that root is empty: recovery does not go back to an empty root that has bytes
 * after it. A COMMIT_PART has the number of the last full commit before it, since it may lack
 * changes that are older than itself. [reader]
 */
struct frame_roots {
	uint64_t newest, durable;
	bool emptied; /* by us: the disk may have the header without the number after it */
};
struct frame_roots frame_roots(const struct frame *f);

/*
 * Is the root on disk still the one that this frame was opened at, or wrote last?
 *
 *   ROOT_SAME   yes
 *   ROOT_ALIKE  looks the same, but another program wrote it, and may have replaced chunks by
 *               others of the same length
 *   ROOT_OTHER  no, or it could not be read; else what was put since is still in the file
 */
enum root_match { ROOT_OTHER, ROOT_ALIKE, ROOT_SAME };

/* Remembers the present root for frame_compare_root, while nobody else can write. [mutator] */
void frame_remember_root(struct frame *f);
enum root_match frame_compare_root(struct frame *f); /* [reader] */

/* ---- Free space in the file: frame_space.c, frame_disk.c, compact.c ---- */

/*
 * True: only a commit can free the many bytes of chunks that were replaced. Calling frame_commit
 * then, with any durability, keeps the file below 1.5 times its live size. [reader]
 */
bool frame_wants_commit(const struct frame *f);

/*
 * True: some bytes will be free only after another commit, or once the root on disk is durable.
 * [reader]
 */
bool frame_waits(const struct frame *f);

/*
 * True: more than a third of the file is free or will be, as far as is known without a search.
 * [reader]
 */
bool frame_wants_compact(const struct frame *f);

/*
 * If more than a third of the file is free, moves about `step` bytes of chunks from its end into
 * gaps nearer to its start, and finally index and trailer. > 0: it did; the next commit allows the
 * file to shrink, and after that there may be more to do. 0: nothing to do. [mutator]
 */
NODISCARD int frame_compact(struct frame *f, uint64_t step);

/*
 * Tight: for a file that is not likely to be written soon. Compaction goes on while more than 1/32
 * is free, and every gap of at least one disk block is punched out, and the tail cut off. Gaps that
 * existed when the frame was opened are searched for, unless there are many chunks. [mutator]
 */
void frame_set_tight(struct frame *f, bool tight);

/*
 * For a frame reopened after this process gave up uncommitted changes: cuts off what those left
 * after the root. On a full disk somebody may be waiting for that space. The next root is synced
 * before its header, since recovery could otherwise find one of those changes. [mutator]
 */
void frame_cut_given_up(struct frame *f);

#endif
