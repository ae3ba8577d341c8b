/* One block of a chunk: its filters and its streams, in both directions (FORMAT.md 3 to 5). */
#ifndef CODEC_BLOCK_H
#define CODEC_BLOCK_H

#include "codec/block_form.h"
#include "codec/filter.h"
#include "codec/pipeline.h"
#include "codec/scratch.h"
#include "codec/stream.h"

/* The parameters that all blocks of a chunk share. */
struct block_plan {
	struct stream_coder coder;
	uint32_t typesize;
	bool blosc1; /* chunk version 2: the older rule for bitshuffle, FORMAT.md 5.3 */
	unsigned nsteps;
	struct filter_step {
		const struct filter *row;
		uint32_t param;
	} step[FILTER_SLOTS];
};

struct block {
	uint32_t nstreams;    /* the block's length is a multiple of it                 */
	bool bare;            /* decoding: one payload without a csize word             */
	enum block_form form; /* decoding: what dst gets                                */
	struct view ref;      /* delta, blocks other than 0: decoded block 0; else empty */
};

/* Appends a filter to the steps, unless it would change nothing. */
void block_add_filter(struct block_plan *p, const struct filter *row, uint32_t param);

/* Decodes a block. `stored` may extend past it. dst must not overlap b->ref. */
NODISCARD int block_decode(const struct block_plan *p, struct scratch *s, const struct block *b,
			   struct view stored, struct span dst);

/* The bytes of scratch needed to decode a block of `len` bytes to that form. */
size_t block_work(const struct block_plan *p, enum block_form form, size_t len);

/* True: the filter that is undone last only permutes bytes or bits. */
bool block_can_pack(const struct block_plan *p);

/* The last step of decoding for a part of a packed block: dst.n bytes from byte `lo` on. */
NODISCARD int block_unpack(const struct block_plan *p, struct scratch *s, struct view packed,
			   size_t lo, struct span dst);

/*
 * Decodes dst.n bytes from `lo` on of a block of `whole` bytes, and no more of each stream than
 * these need; damage in the rest goes unnoticed. False: the block has to be decoded as a whole.
 * Only if block_has_parts: one stream and no filters, or shuffled with a stream for each plane.
 */
struct block_part {
	size_t whole, lo;
};
bool block_has_parts(const struct block_plan *p, const struct scratch *s, uint32_t nstreams);
bool block_decode_part(const struct block_plan *p, struct scratch *s, struct view stored,
		       struct block_part part, struct span dst);

/*
 * Decides, by looking at one block, where to cut the streams of all blocks (cuts.h). Does nothing
 * unless blocks are one stream and the codec can cut.
 */
NODISCARD int block_plan_cuts(struct block_plan *p, struct scratch *s, const struct block *b,
			      struct view src);

/* Applies the filters. *out is src itself, or in the scratch and valid until that is used again. */
NODISCARD int block_filter(const struct block_plan *p, struct scratch *s, const struct block *b,
			   struct view src, struct view *out);

/*
 * Estimates how many bytes a sample adds to a block in one stream, whatever else is in that. 0: the
 * codec cannot tell.
 */
NODISCARD ssize_t block_estimate(struct block_plan *p, struct scratch *s, struct view sample);

/* Applies the filters and encodes. Returns the length; 0: it does not fit into dst. */
NODISCARD ssize_t block_encode(const struct block_plan *p, struct scratch *s, const struct block *b,
			       struct view src, struct span dst);

#endif
