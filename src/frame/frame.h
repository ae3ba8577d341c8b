/*
 * A super-chunk in a file: contiguous frame (FORMAT.md 9, 10), read and written,
 * or sparse frame (a directory, FORMAT.md 13), read only.
 *
 * Words: a *root* is a header that is, or may be, on disk, with the index, trailer and chunks that
 * it leads to; a commit writes the next one. A root is *torn* when not all of that is there, else
 * *whole*. The index has a *slot* for each chunk: where it is stored, or that it is a *hole*, which
 * takes no space. What no root leads to any more is *garbage*, and can be written again.
 *
 * Threads: a frame has many readers or one mutator, arranged by its owner (the
 * lock of the open file, file.lock). Functions marked [reader] may run beside each other;
 * those marked [mutator] run alone. frame_write is the exception: it may run
 * beside everything, since it only fills space that frame_alloc handed out.
 *
 * On disk a commit is the only thing that changes what a reader sees: chunks go
 * to space that no root refers to, then index, then trailer, then the first 87
 * bytes of the header in one write (FORMAT.md 10). header_len never changes.
 */
#ifndef FRAME_FRAME_H
#define FRAME_FRAME_H

#include "codec/chunk.h"
#include "frame/io/io.h"

struct frame;

/* ---- Opening and closing: frame.c, frame_open.c ---- */

/* What the fixed part of a header says, judged. FORMAT.md 9.1. */
struct frame_info {
	uint64_t nbytes;     /* decoded bytes of all chunks                    */
	uint64_t frame_len;  /* header through trailer                         */
	uint64_t cbytes;     /* chunk area, garbage included                   */
	uint32_t header_len;
	uint32_t trailer_len;
	uint32_t chunk_size; /* 0: chunks of different sizes; > 0 once created by us */
	uint32_t block_size; /* 0: automatic                                   */
	uint32_t type_size;
	uint8_t version;     /* 0..3; 1 with 13 elements: early beta           */
	bool sparse, variable, vl_blocks, beta;
	struct pipeline pipeline; /* the header's; each chunk has its own      */
};

/*
 * Looks at header, trailer marker and the place of the index only (two or three
 * small reads, no allocation): is this a frame that frame_open would take on?
 * -EBADMSG: no. *info is filled on success.
 */
NODISCARD int frame_probe(struct io *io, struct frame_info *info);

/* The same for a directory, which is borrowed: a sparse frame? */
NODISCARD int frame_probe_sparse(int dirfd, struct frame_info *info);

/* Takes `io` in every case, also when it fails. */
NODISCARD int frame_open_take(struct frame **f, struct io *io);

/* A sparse frame: `dirfd` is the directory; taken in every case. */
NODISCARD int frame_open_sparse_take(struct frame **f, int dirfd);

/*
 * Makes an empty frame in an empty file: header and trailer, 132 bytes, readable at once
 * by everyone. chunk_size is fixed once there is a chunk. Takes `io` in every case.
 */
NODISCARD int frame_create_take(struct frame **f, struct io *io, const struct pipeline *p,
				uint32_t chunk_size);

void frame_close(struct frame *f); /* NULL is fine; commits nothing */

const struct frame_info *frame_info(const struct frame *f);
struct io *frame_io(const struct frame *f);

/* True: it was made here, as far as can be seen, and not only written to. */
bool frame_is_ours(const struct frame *f);
bool frame_writable(const struct frame *f); /* false: sparse, variable, VL-blocks, beta */

/*
 * True: the root that the header pointed at was torn, and what was opened is the newest
 * that is whole. The caller knows the name and tells the user.
 */
bool frame_went_back(const struct frame *f);

/* True when the frame has a fixed metalayer of that name; content is borrowed till close. */
bool frame_meta(const struct frame *f, const char *name, struct view *content);

/* Fixed and variable-length metalayers by number; false past the last. Names are NUL-ended. */
bool frame_meta_at(const struct frame *f, uint32_t i, const char **name, struct view *content);
bool frame_vlmeta_at(const struct frame *f, uint32_t i, const char **name, struct view *chunk);

/* ---- What the index says of chunks ---- */

/* Decoded size as of the mutators so far, committed or not, and chunks. [reader] */
uint64_t frame_size(const struct frame *f);
uint32_t frame_nchunks(const struct frame *f);

