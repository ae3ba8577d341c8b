/*
 * Writes a frame: its header, then its blocks (RFC 8878, 3.1.1). A block ends after 96 KiB, or at a
 * cut. It is stored raw if coding saves too little.
 */
#include "codec/price.h"
#include "codec/zstd/fast.h"
#include "codec/zstd/impl.h"
#include "codec/zstd/headers.h"

#define SMALL_MAX (16u << 10) /* up to this length all matches count as near: zstd/double.c */

/* Returns the end, or NULL: it does not fit. */
static uint8_t *put_raw(struct view v, bool last, struct span dst)
{
	if (dst.n < v.n + ZSTD_BLOCK_HEADER)
		return NULL;
	zstd_put_block_header(dst.p, ZSTD_BLOCK_RAW, v.n, last);
	bytes_copy(dst.p + ZSTD_BLOCK_HEADER, v.p, v.n);
	return dst.p + ZSTD_BLOCK_HEADER + v.n;
}

/*
 * True: the matches pay. They save what their bytes would cost as literals, assuming that those are
 * like the actual literals, unless there are too few of these to tell.
 */
#define LITERALS_MIN 64

static bool are_worth_it(const struct zstd_plan *p, const struct zstd_parts *parts, uint64_t bits,
			 size_t n)
{
	uint64_t literals = parts->literals.n, matched = n - literals;
	if (literals < LITERALS_MIN)
		return true;
	return matched * bits / literals >= p->price + price_of(p->n * SEQUENCE_NS);
}

/* Returns the end, or NULL: it is no smaller, or does not fit. */
static uint8_t *put_parts(struct zstd_finder *f, struct view v, struct span dst)
{
	struct zstd_known before = f->known;
	struct zstd_parts parts;
	struct zstd_plan plan;
	zstd_find(f, v, &parts);
	if (parts.noise && !parts.nsequences)
		return NULL;
	uint64_t bits = zstd_count_literals(f->w, parts.literals);
	zstd_plan_sequences(f->w, &f->known, parts.nsequences, &plan);
	if (plan.n && !are_worth_it(&plan, &parts, bits, v.n)) {
		f->known = before;
		zstd_plan_sequences(f->w, &f->known, 0, &plan);
		parts.literals = v;
		bits = zstd_count_literals(f->w, v);
	}
	uint8_t *out = zstd_put_literals(f->w, &f->known, parts.literals, bits, dst);
	if (out)
		out = zstd_put_sequences(f->w, &f->known, &plan,
					 span_of(out, (size_t)(dst.p + dst.n - out)));
	return out && (size_t)(out - dst.p) + zstd_least_gain(v.n) < v.n ? out : NULL;
}

/* Returns the end, or NULL: it does not fit. */
static uint8_t *put_block(struct zstd_finder *f, struct view v, bool last, struct span dst)
{
	struct zstd_known before = f->known;
	if (dst.n < ZSTD_BLOCK_HEADER)
		return NULL;
	struct span room = span_from(dst, ZSTD_BLOCK_HEADER);
	uint8_t *out = put_parts(f, v, room);
	if (out) {
		zstd_put_block_header(dst.p, ZSTD_BLOCK_COMPRESSED, (size_t)(out - room.p), last);
		return out;
	}
	/* Raw: a reader will not see the offsets and tables that were found. */
	f->known = before;
	return put_raw(v, last, dst);
}

static enum zstd_search search_of(int level, size_t n, bool cut)
{
	bool near = n <= ZSTD_NEAR_MAX;
	if (cut)
		return near ? ZSTD_PLANES : ZSTD_FAR_PLANES;
	if (level == 2)
		return n <= SMALL_MAX ? ZSTD_DOUBLE_SMALL : ZSTD_DOUBLE;
	return near ? ZSTD_NEAR : ZSTD_FAR;
}

ssize_t zstd_fast(struct zstd_work *w, int level, struct view src, const struct cuts *cuts,
		  struct span dst)
{
	uint32_t pieces = cuts && cuts->n > 1 ? cuts->n : 1, piece = 0;
	struct zstd_finder f = {
		.w = w,
		.src = src.p,
		.known = {.rep = FIRST_OFFSETS},
		.search = search_of(level, src.n, pieces > 1),
	};
	if (dst.n < ZSTD_HEADER_MAX || !src.n || src.n > ZSTD_FAST_MAX)
		return 0;
	zstd_forget(w, f.search);
	uint8_t *out = zstd_put_frame_header(dst.p, src.n), *end = dst.p + dst.n;
	for (size_t at = 0; out && at < src.n;) {
		size_t until = pieces > 1 ? cuts_end(cuts, piece, src.n) : src.n;
		size_t n = min_u64(until - at, ZSTD_BLOCK_MAX);
		out = put_block(&f, view_part(src, at, n), at + n == src.n,
				span_of(out, (size_t)(end - out)));
		at += n;
		piece += at == until;
	}
	return out ? out - dst.p : 0;
}
