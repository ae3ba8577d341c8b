/*
 * LZ4, FORMAT.md 6.2: raw blocks. Both directions are our own (the encoder is in lz4_fast.c),
 * except with a dictionary, where we use the library.
 */
#include "base/buf.h"
#include "codec/codec.h"
#include "codec/codecs/lz4_fast.h"
#include "codec/codecs/lz4_format.h"
#include "codec/kernels/kernels.h"
#include "codec/wide.h"

#include <lz4.h>

struct state {
	LZ4_stream_t work;
	LZ4_stream_t primed; /* `work` right after loading the dictionary */
	bool has_dict;
	ssize_t (*put)(struct lz4_table *t, int level, struct view src, struct span dst);
	struct lz4_table table;
};

static int lz4_state_new(void **state, const struct kernels *k)
{
	struct state *st = mem_zalloc(sizeof *st);
	*state = st;
	if (!st)
		return -ENOMEM;
	st->put = k->put_lz4;
	LZ4_initStream(&st->work, sizeof st->work);
	return 0;
}

static ssize_t lz4_encode(void *state, int level, struct view src, struct span dst)
{
	struct state *st = state;
	if (st->has_dict) {
		/* Loading would hash the whole dictionary; copying the state is cheaper. */
		st->work = st->primed;
		return LZ4_compress_fast_continue(&st->work, (const char *)src.p, (char *)dst.p,
						  (int)src.n, (int)dst.n, 10 - level);
	}
	return st->put(&st->table, level, src, dst);
}

/*
 * The decoder is our own: the reference has a newer library than distributions do, and this decoder
 * is a few percent faster than theirs.
 *
 * A sequence is a token, literals, a distance of two bytes, and a match. The token has four bits
 * for each length; 15 is continued by bytes of 255 and a final smaller one. decode_wide does all
 * sequences with enough room around them, with copies that overshoot; decode_exact does one at a
 * time and checks every byte.
 */
struct reader {
	const uint8_t *in, *in_end;
	uint8_t *out, *out_start, *out_end;
};

/*
 * The input that the wide path needs at a token, and after literals whose length it has read. It
 * copies at least 64 literals, where there may be only 15: 49 too many. A token, 14 literals copied
 * as 16, a distance and a byte of length are fewer.
 */
#define IN_MARGIN 56

/*
 * The same for the output: copies of 64 for 15 literals or a match of 19, and loops of 32 at a
 * time.
 */
#define OUT_MARGIN 96

#define LENGTH_MORE 15u /* a length in a token that is continued after it */

/* Up to this many literals are copied here: memcpy's branches on the length are unpredictable. */
#define LITERALS_HERE 512u

/* Reads the extra bytes of a length; false: the input ends first. */
static inline bool read_length(struct reader *r, size_t *n)
{
	unsigned e;
	do {
		if (r->in == r->in_end)
			return false;
		e = *r->in++;
		*n += e;
	} while (e == 255);
	return true;
}

/* The same if one byte is known to be there. */
static inline bool read_more(struct reader *r, size_t *n)
{
	unsigned e = *r->in++;
	*n += e;
	return e < 255 || read_length(r, n);
}

/* Literals of any length, if there is room to overshoot; false: use the exact path. */
static inline bool long_literals(struct reader *r, size_t n)
{
	if (n + IN_MARGIN > (size_t)(r->in_end - r->in) ||
	    n + OUT_MARGIN > (size_t)(r->out_end - r->out))
		return false;
	memcpy(r->out, r->in, 32);
	memcpy(r->out + 32, r->in + 32, 32);
	if (n > LITERALS_HERE)
		bytes_copy(r->out + 64, r->in + 64, n - 64);
	else
		for (size_t i = 64; i < n; i += 32)
			memcpy(r->out + i, r->in + i, 32);
	r->in += n;
	r->out += n;
	return true;
}

static bool exact_literals(struct reader *r, size_t n)
{
	if (n > (size_t)(r->in_end - r->in) || n > (size_t)(r->out_end - r->out))
		return false;
	bytes_copy(r->out, r->in, n);
	r->in += n;
	r->out += n;
	return true;
}

