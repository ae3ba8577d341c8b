/*
 * One chunk: its stored form <-> its bytes (FORMAT.md 2-5). No I/O: the caller
 * asks which bytes are needed, fetches them, and hands them over.
 *
 *   struct chunk c = {0};
 *   size_t have = 32;                                   a first guess
 *   for (;;) {
 *           fetch the first `have` bytes of the chunk into `head`
 *           int rc = chunk_parse(&c, head, room, item); rc > have: fetch rc bytes, call again
 *           if (rc <= 0) break;                         0: complete
 *   }
 *   struct extent e = chunk_extent(&c, run);            the bytes that hold these blocks
 *   chunk_decode(&c, scratch, run, stored bytes of e, dst);
 *   chunk_deinit(&c);
 *
 * A parsed chunk never changes and may be shared by any number of threads.
 *
 * chunk_parse.c validates, chunk.c decodes, chunk_encode.c and chunk_patch.c write, block_sums.c
 * compares checksums, and encoder.c knows the layout of the chunks that we write.
 */
#ifndef CODEC_CHUNK_H
#define CODEC_CHUNK_H

#include "base/buf.h"
#include "codec/block_form.h"
#include "codec/pipeline.h"
#include "codec/scratch.h"

/* FORMAT.md 1.2 */
#define CHUNK_HEAD 32           /* bytes of the extended header                       */
#define CHUNK_HEAD_MIN 16       /* bytes of the Blosc1 header                         */
#define CHUNK_MAX_NBYTES 2147483615u
#define CHUNK_MAX_BLOCKSIZE 536866816u
#define CHUNK_MAX_TYPESIZE 255u /* longer items are treated as bytes: FORMAT.md 2.4 */

enum chunk_kind {
	CHUNK_REGULAR, /* blocks of streams                  */
	CHUNK_STORED,  /* a plain copy after the header      */
	CHUNK_ZEROS,
	CHUNK_NAN,
	CHUNK_VALUE, /* one item, repeated                   */
	CHUNK_UNINIT, /* any content; decodes to zeros here  */
};

struct run {
	uint32_t first, n; /* blocks first .. first + n - 1 */
};

/*
 * A range of bytes of one chunk: of its stored bytes (chunk_extent), whose offsets count from the
 * first byte of its header, or of its decoded bytes (chunk_block_bytes).
 */
struct extent {
	uint32_t off, len;
};

struct chunk {
	/* set by chunk_parse; read-only for others */
	enum chunk_kind kind;
	uint32_t nbytes;    /* decoded bytes                                         */
	uint32_t cbytes;    /* stored bytes, header included                         */
	uint32_t blocksize; /* decoded bytes a block; the last may be shorter        */
	uint32_t nblocks;
	uint32_t typesize;  /* for the filters                                       */
	uint8_t version, codec;
	uint8_t filter[FILTER_SLOTS], meta[FILTER_SLOTS];
	uint32_t param[FILTER_SLOTS]; /* meta, with 0 replaced by what it stands for */
	bool split;         /* a separate stream for each byte of an item            */
	bool has_dict, is_vl;
	bool common;        /* other readers decode the same bytes: FORMAT.md 3.10, 18 */
	uint32_t head_len;  /* bytes of the header: 16 or 32                         */
	uint32_t sums_end;  /* with `sums`: where the first block begins             */

	/* owned; NULL or empty if the kind has none */
	uint32_t *bstart;   /* nblocks: first byte of each block                     */
	uint32_t *bend;     /* nblocks: the byte after its last                      */
	uint32_t *sums;     /* nblocks: checksum of the stored bytes of each, or NULL */
	uint32_t *vl_start; /* nblocks + 1 decoded offsets, variable-length blocks   */
	struct buf dict;
	struct buf value;   /* the item of CHUNK_VALUE and CHUNK_NAN                 */
	struct buf ref;     /* decoded block 0, where delta needs it (see below)     */
	void *ddict;        /* digested zstd dictionary                              */
};

/*
 * Parses and validates the start of a chunk. `head`: the bytes that the caller has so far. `room`:
 * the bytes from the chunk's first byte to the end of what may belong to it (the chunk area of a
 * frame, or a buffer); cbytes must not exceed it. `item`: the typesize of the super-chunk, for
 * filters that need it (bytedelta with parameter 0); 0 for a chunk that stands alone.
 *
 * Returns 0 when *c is complete. A result > 0 is the number of leading bytes that must be visible:
 * call again with at least that many. Fails with -EBADMSG, -ENOTSUP or -ENOMEM. *c must be zeroed
 * before the first call; call chunk_deinit after the last one, whatever it returned.
 *
 * Memory: at most about 12 bytes per block, each of which costs the file at least 4 bytes, plus the
 * checksums and the dictionary that the file holds. So a small hostile file cannot make it allocate
 * much.
 */