/* Where chunk n lies among the decoded bytes. [reader] */
struct frame_span {
	uint64_t start;
	uint32_t len;
};
struct frame_span frame_chunk_span(const struct frame *f, uint32_t n);

/* The chunk that holds decoded byte `at` < frame_size. [reader] */
uint32_t frame_chunk_at(const struct frame *f, uint64_t at);

enum slot_kind { SLOT_STORED, SLOT_ZEROS, SLOT_NAN, SLOT_UNINIT };

/* What the index says of chunk n. SLOT_UNINIT, of other programs, reads as zeros. [reader] */
enum slot_kind frame_slot(const struct frame *f, uint32_t n);

/* True: it reads as zeros, and nothing is stored for it. [reader] */
bool frame_is_hole(const struct frame *f, uint32_t n);

/*
 * The first chunk from n on that is a hole, and the first that is not; frame_nchunks: there is
 * none. Equal entries are passed over by the thousand. [reader]
 */
uint32_t frame_next_hole(const struct frame *f, uint32_t n);
uint32_t frame_next_data(const struct frame *f, uint32_t n);

/*
 * Where chunk n, a stored slot, is. The same place holds the same bytes until it is put; but for
 * the chunks that another program has replaced by others of the same length (ROOT_ALIKE). [reader]
 */
uint64_t frame_place(const struct frame *f, uint32_t n);

/* True: a stored slot that no root has as it is now. Its space is free once it is put again. */
bool frame_slot_is_new(struct frame *f, uint32_t n);

/* ---- Reading: the head of a chunk first, then any of its blocks: frame_read.c ---- */

/*
 * Reads header, block offsets, dictionary and (delta) block 0 of chunk n, so that
 * any block of it can be read after. Special slots make a chunk that needs no
 * bytes. *c must be zeroed; chunk_deinit it whatever comes back. The chunk's
 * nbytes has been checked against frame_chunk_span. [reader]
 */
NODISCARD int frame_load_chunk(struct frame *f, uint32_t n, struct scratch *s, struct chunk *c);

/* Decodes a run of blocks of chunk n, loaded before, reading just their bytes. [reader] */
NODISCARD int frame_read_blocks(struct frame *f, uint32_t n, const struct chunk *c, struct run run,
				struct scratch *s, struct span dst);

/*
 * One block of a stored chunk, packed: as chunk_decode_packed leaves it. Only of chunks that
 * frame_can_pack: those that chunk_can_pack, and have several blocks. (Reading a chunk of
 * one block whose checksum is known reads all of it, so that frame_read_blocks can verify that.)
 * [reader]
 */
bool frame_can_pack(const struct frame *f, uint32_t n, const struct chunk *c);
NODISCARD int frame_read_packed(struct frame *f, uint32_t n, const struct chunk *c, uint32_t block,
				struct scratch *s, struct span dst);

/*
 * Some bytes of a block of a stored chunk that chunk_has_parts, without what is behind them.
 * CHUNK_NO_PART: this block has to be read whole. [reader]
 */
NODISCARD int frame_read_part(struct frame *f, uint32_t n, const struct chunk *c,
			      struct chunk_part part, struct scratch *s, struct span dst);

/*
 * Reads chunk n, loaded before, and holds it against its checksum. 0 also where none is known, and
 * where each block has one of its own: those are checked whenever a block is read. [reader]
 */
NODISCARD int frame_check_chunk(struct frame *f, uint32_t n, const struct chunk *c);

/* Memory that a run of blocks takes while it is read, these blocks included. [reader] */
uint64_t frame_run_memory(const struct frame *f, uint32_t n, const struct chunk *c, struct run run,
			  bool packed);

/*
 * Bytes [lo, lo + dst.n) of a chunk that needs no decoder, and has no checksum to be held against:
 * no memory is taken, however large its blocks are. [reader]
 */
bool frame_can_read_within(const struct frame *f, uint32_t n, const struct chunk *c);
NODISCARD int frame_read_within(struct frame *f, uint32_t n, const struct chunk *c, uint32_t lo,
				struct span dst);

/* The whole decoded chunk n; dst.n is its span's len. [reader] */
NODISCARD int frame_read_chunk(struct frame *f, uint32_t n, struct scratch *s, struct span dst);

/*
 * The stored bytes of chunk n, a stored slot, as they are: header first, cbytes of them, checked.
 * All of them, however many: for patching, and for copying without decoding. No bytes after a
 * failure. [reader]
 */
