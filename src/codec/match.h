/*
 * For match finders: a hash of the next few bytes, and the length of a match. Used by the encoders
 * of BloscLZ, LZ4, LZ4HC and Zstandard.
 *
 * Numbers are read in little-endian order whatever the machine, so that all machines find the same
 * matches and write the same bytes.
 */
#ifndef CODEC_MATCH_H
#define CODEC_MATCH_H

#include "base/bytes.h"
#include "codec/inline.h"

/*
 * Multipliers for multiplicative hashing, so that the top bits of a product depend on all bits of
 * the other factor: a prime near 2^32 divided by the golden ratio (Knuth, volume 3, 6.4), and the
 * prime of LZ4 and XXH64 that begins with the same bits.
 */
#define HASH_FACTOR_32 2654435761u
#define HASH_FACTOR_64 0x9E3779B185EBCA87u

/* `log` bits, 1 .. 32, that depend on the four bytes at p. */
ALWAYS_INLINE uint32_t hash_four(const uint8_t *p, unsigned log)
{
	return (get_le32(p) * HASH_FACTOR_32) >> (32 - log);
}

/*
 * `log` bits, 1 .. 63, that depend on the first n bytes at p, 1 .. 8; eight are read. The shift
 * that drops the others is applied to the multiplier, which is then constant: the product is the
 * same.
 */
ALWAYS_INLINE uint64_t hash_first(const uint8_t *p, const unsigned n, unsigned log)
{
	return get_le64(p) * (HASH_FACTOR_64 << (64 - 8 * n)) >> (64 - log);
}

/* The number of equal first bytes of two results of get_le64. `differ`: their xor, not 0. */
ALWAYS_INLINE size_t bytes_before(uint64_t differ)
{
	return (unsigned)__builtin_ctzll(differ) / 8;
}

/* How many bytes at p equal those at q, at most up to `end`; q < p. */
static inline size_t equal_bytes(const uint8_t *p, const uint8_t *q, const uint8_t *end)
{
	const uint8_t *begin = p;
	for (; end - p >= 8; p += 8, q += 8) {
		uint64_t differ = get_le64(p) ^ get_le64(q);
		if (differ)
			return (size_t)(p - begin) + bytes_before(differ);
	}
	while (p < end && *p == *q) {
		p++;
		q++;
	}
	return (size_t)(p - begin);
}

#endif
