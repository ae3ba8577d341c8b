/*
 * What every search for matches needs: a hash of the next few bytes, and the length of what two
 * places have in common. Used by the encoders of BloscLZ, LZ4, LZ4HC and Zstandard.
 *
 * Numbers are read in little-endian order whatever the machine, so that all machines find the same
 * matches and write the same bytes.
 */
#ifndef CODEC_MATCH_H
#define CODEC_MATCH_H

#include "base/bytes.h"
#include "codec/inline.h"

/*
 * Odd numbers whose bits look random, so that the top bits of a product depend on all bits of the
 * other factor: a prime next to 2^32 divided by the golden ratio (Knuth, volume 3, 6.4), and the
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
 * that throws the others away is made on the factor: the product is the same, and n is a constant.
 */
ALWAYS_INLINE uint64_t hash_first(const uint8_t *p, const unsigned n, unsigned log)
{
	return get_le64(p) * (HASH_FACTOR_64 << (64 - 8 * n)) >> (64 - log);
}

/* `differ`: two different numbers of get_le64, xored. How many of their first bytes are equal. */
ALWAYS_INLINE size_t bytes_before(uint64_t differ)
{
	return (unsigned)__builtin_ctzll(differ) / 8;
}

/* How many bytes at p equal those at q; q lies before p, and no byte from `end` on is read at p. */
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