NODISCARD int frame_read_raw(struct frame *f, uint32_t n, struct buf *cchunk);

/*
 * The stored bytes of chunk n, checked: fit for frame_alloc, frame_write and frame_put in another
 * frame with chunks of that length. No bytes: a hole. -ENOTSUP: such a chunk has to be decoded.
 * -E2BIG: it, or reading its head, takes more than `most` bytes. [reader]
 */
NODISCARD int frame_read_copy(struct frame *f, uint32_t n, uint64_t most, struct scratch *s,
			      struct buf *cchunk);

/* Any byte range inside frame_size; for tools and tests. [reader] */
NODISCARD int frame_read(struct frame *f, uint64_t at, struct scratch *s, struct span dst);

/* ---- Holding chunks against their checksums: verify.c, frame_sums.c ---- */

/* What frame_verify found. `problem` is called with a line of text each; NULL: nobody listens. */
struct frame_report {
	void (*problem)(void *arg, const char *line);
	void *arg;
	uint64_t problems, with_sum, without_sum; /* stored chunks with and without a checksum */
	bool recovered; /* the header on disk points at a root that is not whole */
};

/*
 * Reads and decodes everything, and holds it against the
 * checksums. < 0: could not be done. [reader]
 */
NODISCARD int frame_verify(struct frame *f, struct frame_report *report);

/* Stored chunks whose blocks have checksums, as far as the root vouches for those. [reader] */
uint32_t frame_count_block_sums(const struct frame *f);

/*
 * True: chunk n is stored, and these are its bytes, by their
 * checksum. False also where none is known. [reader]
 */
bool frame_stores(const struct frame *f, uint32_t n, struct view cchunk);

/*
 * ---- Changing: frame.c ----
 *
 * A chunk is stored in three steps: frame_alloc finds space, frame_write fills it, and frame_put
 * enters it into the index; or frame_unalloc gives the space back. The next commit shows it.
 */

/*
 * Changes the decoded size. Growing adds holes; shrinking drops chunks. The
 * short last chunk, before and after, is the caller's to rewrite (frame_put)
 * before the next commit when it is a stored one: every stored chunk must hold as
 * many bytes as its span says. -EFBIG beyond the frame's limit of chunks. [mutator]
 */
NODISCARD int frame_resize(struct frame *f, uint64_t nbytes);
uint64_t frame_max_size(const struct frame *f);

/*
 * Space for `len` stored bytes, of chunk n, that no root refers to; relative to the frame's start.
 * [mutator]
 */
NODISCARD int frame_alloc(struct frame *f, uint32_t n, uint32_t len, uint64_t *at);

/* Fills space that frame_alloc gave. Any thread, any time. */
NODISCARD int frame_write(struct frame *f, uint64_t at, struct view cchunk);

/* Chunk n is from now on the `len` bytes at `at`; what it was before becomes free. [mutator] */
void frame_put(struct frame *f, uint32_t n, uint64_t at, uint32_t len);

/* Gives back space of frame_alloc that will not be used. [mutator] */
void frame_unalloc(struct frame *f, uint64_t at, uint32_t len);

/* Chunk n becomes a hole. [mutator] */
void frame_put_zeros(struct frame *f, uint32_t n);

/*
 * What the header says of the pipeline, from the next commit on: that of the first data
 * chunk, which is often chosen only when the data is there. [mutator]
 */
void frame_set_pipeline(struct frame *f, const struct pipeline *p);

/*
 * Chunks to come may have items of this size, though the header says 1, since the frame ends inside
 * an item: it says this size as soon as the length is whole items. (The library makes holes of the
 * header's size, and its buffers for them are too small for chunks of a larger one: policy.h.)
 * [mutator]
 */
void frame_expect_items(struct frame *f, uint32_t size);

/* Another size of the chunks to come, of a frame that has none. [mutator] */
void frame_set_chunk_size(struct frame *f, uint32_t chunk_size);

/* ---- Committing, and what the disk has: frame_commit.c ---- */

enum durability {
	COMMIT_PART,  /* as the next, but the caller has more that belongs to it */
	COMMIT_LATER, /* written, in order; the disk may take its time           */
	COMMIT_SYNC,  /* data, index, trailer - sync - header - sync             */
};

