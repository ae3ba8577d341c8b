/* What the files of zstd_fast.h share. Bytes "behind" are those where the next part goes. */
#ifndef CODEC_ZSTD_FAST_IMPL_H
#define CODEC_ZSTD_FAST_IMPL_H

#include "codec/zstd_fast.h"

struct zstd_finder {
	struct zstd_work *w;
	const uint8_t *src; /* the whole stream              */
	uint32_t rep[2];    /* its last two offsets          */
	bool near, planes;  /* it is short; and a filter made it */
};

/* What a block is made of. */
struct zstd_parts {
	size_t nsequences;
	struct view literals; /* in the work, or the block itself */
	bool noise;           /* its bytes are all as frequent    */
};

/*
 * Of n bytes a coded form has to spare so many: less is not worth a reader's time. The library's
 * rule for fast levels.
 */
static inline size_t zstd_least_gain(size_t n)
{
	return n / 64 + 2;
}

/* Fills the work's sequences. The blocks in front of this one in its stream came before. */
void zstd_find(struct zstd_finder *f, struct view block, struct zstd_parts *parts);

/* The byte behind, or NULL: they do not fit. */
uint8_t *zstd_put_literals(struct zstd_work *w, struct view v, uint8_t *out, uint8_t *end);
uint8_t *zstd_put_sequences(const struct zstd_sequence *seq, size_t n, uint8_t *out, uint8_t *end);

#endif
