/*
 * Finite state entropy of Zstandard (RFC 8878, 4.1), the writing half: from counts to a table, the
 * table's description, and a state that takes symbols. Floor-internal.
 */
#ifndef CODEC_ZSTD_FSE_H
#define CODEC_ZSTD_FSE_H

#include "codec/zstd_bits.h"
#include "codec/zstd_build.h"

#define FSE_SYMBOLS 53
#define FSE_LOG_MIN 5
#define FSE_LOG_MAX 9

/* How often each symbol is in the table, of 1 << log cells; -1: in one, at its end. */
struct fse_shares {
	unsigned log, n; /* symbols, the last one is in the table */
	int16_t share[FSE_SYMBOLS];
};

struct fse_table {
	unsigned log;
	uint16_t next[1 << FSE_LOG_MAX];
	struct {
		uint32_t bits; /* to write, in the upper half, once the state is added */
		int32_t first; /* where its states are in next, less the smallest state then */
	} symbol[FSE_SYMBOLS];
};

/* At least two symbols have counts, the last one among them; total is their sum. */
void fse_share(struct fse_shares *s, const uint32_t *count, uint32_t total, unsigned log_max);

void fse_build(struct fse_table *t, const struct fse_shares *s);

/* A table of one symbol, whose states have no bits. */
void fse_build_one(struct fse_table *t, unsigned symbol);

/* Writes at most FSE_ABOUT_MAX bytes, and touches that many; returns the byte behind. */
#define FSE_ABOUT_MAX 96
uint8_t *fse_put_about(uint8_t *out, const struct fse_shares *s);

/* The first symbol that is written, the last that is read. */
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
