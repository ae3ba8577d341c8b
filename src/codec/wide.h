/*
 * Copies for decoders, which may write past the end, because later output goes there anyway. The
 * caller must own WIDE_SLACK bytes past the end.
 */
#ifndef CODEC_WIDE_H
#define CODEC_WIDE_H

#include "base/bytes.h"

#define WIDE_SLACK 32

static inline void copy16(uint8_t *dst, const uint8_t *src)
{
	memcpy(dst, src, 16);
}

/* Repeats the 1, 2, 4 or 8 bytes before `out`, as most runs of small values do. */
static inline void fill_period(uint8_t *out, const uint8_t *end, size_t period)
{
	const uint8_t *from = out - period;
	uint64_t x = period == 1   ? *from
		     : period == 2 ? get_le16(from)
		     : period == 4 ? get_le32(from)
				   : get_le64(from);
	for (size_t have = 8 * period; have < 64; have *= 2)
		x |= x << have;
	for (; out < end; out += 16) {
		put_le64(out, x);
		put_le64(out + 8, x);
	}
}

/*
 * Copies the bytes `dist` before `out` to out .. end, in ascending order: source and destination
 * may overlap, which repeats bytes.
 */
static inline void copy_wide(uint8_t *out, const uint8_t *end, size_t dist)
{
	if (dist < 16 && (dist & (dist - 1)) == 0) {
		fill_period(out, end, dist);
		return;
	}
	if (dist < 16) {
		/*
		 * Sixteen bytes one by one; after that, the pattern repeats at a distance of at
		 * least 16.
		 */
		for (int i = 0; i < 16; i++)
			out[i] = *(out + i - dist);
		out += 16;
		dist *= (15 + dist) / dist;
	}
	for (; out < end; out += 16)
		copy16(out, out - dist);
}

#define REPEAT_MIN 256 /* copy_repeated pays from this length on */
#define REPEAT_MOST 8192

/*
 * The same for n >= REPEAT_MIN bytes, of which it writes exactly n. The source was only just
 * written, and a load that spans several stores stalls; so each copy takes all there is, which
 * doubles each time.
 */
static inline void copy_repeated(uint8_t *out, size_t n, size_t dist)
{
	const uint8_t *from = out - dist, *end = out + n;
	size_t have = dist;
	if (dist == 1) {
		memset(out, *from, n);
		return;
	}
	if (dist < 16) {
		for (int i = 0; i < 16; i++)
			out[i] = from[i];
		have += 16 - 16 % dist;
		out += 16 - 16 % dist;
	}
	while (out < end) {
		size_t step = min_u64(have, (size_t)(end - out));
		bytes_copy(out, from, step);
		out += step;
		have += have < REPEAT_MOST ? step : 0;
	}
}

#endif
