/* One block of a chunk: its filters and its streams, in both directions (FORMAT.md 3 to 5). */
#ifndef CODEC_BLOCK_H
#define CODEC_BLOCK_H

#include "codec/block_form.h"
#include "codec/filter.h"
#include "codec/pipeline.h"
#include "codec/scratch.h"
#include "codec/stream.h"

/* What all blocks of a chunk share. */
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
	uint32_t nstreams;    /* divides the block's length                             */
	bool bare;            /* decoding: one payload without a csize word             */
	enum block_form form; /* decoding: what dst gets                                */
	struct view ref;      /* delta: decoded block 0, for all other blocks; else empty */
};

/* Appends a filter to the steps, unless it would change nothing. */
void block_add_filter(struct block_plan *p, const struct filter *row, uint32_t param);

/* Decodes a block. `stored` may extend past it. dst must not overlap b->ref. */
NODISCARD int block_decode(const struct block_plan *p, struct scratch *s, const struct block *b,
			   struct view stored, struct span dst);

/* Bytes of the scratch that decoding a block of `len` bytes to that form needs. */
size_t block_work(const struct block_plan *p, enum block_form form, size_t len);

/* True: the filter that is undone last only moves bytes or bits about. */
bool block_can_pack(const struct block_plan *p);

/* The last step of decoding for a part of a packed block: dst.n bytes from byte `lo` on. */
NODISCARD int block_unpack(const struct block_plan *p, struct scratch *s, struct view packed,
			   size_t lo, struct span dst);

/*
 * Decodes dst.n bytes from `lo` on of a block of `whole` bytes, and of each stream no more than
 * they need; damage in the rest goes unnoticed. False: it has to be decoded as a whole. Only where
 * block_has_parts: in one stream without filters, or shuffled with a stream for each plane.
 */
struct block_part {
	size_t whole, lo;
};
bool block_has_parts(const struct block_plan *p, const struct scratch *s, uint32_t nstreams);
bool block_decode_part(const struct block_plan *p, struct scratch *s, struct view stored,
		       struct block_part part, struct span dst);

/*
 * Decides, by a look at one block, where the streams of all blocks are cut (cuts.h). Only for
 * blocks in one stream, of a codec that can cut; otherwise it does nothing.
 */
NODISCARD int block_plan_cuts(struct block_plan *p, struct scratch *s, const struct block *b,
			      struct view src);

/*
 * Applies the filters. *out is src itself, or lies in the scratch and is valid until its next use.
 */
NODISCARD int block_filter(const struct block_plan *p, struct scratch *s, const struct block *b,
			   struct view src, struct view *out);

/*
 * An estimate of how many bytes a sample adds to blocks in one stream, whatever else these hold. 0:
 * the codec cannot tell.
 */
NODISCARD ssize_t block_estimate(struct block_plan *p, struct scratch *s, struct view sample);

/* Applies the filters and encodes. Returns the length; 0: it does not fit into dst. */
NODISCARD ssize_t block_encode(const struct block_plan *p, struct scratch *s, const struct block *b,
			       struct view src, struct span dst);

#endif