static bool exact_match(struct reader *r, size_t n, size_t dist)
{
	if (n > (size_t)(r->out_end - r->out))
		return false;
	uint8_t *end = r->out + n;
	if (n >= REPEAT_MIN) {
		copy_repeated(r->out, n, dist);
		r->out = end;
	} else if (n > 2 * WIDE_SLACK) {
		copy_wide(r->out, end - WIDE_SLACK, dist);
		r->out = end - WIDE_SLACK;
	}
	for (; r->out < end; r->out++)
		*r->out = *(r->out - dist);
	return true;
}

static inline void long_match(struct reader *r, size_t n, size_t dist)
{
	uint8_t *out = r->out, *end = out + n;
	r->out = end;
	if (dist >= 32) {
		memcpy(out, out - dist, 32);
		memcpy(out + 32, out + 32 - dist, 32);
		if (n <= 64)
			return;
		out += 64;
	}
	if (n >= REPEAT_MIN)
		copy_repeated(out, (size_t)(end - out), dist);
	else if (dist < 32)
		copy_wide(out, end, dist);
	else
		for (; out < end; out += 32)
			memcpy(out, out - dist, 32);
}

/*
 * Copies 18 bytes from `dist` before, of which the caller keeps as many as it needs: for any
 * distance, and without branching on the length.
 */
static inline void short_match(uint8_t *out, size_t dist)
{
	/*
	 * For distances below 8: where to continue reading the pattern, as steps forward after the
	 * first four bytes, then back after eight, so that whole words can be read.
	 */
	static const uint8_t first[8] = {0, 1, 2, 1, 0, 4, 4, 4};
	static const int8_t second[8] = {0, 0, 0, -1, -4, 1, 2, 3};
	const uint8_t *from = out - dist;
	if (__builtin_expect(dist >= 8, 1)) {
		memcpy(out, from, 8);
		memcpy(out + 8, from + 8, 8);
		memcpy(out + 16, from + 16, 2);
		return;
	}
	out[0] = from[0];
	out[1] = from[1];
	out[2] = from[2];
	out[3] = from[3];
	from += first[dist];
	memcpy(out + 4, from, 4);
	from -= second[dist];
	memcpy(out + 8, from, 8);
	memcpy(out + 16, from + 8, 2);
}

/* Where the wide path stopped: before a token, or inside a sequence, before its literals. */
struct halt {
	bool inside;
	unsigned token;
	size_t literals;
};

/*
 * Decodes sequences while there is room around them, and the output is not beyond `enough`. False:
 * invalid input.
 */
static bool decode_wide(struct reader *rd, uint8_t *enough, struct halt *at)
{
	struct reader r = *rd;
	bool fine = true;
	at->inside = false;
	const uint8_t *in_stop = r.in_end - r.in >= IN_MARGIN ? r.in_end - IN_MARGIN : NULL;
	uint8_t *out_stop = r.out_end - r.out >= OUT_MARGIN ? r.out_end - OUT_MARGIN : NULL;
	out_stop = out_stop < enough ? out_stop : enough;
	while (r.in <= in_stop && r.out <= out_stop) {
		unsigned t = *r.in++;
		size_t n = t >> 4;
		if (n < LENGTH_MORE) {
			copy16(r.out, r.in);
			r.in += n;
			r.out += n;
		} else if (!read_more(&r, &n)) {
			fine = false;
			break;
		} else if (!long_literals(&r, n)) {
			*at = (struct halt){true, t, n};
			break;
		}
		size_t dist = get_le16(r.in), len = (t & 15) + LZ4_MATCH_MIN;
		r.in += 2;
		if (dist - 1 >= (size_t)(r.out - r.out_start)) {
			fine = false;
			break;
		}
		if (len < LENGTH_MORE + LZ4_MATCH_MIN) {
			short_match(r.out, dist);
			r.out += len;
			continue;
		}
		if (!read_more(&r, &len)) {
			fine = false;
			break;
		}
		if (len + OUT_MARGIN > (size_t)(r.out_end - r.out)) {
			fine = exact_match(&r, len, dist);
			break;
		}
		long_match(&r, len, dist);
	}
	rd->in = r.in;
	rd->out = r.out;
	return fine;
}

