/*
 * One chunk: its stored form <-> its bytes (FORMAT.md 2-5). No I/O: the caller
 * asks which bytes are needed, fetches them, and hands them over.
 *
 *   struct chunk c = {0};
 *   size_t have = 32;                                   any first guess
 *   for (;;) {
 *           fetch the first `have` bytes of the chunk into `head`
 *           int rc = chunk_parse(&c, head, room, item); rc > have: fetch rc bytes, call again
 *           if (rc <= 0) break;                         0: complete
 *   }
 *   struct extent e = chunk_extent(&c, run);            which bytes hold these blocks
 *   chunk_decode(&c, scratch, run, stored bytes of e, dst);
 *   chunk_deinit(&c);
 *
 * A parsed chunk never changes and may be shared by any number of threads.
 */
#ifndef CODEC_CHUNK_H
#define CODEC_CHUNK_H

#include "base/buf.h"
#include "codec/pipeline.h"
#include "codec/scratch.h"

/* FORMAT.md 1.2 */
#define CHUNK_HEAD 32           /* bytes of the extended header                       */
#define CHUNK_HEAD_MIN 16       /* bytes of the Blosc1 header                         */
#define CHUNK_MAX_NBYTES 2147483615u
#define CHUNK_MAX_BLOCKSIZE 536866816u
#define CHUNK_MAX_TYPESIZE 255u /* items that are longer count as bytes: FORMAT.md 2.4 */
#define CHUNK_MAX_OVERHEAD 32   /* of a plain copy                                    */

enum chunk_kind {
	CHUNK_REGULAR, /* blocks of streams                  */
	CHUNK_STORED,  /* a plain copy behind the header     */
	CHUNK_ZEROS,
	CHUNK_NAN,
	CHUNK_VALUE, /* one item, repeated                   */
	CHUNK_UNINIT, /* any content; decodes to zeros here  */
};

struct run {
	uint32_t first, n; /* blocks first .. first + n - 1 */
};

struct extent {
	uint32_t off, len; /* from the first byte of the chunk */
};

struct chunk {
	/* judged by chunk_parse; read only for others */
	enum chunk_kind kind;
	uint32_t nbytes;    /* decoded bytes                                         */
	uint32_t cbytes;    /* stored bytes, header included                         */
	uint32_t blocksize; /* decoded bytes a block; the last may be shorter        */
	uint32_t nblocks;
	uint32_t typesize;  /* as the filters see it                                 */
	uint8_t version, codec;
	uint8_t filter[FILTER_SLOTS], meta[FILTER_SLOTS];
	uint32_t param[FILTER_SLOTS]; /* meta, with what 0 stands for put in its place */
	bool split, has_dict, is_vl;
	uint32_t head_len;  /* 16 or 32                                              */
	uint32_t sums_end;  /* with `sums`: so many bytes lie in front of the blocks */