NODISCARD int chunk_parse(struct chunk *c, struct view head, uint64_t room, uint32_t item);

/*
 * A guess for `have`: the bytes before that many blocks, with checksums and without a dictionary.
 */
size_t chunk_head_guess(uint32_t nblocks);

void chunk_deinit(struct chunk *c);

/* The memory held by *c in bytes, itself included, for caches that account for it. */
size_t chunk_footprint(const struct chunk *c);

/* The decoded bytes of a block within the chunk, and the block that holds a decoded byte. */
struct extent chunk_block_bytes(const struct chunk *c, uint32_t block);
uint32_t chunk_block_at(const struct chunk *c, uint32_t byte);

/* How many bytes a run decodes to. */
uint32_t chunk_run_bytes(const struct chunk *c, struct run run);

/* As many blocks from `first` on as fit into `most` decoded bytes, but at least one. */
struct run chunk_run_of(const struct chunk *c, uint32_t first, uint32_t most);

/*
 * The stored bytes needed to decode a run: for a run of one, exactly those of the block. Blocks may
 * be stored in any order, so the extent of a longer run may include other blocks. {0, 0}: none are
 * needed (special values).
 */
struct extent chunk_extent(const struct chunk *c, struct run run);

/*
 * An upper bound for the memory, in bytes, needed to decode any block of a run to that form,
 * besides its stored bytes and its destination.
 */
uint64_t chunk_work(const struct chunk *c, struct run run, enum block_form form);

/*
 * True: decoding the other blocks needs block 0 (delta). Before *c is shared, call chunk_load_ref
 * with the stored bytes of run {0, 1}, which decodes block 0 into `ref`.
 */
bool chunk_wants_ref(const struct chunk *c);
NODISCARD int chunk_load_ref(struct chunk *c, struct scratch *s, struct view stored);

/*
 * Decodes a run. `stored`: the bytes of chunk_extent(c, run). dst.n must be chunk_run_bytes(c,
 * run). Here and below: fails with -EBADMSG or -ENOMEM, leaving dst undefined.
 */
NODISCARD int chunk_decode(const struct chunk *c, struct scratch *s, struct run run,
			   struct view stored, struct span dst);

/*
 * For bytes from a disk: -EBADMSG if they do not match the checksums of their blocks, where the
 * chunk has any (block_sums.h). chunk_decode_checked checks each block before decoding it.
 */
NODISCARD int chunk_check(const struct chunk *c, struct run run, struct view stored);
NODISCARD int chunk_decode_checked(const struct chunk *c, struct scratch *s, struct run run,
				   struct view stored, struct span dst);

/*
 * True: going by the chunk's head, each block of the run is stored as plain bytes after a csize
 * word, and has a checksum. Then the bytes can be read straight to where they are wanted, without
 * that word. chunk_plain_fits verifies one block that was read that way. False: use
 * chunk_decode_checked, which finds out what the bytes are.
 */
bool chunk_run_is_plain(const struct chunk *c, struct run run);
bool chunk_plain_fits(const struct chunk *c, uint32_t block, struct view bytes);

/*
 * Packed blocks: if the last step of decoding is to unshuffle bytes or bits, any part of a block
 * can be unshuffled without the rest. chunk_decode_packed does all steps but the last; its result
 * is as long as the block. chunk_unpack then produces the decoded bytes lo .. lo + dst.n -
 * 1. Only for chunks that chunk_can_pack. The stored bytes are checked against the checksum of
 * their block.
 */
bool chunk_can_pack(const struct chunk *c);
NODISCARD int chunk_decode_packed(const struct chunk *c, struct scratch *s, uint32_t block,
				  struct view stored, struct span dst);
NODISCARD int chunk_unpack(const struct chunk *c, struct scratch *s, struct view packed,
			   uint32_t lo, struct span dst);

/*
 * Decodes dst.n bytes of a block from `lo` on, and no more of each stream than necessary: for
 * chunks without filters, or shuffled with a stream for each plane. Only if the blocks have
 * checksums, since otherwise damage in the rest of a stream would go unnoticed. CHUNK_NO_PART: this
 * block can only be decoded as a whole.
 */
#define CHUNK_NO_PART 1
struct chunk_part {
	uint32_t block, lo;
};
bool chunk_has_parts(const struct chunk *c, const struct scratch *s);
NODISCARD int chunk_decode_part(const struct chunk *c, struct scratch *s, struct chunk_part part,
				struct view stored, struct span dst);