/*
 * Decodes one sequence, from where the wide path stopped. The last one of a stream has only
 * literals.
 */
static bool decode_exact(struct reader *r, const struct halt *at)
{
	unsigned token = at->token;
	size_t lit = at->literals;
	if (!at->inside) {
		if (r->in == r->in_end)
			return false;
		token = *r->in++;
		lit = token >> 4;
		if (lit == LENGTH_MORE && !read_length(r, &lit))
			return false;
	}
	if (!exact_literals(r, lit))
		return false;
	if (r->in == r->in_end)
		return true;
	if (r->in_end - r->in < 2)
		return false;
	size_t dist = get_le16(r->in), len = (token & 15) + LZ4_MATCH_MIN;
	r->in += 2;
	if (dist - 1 >= (size_t)(r->out - r->out_start))
		return false;
	if (len == LENGTH_MORE + LZ4_MATCH_MIN && !read_length(r, &len))
		return false;
	return exact_match(r, len, dist) && r->in != r->in_end;
}

/* Decodes until the input ends, or the output is beyond `enough`. */
static bool decode_until(struct reader *r, uint8_t *enough)
{
	do {
		struct halt at = {0};
		if (!decode_wide(r, enough, &at) || !decode_exact(r, &at))
			return false;
	} while (r->in != r->in_end && r->out <= enough);
	return true;
}

static int decode_here(struct view src, struct span dst)
{
	struct reader r = {src.p, src.p + src.n, dst.p, dst.p, dst.p + dst.n};
	if (!decode_until(&r, r.out_end))
		return CORRUPT("lz4 stream", r.in - src.p);
	return r.out == r.out_end ? 0 : CORRUPT("lz4 stream is short", r.out - dst.p);
}

bool lz4_decode_front(void *state, struct view src, struct span dst, size_t n)
{
	struct reader r = {src.p, src.p + src.n, dst.p, dst.p, dst.p + dst.n};
	return decode_until(&r, dst.p + n - 1) && r.out >= dst.p + n;
}

int lz4_decode(void *state, struct view src, struct span dst, const struct codec_dict *dict)
{
	if (!dict)
		return decode_here(src, dst);
	int n = LZ4_decompress_safe_usingDict((const char *)src.p, (char *)dst.p, (int)src.n,
					      (int)dst.n, (const char *)dict->raw.p,
					      (int)dict->raw.n);
	if (n < 0 || (size_t)n != dst.n)
		return CORRUPT("lz4 stream", n);
	return 0;
}

/* There is no trainer for LZ4, and the first samples are as good as any. */
ssize_t lz4_dict_make(struct view samples, size_t nsamples, struct span dict)
{
	size_t n = samples.n < dict.n ? samples.n : dict.n;
	memcpy(dict.p, samples.p, n);
	return (ssize_t)n;
}

static int lz4_dict_set(void *state, struct view dict)
{
	struct state *st = state;
	st->has_dict = dict.n > 0;
	LZ4_initStream(&st->work, sizeof st->work);
	if (st->has_dict) {
		LZ4_loadDict(&st->work, (const char *)dict.p, (int)dict.n);
		st->primed = st->work;
	}
	return 0;
}

const struct codec codec_lz4 = {
	.name = "lz4",
	.what = "LZ4: fast to write and to read",
	.id = CODEC_LZ4,
	.format = 1,
	.level = 5,
	.state_new = lz4_state_new,
	.state_free = mem_free,
	.encode = lz4_encode,
	.decode = lz4_decode,
	.decode_front = lz4_decode_front,
	.dict_make = lz4_dict_make,
	.dict_set = lz4_dict_set,
};