	/* owned; NULL or empty where the kind has none */
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
 * Judges the first bytes of a chunk. `room`: bytes from the chunk's first byte
 * to the end of what may belong to it (the chunk area of a frame, the length of
 * a buffer); cbytes must not exceed it. `item`: typesize of the super-chunk for filters
 * that ask for it (bytedelta with parameter 0), 0 for a chunk that stands alone.
 *
 * 0: complete. > 0: the number of leading bytes that it needs to see; call
 * again with at least so many. -EBADMSG, -ENOTSUP, -ENOMEM. *c must be zeroed
 * before the first call, and chunk_deinit after the last, whatever it returned.
 * Memory taken is at most about 12 bytes a block, and blocks cost the file 4
 * bytes each, plus checksums of blocks and a dictionary that the file holds.
 */
NODISCARD int chunk_parse(struct chunk *c, struct view head, uint64_t room, uint32_t item);
void chunk_deinit(struct chunk *c);

/* Bytes of memory that *c holds, itself included; for caches that count. */
size_t chunk_footprint(const struct chunk *c);

/* Decoded place of a block in the chunk's bytes, and the block that holds a byte. */
struct extent chunk_block_bytes(const struct chunk *c, uint32_t block);
uint32_t chunk_block_at(const struct chunk *c, uint32_t byte);

/* Decoded bytes of a run. */
uint32_t chunk_run_bytes(const struct chunk *c, struct run run);

/*
 * The stored bytes that hold a run: exactly those of the block for a run of one.
 * Blocks may lie in any order, so that the extent of a longer run may cover
 * others too. {0, 0}: nothing is needed (special values).
 */
struct extent chunk_extent(const struct chunk *c, struct run run);

/*
 * Bytes of memory that decoding any block of a run takes at most, beside its stored bytes and where
 * it goes to. `packed`: by chunk_decode_packed.
 */
uint64_t chunk_work(const struct chunk *c, struct run run, bool packed);

/*
 * True: blocks other than 0 need block 0 decoded (delta). Decode block 0 into
 * `ref` by chunk_load_ref with the stored bytes of run {0, 1}, before sharing *c.
 */
bool chunk_wants_ref(const struct chunk *c);
NODISCARD int chunk_load_ref(struct chunk *c, struct scratch *s, struct view stored);

/* `stored`: the bytes of chunk_extent(c, run). Fills exactly chunk_run_bytes(c, run) of dst. */
NODISCARD int chunk_decode(const struct chunk *c, struct scratch *s, struct run run,
			   struct view stored, struct span dst);

/*
 * For bytes that come from a disk: they have to fit the checksums of their blocks, where the chunk
 * has those (chunk_sums.h). chunk_decode_checked looks at each block before it decodes it.
 */
NODISCARD int chunk_check(const struct chunk *c, struct run run, struct view stored);
NODISCARD int chunk_decode_checked(const struct chunk *c, struct scratch *s, struct run run,
				   struct view stored, struct span dst);

/*
 * True: each block of the run is, as far as the chunk's head tells, its plain bytes behind a csize
 * word, and has a checksum. So the bytes may be read to where they are wanted, without the word
 * in front of them. Where they do not fit, it is for chunk_decode_checked to say what they are.
 */
bool chunk_run_is_plain(const struct chunk *c, struct run run);
bool chunk_plain_fits(const struct chunk *c, uint32_t block, struct view bytes);

/*
 * Of a block that was shuffled, by bytes or bits, a part can be had without the rest. Decoded
 * but for this last step it is packed, as long as before; chunk_unpack makes its bytes
 * lo .. lo + dst.n - 1. Not all chunks can. The stored bytes are checked.
 */
bool chunk_can_pack(const struct chunk *c);
NODISCARD int chunk_decode_packed(const struct chunk *c, struct scratch *s, uint32_t block,
				  struct view stored, struct span dst);
NODISCARD int chunk_unpack(const struct chunk *c, struct scratch *s, struct view packed,
			   uint32_t lo, struct span dst);

/*
 * The bytes of a block from `lo` on, where its streams need not be decoded to their ends for that:
 * without filters, or shuffled with a stream for each plane. Only of chunks whose blocks have
 * checksums: nothing else sees what is wrong behind. CHUNK_NO_PART: this block can only be decoded
 * whole.
 */
#define CHUNK_NO_PART 1
struct chunk_part {
	uint32_t block, lo;
};
bool chunk_has_parts(const struct chunk *c, const struct scratch *s);
NODISCARD int chunk_decode_part(const struct chunk *c, struct scratch *s, struct chunk_part part,
				struct view stored, struct span dst);

/* Bytes of a chunk of a special value, from byte `lo` on. */
void chunk_fill(const struct chunk *c, uint32_t lo, struct span dst);

/* A whole chunk in memory: parse and decode at once. dst.n must be its nbytes. */
NODISCARD int chunk_decode_all(struct scratch *s, struct view stored, uint32_t item,
			       struct span dst);

/* The first 16 bytes: decoded size and stored size, unjudged beyond their own limits. */
NODISCARD int chunk_sizes(struct view head, uint32_t *nbytes, uint32_t *cbytes);

/* What a header says, unjudged: enough for a guess. `head` has zeros behind a shorter chunk. */
struct chunk_traits {
	uint32_t typesize, blocksize;
	bool vl_blocks;
};
struct chunk_traits chunk_traits(const uint8_t head[static CHUNK_HEAD]);

/*
 * The header of a chunk that its caller lays out: whole for a plain copy and special values.
 * CHUNK_REGULAR gets its flags and codec from the encoder.
 */
struct chunk_head {
	enum chunk_kind kind;
	uint32_t typesize; /* at most 255 */
	uint32_t nbytes, blocksize, cbytes;
};
void chunk_head_put(uint8_t out[static CHUNK_HEAD], const struct chunk_head *h);

/*
 * Encodes src (1 .. CHUNK_MAX_NBYTES bytes) into out, whose n becomes cbytes.
 * The pipeline has passed pipeline_check. Where that is smaller it makes a plain copy: src.n + 32
 * bytes; or blocks of plain bytes (FORMAT.md 3.9), if there are several and they get checksums.
 * Never makes a special-value chunk of kind zeros, NaN or uninitialised: frames
 * keep those in the index (FORMAT.md 9.3). Blocks get checksums (chunk_sums.h) unless the
 * pipeline says no_sums.
 */
NODISCARD int chunk_encode(struct scratch *s, const struct pipeline *p, struct view src,
			   struct buf *out);

/* New bytes for a run of blocks: bytes.n is chunk_run_bytes of the run. */
struct chunk_edit {
	struct run run;
	struct view bytes;
};

struct chunk_patch {
	const struct chunk *chunk;         /* parsed                                    */
	struct view stored;                /* the whole chunk, its header first         */
	const struct pipeline *pipeline;   /* names the level, and lz4hc where lz4 is   */
	const struct chunk_edit *edit;     /* ascending, no block twice                 */
	size_t nedits;
};

/*
 * Encodes a chunk anew with other bytes in some blocks; the stored bytes of the
 * others are copied as they are, and their checksums with them: whoever fetched `stored` has
 * checked it. The chunk keeps its own codec, filters and block size,
 * a plain copy stays one. 0: done. 1: not possible for this chunk, or no smaller than a
 * plain copy (but for blocks of plain bytes): encode all of it. Not possible are special values,
 * dictionaries, variable-length blocks, older formats, filters that are only read or lose, a change
 * of block 0 under delta, and delta without chunk_load_ref.
 */
NODISCARD int chunk_patch(struct scratch *s, const struct chunk_patch *p, struct buf *out);

struct chunk_growth {
	const struct chunk *chunk;         /* parsed                                    */
	struct view stored;                /* all of it, its header first               */
	const struct pipeline *pipeline;   /* as of a patch                             */
	struct view bytes;                 /* of the new chunk: more than the old has   */
	uint32_t keep;                     /* so many first blocks stay, whole ones; >= 1 */
};

/* The same for a chunk that gets longer at its end. One of plain bytes is not grown. */
NODISCARD int chunk_grow(struct scratch *s, const struct chunk_growth *g, struct buf *out);

/* True: every byte is zero. */
bool bytes_are_zero(struct view v);

#endif
