/* One block of a chunk: its filters and its streams. */
#ifndef CODEC_BLOCK_H
#define CODEC_BLOCK_H

#include "codec/filter.h"
#include "codec/pipeline.h"
#include "codec/scratch.h"
#include "codec/stream.h"

/* What all blocks of a chunk share. */
struct block_plan {
	struct stream_coder coder;
	uint32_t typesize;
	bool blosc1; /* version 2: the older rule for bitshuffle */
	unsigned nsteps;
	struct filter_step {
		const struct filter *row;
		uint32_t param;
	} step[FILTER_SLOTS];
};

struct block {
	uint32_t nstreams; /* divides the block's length                             */
	bool bare;         /* decoding: one payload without a csize word             */
	bool packed;       /* decoding: up to the last filter, see block_unpack      */
	struct view ref;   /* block 0 where delta needs it: every block but 0; else empty */
};

/* Adds a filter behind the ones there, unless it changes nothing. */
void block_add_filter(struct block_plan *p, const struct filter *row, uint32_t param);

/* `stored` may go on behind the block. dst must not overlap b->ref. */
NODISCARD int block_decode(const struct block_plan *p, struct scratch *s, const struct block *b,
			   struct view stored, struct span dst);

/* Bytes of the scratch that decoding a block of `len` bytes takes. */
size_t block_work(const struct block_plan *p, bool packed, size_t len);

/* True: the filter that is undone last moves bytes or bits about and does nothing else to them. */
bool block_can_pack(const struct block_plan *p);

/* The last step of decoding, for a part of a packed block: from byte `lo` on, dst.n bytes. */
NODISCARD int block_unpack(const struct block_plan *p, struct scratch *s, struct view packed,
			   size_t lo, struct span dst);

/*
 * Of a block of `whole` bytes those from `lo` on. Of each stream no more is decoded than they need,
 * and nothing is seen of what is wrong behind that. False: it has to be decoded as a whole. Only
 * where block_has_parts: in one stream without filters, or shuffled with a stream for each plane.
 */
struct block_part {
	size_t whole, lo;
};
bool block_has_parts(const struct block_plan *p, const struct scratch *s, uint32_t nstreams);
bool block_decode_part(const struct block_plan *p, struct scratch *s, struct view stored,
		       struct block_part part, struct span dst);

/*
 * Decides where the streams of all blocks are cut, by this one of them. For blocks in one stream
 * of a codec that can; else nothing changes.
 */
NODISCARD int block_plan_cuts(struct block_plan *p, struct scratch *s, const struct block *b,
			      struct view src);

/* Runs the filters; *out is src itself or lies in the scratch until its next use. */
NODISCARD int block_filter(const struct block_plan *p, struct scratch *s, const struct block *b,
			   struct view src, struct view *out);

/*
 * About how many bytes a sample adds to blocks in one stream, whatever else they consist of. 0: the
 * codec cannot tell.
 */
NODISCARD ssize_t block_price(struct block_plan *p, struct scratch *s, struct view sample);

/* Filters and codes; the length, or 0: does not fit into dst. */
NODISCARD ssize_t block_encode(const struct block_plan *p, struct scratch *s, const struct block *b,
			       struct view src, struct span dst);

#endif