/*
 * Makes all changes since the last commit what a reader sees. On failure the
 * file shows the last good commit and the changes stay pending: a later call
 * may succeed. COMMIT_SYNC on a clean frame still makes an earlier COMMIT_LATER durable. [mutator]
 */
NODISCARD int frame_commit(struct frame *f, enum durability how);

/*
 * COMMIT_PART of a frame that lacks chunks: `missing` is the first that has not been put yet. A
 * reader would see zeros there that nobody wrote, so the frame on disk ends before that chunk. It
 * does not get shorter than frame_kept, though: so many bytes the last full commit has shown. If
 * that end falls into a chunk, the chunk must be a hole. What is left out stays pending.
 * UINT32_MAX: nothing is missing. [mutator]
 */
NODISCARD int frame_commit_part(struct frame *f, uint32_t missing);
uint64_t frame_kept(const struct frame *f);

/* True: such a commit writes to the file; a clean frame is no more than synced. [reader] */
bool frame_writes(const struct frame *f, enum durability how);

/* True: something changed since the last commit. [reader] */
bool frame_dirty(const struct frame *f);

/*
 * True: bytes of replaced chunks pile up that only a commit makes free again. Whoever calls
 * frame_commit then, with whatever durability, keeps the file within 1.5x of its live size.
 * [reader]
 */
bool frame_wants_commit(const struct frame *f);

/* Makes the root on disk durable; the changes since then stay pending. [mutator] */
NODISCARD int frame_sync_root(struct frame *f);

/* True: bytes of the file wait for a root without them, or for that to be durable. [reader] */
bool frame_waits(const struct frame *f);

/*
 * True: a sync failed, and until one succeeds every commit has to write all since the last good one
 * once more. Whoever closes a frame and opens it again passes that on. [mutator]
 */
bool frame_suspect(const struct frame *f);
void frame_set_suspect(struct frame *f);

/*
 * Roots of ours by their sequence numbers, which only grow: the one on disk, and the newest one
 * that is known to be durable. After a power cut the frame opens at one from `durable` to `newest`,
 * or at what another program made of it. 0: a root without number (another program's), or
 * nobody knows. An empty root is no `durable` one: with bytes behind it nothing goes back to it. A
 * COMMIT_PART has the number of the last root before it that was not one: there may be changes
 * older than it that it does not contain. [reader]
 */
struct frame_roots {
	uint64_t newest, durable;
	bool emptied; /* by us; the header may be on the disk without the number behind it */
};
struct frame_roots frame_roots(const struct frame *f);

/*
 * Is the root on disk still the one that this frame was opened with, or wrote (frame_identity.c)?
 * ROOT_ALIKE: by all that it tells, but it is another program's, and chunks may have been replaced
 * by others of the same length. ROOT_OTHER: no, or it could not be read. What was put since is in
 * the file unless it is ROOT_OTHER.
 */
enum root_match { ROOT_OTHER, ROOT_ALIKE, ROOT_SAME };

/* Before the first question, while nobody else can write: which root that is. [mutator] */
void frame_remember_root(struct frame *f);
enum root_match frame_compare_root(struct frame *f); /* [reader] */

/*
 * Wary: a commit of data looks once more at the root on disk before it replaces that, and fails
 * with -ESTALE when it is another program's; the tail of such a file is left alone. [mutator]
 */
void frame_set_wary(struct frame *f, bool wary);

/* ---- Free space in the file: frame_space.c, compact.c ---- */

/*
 * True: more than a third is free or will be, as far as is known without looking for it. [reader]
 */
bool frame_wants_compact(const struct frame *f);

/*
 * Moves chunks from the end of the file into gaps nearer to its start when more than a third of
 * the file is free, about `step` bytes a call. > 0: it did, and a commit then lets the file get
 * shorter; call again after that. 0: nothing to do. [mutator]
 */
NODISCARD int frame_compact(struct frame *f, uint64_t step);

/*
 * Tight: for a file that nobody is about to write. Compaction goes on while more than 1/32 is free,
 * and every gap that is worth a block goes back to the disk, the tail too. [mutator]
 */
void frame_set_tight(struct frame *f, bool tight);

/*
 * Of a frame that was opened anew, after what this process had put behind its root was given up:
 * cuts that off. On a full disk somebody waits for the room. [mutator]
 */
void frame_cut_given_up(struct frame *f);

#endif
