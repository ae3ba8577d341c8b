/* What the versions of put_codes (kernels.h) share. Floor-internal. */
#ifndef CODEC_ZSTD_CODES_H
#define CODEC_ZSTD_CODES_H

#include "codec/zstd_bits.h"

static inline void put_code(struct bits *b, const uint32_t code[256], uint8_t literal)
{
	bits_add(b, code[literal] & 0xFFFF, code[literal] >> 16);
}

#endif