/* Fills dst with the decoded bytes, from `lo` on, of a chunk with a special value. */
void chunk_fill(const struct chunk *c, uint32_t lo, struct span dst);

/* Parses and decodes a whole chunk in memory. dst.n must be its nbytes. `item`: as chunk_parse. */
NODISCARD int chunk_decode_all(struct scratch *s, struct view stored, uint32_t item,
			       struct span dst);

/*
 * Gets the decoded and the stored size from the first 16 bytes. They are checked against the limits
 * of the format, not against the rest of the chunk.
 */
NODISCARD int chunk_sizes(struct view head, uint32_t *nbytes, uint32_t *cbytes);

/*
 * What a header says, unchecked: enough for a guess. If the chunk is shorter, `head` is padded with
 * zeros.
 */
struct chunk_traits {
	uint32_t typesize, blocksize;
	bool vl_blocks;
};
struct chunk_traits chunk_traits(const uint8_t head[static CHUNK_HEAD]);

/*
 * Writes the header of a chunk; the rest is up to the caller. For a plain copy and for special
 * values it is complete; for CHUNK_REGULAR, the encoder adds flags and codec.
 */
struct chunk_head {
	enum chunk_kind kind;
	uint32_t typesize; /* at most 255 */
	uint32_t nbytes, blocksize, cbytes;
};
void chunk_head_put(uint8_t out[static CHUNK_HEAD], const struct chunk_head *h);

/*
 * Encodes src (1 .. CHUNK_MAX_NBYTES bytes) into out, which is replaced; out->n becomes cbytes. The
 * pipeline must have passed pipeline_check. If encoding does not save space, the result is a plain
 * copy of src.n + 32 bytes, or, if there are several blocks and they get checksums, blocks of plain
 * bytes (FORMAT.md 3.9).
 *
 * Blocks get checksums (block_sums.h) unless the pipeline says no_sums. Never produces a chunk of
 * zeros, NaN or uninitialised values: frames keep those in the index (FORMAT.md 9.3). Fails with
 * -ENOMEM only.
 */
NODISCARD int chunk_encode(struct scratch *s, const struct pipeline *p, struct view src,
			   struct buf *out);

/*
 * A patchable chunk (below) as it will be once it has more bytes at its end: only for
 * chunk_block_bytes and chunk_run_bytes. A single block gets longer. Borrows *c.
 */
struct chunk chunk_longer(const struct chunk *c, uint32_t nbytes);

/* New bytes for a run of blocks. bytes.n must be chunk_run_bytes of the run. */
struct chunk_edit {
	struct run run;
	struct view bytes;
};

struct chunk_patch {
	const struct chunk *chunk;         /* parsed                                    */
	struct view stored;                /* the whole chunk, header included          */
	const struct pipeline *pipeline;   /* for the level, and for lz4hc in place of lz4 */
	const struct chunk_edit *edit;     /* in ascending order, no block twice        */
	size_t nedits;
	uint32_t nbytes;                   /* of the result: at least as many as before */
	bool kept; /* the edit of the former last block begins with that block's old bytes */
};

/*
 * True: chunk_patch can make a chunk of one block `nbytes` long. Whether so long a block is wanted
 * is up to the caller.
 */
bool chunk_can_append(const struct chunk *c, uint32_t nbytes);

/*
 * Replaces some blocks of a chunk and writes the result to out. The stored bytes of the other
 * blocks are copied with their checksums: the caller must have verified `stored`. The chunk keeps
 * its codec, its filters and its block size; a plain copy stays one. If it gets longer, the edits
 * refer to the blocks of chunk_longer, and must include all new blocks, and the last old block if
 * that was short. If that block is `kept` and only a few bytes are added to it, these may be
 * appended to its stored form.
 *
 * Returns 0 when done, and 1 when the caller has to encode the whole chunk: either it cannot be
 * patched, or the result would be no smaller than a plain copy (except for blocks of plain bytes).
 * Chunks that cannot be patched are special values; those with a dictionary, with variable-length
 * blocks or of older formats; plain copies that are not `common`; those whose filters we can only
 * undo, or that are lossy; and, with delta, any change of block 0, or any change at all before
 * chunk_load_ref. Plain copies, plain blocks and a single block cannot get longer, unless
 * chunk_can_append: the block size of a chunk of one block is its length, which would be too small.
 * Fails with -ENOMEM, or with -EBADMSG if the streams of a block without a checksum are invalid.
 */
NODISCARD int chunk_patch(struct scratch *s, const struct chunk_patch *p, struct buf *out);

#endif
