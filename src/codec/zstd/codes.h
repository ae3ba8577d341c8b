/*
 * The versions of put_codes (kernels.h), which writes the Huffman codes of literals, and what they
 * share. Floor-internal.
 */
#ifndef CODEC_ZSTD_CODES_H
#define CODEC_ZSTD_CODES_H

#include "codec/zstd/bits.h"
#include "codec/zstd/build.h"

/* code[x]: the bits of literal x, and their number in the upper half. */
static inline void put_code(struct bits *b, const uint32_t code[256], uint8_t literal)
{
	bits_add(b, code[literal] & 0xFFFF, code[literal] >> 16);
}

/* The plain version, its build for AVX2, and one of its own for AVX-512. */
void zstd_put_codes(const uint32_t code[256], size_t n, const uint8_t *src, uint8_t *to[4]);
void zstd_put_codes_avx2(const uint32_t code[256], size_t n, const uint8_t *src, uint8_t *to[4]);
void zstd_put_codes_avx512(const uint32_t code[256], size_t n, const uint8_t *src, uint8_t *to[4]);

#endif
