/*
 * Finite state entropy of Zstandard (RFC 8878, 4.1), the encoding half: from counts to a table, the
 * description of the table, and the states. Internal to this layer.
 */
#ifndef CODEC_ZSTD_FSE_H
#define CODEC_ZSTD_FSE_H

#include "codec/zstd/bits.h"
#include "codec/zstd/build.h"
#include "codec/zstd/format.h"

/*
 * Normalised counts: how many of the 1 << log cells of a table each symbol has. -1, as in the
 * format: one cell, at the end; the predefined tables have that for rare symbols, ours do not.
 */
struct fse_shares {
	unsigned log;
	unsigned n; /* symbols; the last one's share is not 0 */
	int16_t share[FSE_SYMBOLS];
};

/*
 * A state is a number from 1 << log to (2 << log) - 1. To encode a symbol, as many of its low bits
 * are written as bring the rest into the range of that symbol's share, and the next state is looked
 * up.
 */
struct fse_table {
	unsigned log;
	uint16_t next[1 << FSE_LOG_MAX];
	struct {
		uint32_t bits; /* such that (state + bits) >> 16 is the number of bits to write */
		int32_t first; /* (state >> that number) + first is the index into next */
	} symbol[FSE_SYMBOLS];
};

/*
 * Computes shares in proportion to the counts of the first s->n symbols, for a table of at most 1
 * << log_max cells. At least two counts must not be 0; `total` is their sum.
 */
void fse_share(struct fse_shares *s, const uint32_t *count, uint32_t total, unsigned log_max);

void fse_build(struct fse_table *t, const struct fse_shares *s);

/* Builds a table of one symbol, whose states have no bits. */
void fse_build_one(struct fse_table *t, unsigned symbol);

/*
 * Writes the description of a table, from which a reader builds it (RFC 8878, 4.1.1). Returns its
 * end. It touches at most FSE_DESCRIPTION_MAX bytes: 53 symbols of up to 10 bits, the gaps between
 * them, and the eight bytes of a flush take less.
 */
#define FSE_DESCRIPTION_MAX 96
uint8_t *fse_put_description(uint8_t *out, const struct fse_shares *s);

/* The state after the first symbol written, which is the last one read. */
static inline uint32_t fse_begin(const struct fse_table *t, unsigned symbol)
{
	uint32_t bits = t->symbol[symbol].bits, n = (bits + (1u << 15)) >> 16;
	uint32_t state = (n << 16) - bits;
	return t->next[(int32_t)(state >> n) + t->symbol[symbol].first];
}

static inline uint32_t fse_put(struct bits *b, const struct fse_table *t, uint32_t state,
			       unsigned symbol)
{
	uint32_t n = (state + t->symbol[symbol].bits) >> 16;
	bits_add(b, state & ((1u << n) - 1), n);
	return t->next[(int32_t)(state >> n) + t->symbol[symbol].first];
}

static inline void fse_end(struct bits *b, const struct fse_table *t, uint32_t state)
{
	bits_add(b, state & ((1u << t->log) - 1), t->log);
}

#endif
