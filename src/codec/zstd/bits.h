/* Writes bitstreams of Zstandard, which are read backwards. Internal to this layer. */
#ifndef CODEC_ZSTD_BITS_H
#define CODEC_ZSTD_BITS_H

#include "base/bytes.h"

/* Bits not flushed yet, and where they go. A flush writes eight bytes at `out`. */
struct bits {
	uint64_t held;
	unsigned n;
	uint8_t *out;
};

/* At most 57 bits between flushes; no bits of `value` above n. */
static inline void bits_add(struct bits *b, uint64_t value, unsigned n)
{
	b->held |= value << b->n;
	b->n += n;
}

static inline void bits_flush(struct bits *b)
{
	put_le64(b->out, b->held);
	b->out += b->n >> 3;
	b->held >>= b->n & ~7u;
	b->n &= 7;
}

/* Writes the end mark, where readers begin. Returns the end of the stream. */
static inline uint8_t *bits_end(struct bits *b)
{
	bits_add(b, 1, 1);
	bits_flush(b);
	return b->out + (b->n > 0);
}

static inline unsigned bit_top(uint32_t x)
{
	return 31 - (unsigned)__builtin_clz(x);
}

#endif
