/*
 * The rules of LZ4 streams (FORMAT.md 6.2), how our two encoders, lz4_fast.c and lz4hc.c, write a
 * sequence, and what the rows of both codecs share.
 */
#ifndef CODEC_CODECS_LZ4_FORMAT_H
#define CODEC_CODECS_LZ4_FORMAT_H

#include "base/bytes.h"
#include "codec/codec.h"

#define LZ4_MATCH_MIN 4u
#define LZ4_DISTANCE_MAX 65535u
#define LZ4_LAST_LITERALS 5u /* the last bytes of a stream are literals, and */
#define LZ4_MATCH_MARGIN 12u /* no match starts closer to the end            */
#define LZ4_COPY_MARGIN 16u  /* the same for our matches, for lz4_put_sequence */
_Static_assert(LZ4_COPY_MARGIN >= LZ4_MATCH_MARGIN, "our matches keep to the format");
#define LZ4_LIBC_LEN 128u    /* the C library copies more literals than this faster */

/* For both rows: lz4.c. They need no state. */
int lz4_decode(void *state, struct view src, struct span dst, const struct codec_dict *dict);
bool lz4_decode_front(void *state, struct view src, struct span dst, size_t n);
ssize_t lz4_dict_make(struct view samples, size_t nsamples, struct span dict);

/* Writes the part of a length that exceeds what a token can hold. */
static inline uint8_t *lz4_put_length(uint8_t *out, size_t n)
{
	for (; n >= 255; n -= 255)
		*out++ = 255;
	*out++ = (uint8_t)n;
	return out;
}

/*
 * Writes a sequence: literals, then a match. Returns where the next sequence goes; NULL: no room.
 * Literals are always read 16 at a time, which is safe since our matches start at least
 * LZ4_COPY_MARGIN before the end of the stream.
 */
static inline uint8_t *lz4_put_sequence(uint8_t *out, const uint8_t *out_end, struct view lit,
					size_t len, size_t dist)
{
	size_t n = lit.n, extra = len - LZ4_MATCH_MIN;
	/* A token, two bytes of distance, the last byte of each length; and copies of 16. */
	if ((size_t)(out_end - out) < n + n / 255 + extra / 255 + 5 + 16)
		return NULL;
	uint8_t *token = out++;
	*token = (uint8_t)((n < 15 ? n : 15) << 4 | (extra < 15 ? extra : 15));
	if (n < 15) {
		memcpy(out, lit.p, 16);
	} else {
		out = lz4_put_length(out, n - 15);
		if (n > LZ4_LIBC_LEN)
			bytes_copy(out, lit.p, n);
		else
			for (size_t i = 0; i < n; i += 16)
				memcpy(out + i, lit.p + i, 16);
	}
	out += n;
	put_le16(out, (uint16_t)dist);
	out += 2;
	return extra < 15 ? out : lz4_put_length(out, extra - 15);
}

/* Writes the literals at the end of a stream. NULL: no room. */
static inline uint8_t *lz4_put_last(uint8_t *out, const uint8_t *out_end, struct view lit)
{
	size_t n = lit.n;
	if ((size_t)(out_end - out) < 1 + n + n / 255 + 1)
		return NULL;
	*out++ = (uint8_t)((n < 15 ? n : 15) << 4);
	if (n >= 15)
		out = lz4_put_length(out, n - 15);
	bytes_copy(out, lit.p, n);
	return out + n;
}

#endif
