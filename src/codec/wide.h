/*
 * Copies for decoders that may write behind the end of what they are asked for, because later
 * output lands there anyway. SLACK bytes behind the end must be the caller's.
 */
#ifndef CODEC_WIDE_H
#define CODEC_WIDE_H

#include "base/bytes.h"

#define SLACK 32

static inline void copy16(uint8_t *dst, const uint8_t *src)
{
	memcpy(dst, src, 16);
}

/* Repeats the 1, 2, 4 or 8 bytes in front of `out`; runs of small values are mostly this. */
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
 * What lies `dist` before `out`, from `out` to `end`, in order: the copy may repeat its own bytes.
 */
static inline void copy_wide(uint8_t *out, const uint8_t *end, size_t dist)
{
	if (dist < 16 && (dist & (dist - 1)) == 0) {
		fill_period(out, end, dist);
		return;
	}
	if (dist < 16) {
		/*
		 * Sixteen bytes by hand; from there the pattern repeats
		 * at a distance of 16 or more.
		 */
		for (int i = 0; i < 16; i++)
			out[i] = *(out + i - dist);
		out += 16;
		dist *= (15 + dist) / dist;
	}
	for (; out < end; out += 16)
		copy16(out, out - dist);
}

#define REPEAT_MIN 256 /* from here on what copy_repeated does pays */
#define REPEAT_MOST 8192

/*
 * The same for n >= REPEAT_MIN bytes, and not one more. What is copied from was just written, and
 * loads that lie across several stores wait for them: so each copy takes all that is there, which
 * is twice as much as before.
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
