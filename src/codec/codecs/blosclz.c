/*
 * BloscLZ, FORMAT.md 6.1.
 *
 *      000 nnnnn                        n + 1 literals follow
 *      ttt hhhhh [255 ... e] lo         match: length from t (and the bytes e), distance from h, lo
 *      ttt 11111 [255 ... e] 255 d d    match further back than 8191
 *
 * The first operation is always a literal run, whatever its top bits, and so is the last one.
 */
#include "base/buf.h"
#include "codec/codec.h"
#include "codec/inline.h"
#include "codec/match.h"
#include "codec/wide.h"

#include <assert.h>

/* The farthest match in two bytes, and in four; from MORE_LEN on, the length takes extra bytes. */
#define NEAR_MAX 8191u
#define FAR_MAX 73727u
#define MORE_LEN 9u

/*
 * ---- decoder ----
 *
 * Copies are in pieces of 16, and overshoot as long as WIDE_SLACK bytes are left.
 */

struct reader {
	const uint8_t *in, *in_end;
	uint8_t *out, *out_start, *out_end;
};

static bool copy_literals(struct reader *r, size_t n)
{
	if (n > (size_t)(r->in_end - r->in) || n > (size_t)(r->out_end - r->out))
		return false;
	if (r->in_end - r->in >= WIDE_SLACK && r->out_end - r->out >= WIDE_SLACK) {
		copy16(r->out, r->in);
		copy16(r->out + 16, r->in + 16);
	} else {
		memcpy(r->out, r->in, n);
	}
	r->in += n;
	r->out += n;
	return true;
}

static inline bool copy_match(struct reader *r, size_t len, size_t dist)
{
	if (dist > (size_t)(r->out - r->out_start) || len > (size_t)(r->out_end - r->out))
		return false;
	uint8_t *out = r->out, *end = out + len;
	r->out = end;
	if (len >= REPEAT_MIN) {
		copy_repeated(out, len, dist);
		return true;
	}
	if ((size_t)(r->out_end - end) >= WIDE_SLACK) {
		if (dist >= 16 && len <= 32) {
			copy16(out, out - dist);
			copy16(out + 16, out + 16 - dist);
		} else if (dist == 1) {
			memset(out, *(out - 1), len);
		} else {
			copy_wide(out, end, dist);
		}
		return true;
	}
	if (len > 2 * WIDE_SLACK) {
		copy_wide(out, end - WIDE_SLACK, dist);
		out = end - WIDE_SLACK;
	}
	for (; out < end; out++)
		*out = *(out - dist);
	return true;
}

/* Length and distance of the match whose first byte is `op`; false: the input ends first. */
static bool read_match(struct reader *r, unsigned op, size_t *len, size_t *dist)
{
	size_t n = (op >> 5) + 2;
	unsigned e = 255;
	/* A literal run must follow, so each byte read here must have another after it. */
	while (op >> 5 == 7 && e == 255) {
		if (r->in_end - r->in < 2)
			return false;
		e = *r->in++;
		n += e;
	}
	if (r->in_end - r->in < 2)
		return false;
	unsigned lo = *r->in++, hi = op & 31;
	*len = n;
	*dist = 256u * hi + lo + 1;
	if (hi == 31 && lo == 255) {
		if (r->in_end - r->in < 3)
			return false;
		*dist = 256u * r->in[0] + r->in[1] + NEAR_MAX + 1;
		r->in += 2;
	}
	return true;
}

/* Decodes at least the first n bytes; with n == dst.n, exactly dst.n or an error. */
ALWAYS_INLINE int decode_first(struct view src, struct span dst, size_t n)
{
	struct reader r = {src.p, src.p + src.n, dst.p, dst.p, dst.p + dst.n};
	if (!src.n)
		return CORRUPT("empty blosclz stream", 0);
	unsigned op = *r.in++ & 31;
	for (;;) {
		size_t len, dist;
		if (op < 32) {
			if (!copy_literals(&r, op + 1))
				return CORRUPT("blosclz literals", r.in - src.p);
			if (r.in == r.in_end)
				break;
		} else if (!read_match(&r, op, &len, &dist) || !copy_match(&r, len, dist)) {
			return CORRUPT("blosclz match", r.in - src.p);
		}
		if (n < dst.n && (size_t)(r.out - dst.p) >= n)
			return 0;
		op = *r.in++;
	}
	if (r.out != r.out_end)
		return CORRUPT("blosclz stream is short", r.out - dst.p);
	return 0;
}

static int blosclz_decode(void *state, struct view src, struct span dst,
			  const struct codec_dict *dict)
{
	return decode_first(src, dst, dst.n);
}

static bool blosclz_decode_front(void *state, struct view src, struct span dst, size_t n)
{
	return decode_first(src, dst, n) == 0;
}

/* ---- encoder ---- */

#define HASH_LOG_MAX 14
#define CHAIN (1u << 16) /* positions that a chain remembers, a power of two */
#define NICE_LEN 256u    /* long enough: the search ends */
#define RUN 32u          /* literals after one byte */
#define TAIL 12u         /* no match starts in the last bytes: for wide reads, and final literals */

#define STREAM_MAX (1u << 30) /* bytes; more than any block */

/*
 * Positions keep counting over all streams of a state: entries left in the tables by an earlier
 * stream are then simply too far back, and nothing is cleared between streams. Position 0 marks an
 * empty slot.
 */
struct state {
	uint32_t base; /* position of the current stream's first byte */
	uint32_t head[1 << HASH_LOG_MAX];
	uint32_t chain[CHAIN]; /* the position before this one with the same hash */
};

struct effort {
	uint8_t hash_log; /* 2^12 slots stay in L1: twice as fast as 2^14, 1 % larger */
	uint8_t skip;  /* after 2^skip misses the search starts to skip bytes */
	uint8_t depth; /* candidates tried in the chain; 1: encode_fast, without a chain */
	bool lazy;     /* try the next byte before taking a match           */
	uint8_t least; /* least ratio of the probe, in percent: worth_it */
};

static const struct effort efforts[10] = {
	{12, 4, 1, false, 130}, {12, 4, 1, false, 130}, {12, 5, 1, false, 125},
	{12, 5, 1, false, 120}, {12, 5, 1, false, 120}, {12, 4, 1, false, 120},
	{14, 7, 4, false, 120}, {14, 8, 8, true, 115},  {14, 9, 16, true, 110},
	{14, 16, 64, true, 100},
};

struct writer {
	struct state *st;
	const struct effort *effort;
	const uint8_t *src, *src_end;
	const uint8_t *match_end; /* matches end here: the last bytes are literals */
	uint8_t *out, *out_end;
};

struct match {
	size_t len, dist;
};

/* The bytes saved by a match; a far one costs two more. At most 0: not worth it. */
static inline int match_gain(struct match m)
{
	return (int)(m.len > 0xFFFFF ? 0xFFFFF : m.len) - (m.dist > NEAR_MAX ? 6 : 3);
}

/* Enters position p into the chains and returns the newest one with its hash. */
static inline uint32_t chain_put(struct writer *w, const uint8_t *p)
{
	struct state *st = w->st;
	uint32_t pos = st->base + (uint32_t)(p - w->src);
	uint32_t *slot = &st->head[hash_four(p, w->effort->hash_log)];
	uint32_t before = *slot;
	if (before == pos) /* entered already, by a lazy search */
		return st->chain[pos & (CHAIN - 1)];
	*slot = pos;
	st->chain[pos & (CHAIN - 1)] = before;
	return before;
}

static inline struct match find_match(struct writer *w, const uint8_t *p)
{
	struct match best = {0, 0};
	uint32_t pos = w->st->base + (uint32_t)(p - w->src);
	uint32_t at = chain_put(w, p);
	for (unsigned i = 0; i < w->effort->depth; i++) {
		uint32_t dist = pos - at;
		if (at < w->st->base || at >= pos || dist > FAR_MAX)
			break;
		const uint8_t *q = p - dist;
		if (get_le32(q) == get_le32(p)) {
			struct match m = {4 + equal_bytes(p + 4, q + 4, w->match_end), dist};
			if (!best.len || match_gain(m) > match_gain(best))
				best = m;
		}
		/* Entries of the chain that are older than CHAIN have been overwritten. */
		if (best.len >= NICE_LEN || dist >= CHAIN)
			break;
		uint32_t next = w->st->chain[at & (CHAIN - 1)];
		if (next >= at)
			break;
		at = next;
	}
	return best;
}

static bool put_literals(struct writer *w, const uint8_t *p, size_t n)
{
	/* Whole runs by wide copies; the room for one more run absorbs the last. */
	if ((size_t)(w->out_end - w->out) >= n + n / RUN + 2 + RUN &&
	    (size_t)(w->src_end - p) >= n + RUN) {
		uint8_t *out = w->out;
		for (; n > RUN; n -= RUN, p += RUN, out += RUN + 1) {
			*out = RUN - 1;
			memcpy(out + 1, p, RUN);
		}
		if (n) {
			*out = (uint8_t)(n - 1);
			memcpy(out + 1, p, RUN);
			out += n + 1;
		}
		w->out = out;
		return true;
	}
	while (n) {
		size_t part = n < RUN ? n : RUN;
		if ((size_t)(w->out_end - w->out) < part + 1)
			return false;
		*w->out++ = (uint8_t)(part - 1);
		memcpy(w->out, p, part);
		w->out += part;
		p += part;
		n -= part;
	}
	return true;
}

static bool put_match(struct writer *w, struct match m)
{
	assert(m.len >= 3 && m.dist >= 1 && m.dist <= FAR_MAX);
	size_t extra = m.len >= MORE_LEN ? m.len - MORE_LEN : 0;
	unsigned t = m.len >= MORE_LEN ? 7 : (unsigned)m.len - 2;
	if ((size_t)(w->out_end - w->out) < extra / 255 + 5)
		return false;
	bool far = m.dist > NEAR_MAX;
	uint32_t d = far ? (uint32_t)m.dist - NEAR_MAX - 1 : (uint32_t)m.dist - 1;
	*w->out++ = (uint8_t)(t << 5 | (far ? 31 : d >> 8));
	if (t == 7) {
		for (; extra >= 255; extra -= 255)
			*w->out++ = 255;
		*w->out++ = (uint8_t)extra;
	}
	if (far) {
		*w->out++ = 255;
		*w->out++ = (uint8_t)(d >> 8);
	}
	*w->out++ = (uint8_t)d;
	return true;
}

/* Enters the positions inside a match. */
static void chain_fill(struct writer *w, const uint8_t *from, const uint8_t *to)
{
	const uint8_t *last = w->match_end - 4, *end = to < last ? to : last;
	for (; from < end; from++)
		chain_put(w, from);
}

static bool encode_thoroughly(struct writer *w)
{
	const uint8_t *p = w->src, *lit = p, *stop = w->src_end - TAIL;
	unsigned misses = 0;
	/* The first operation is a literal run: no match at the first byte. */
	chain_put(w, p++);
	while (p < stop) {
		struct match m = find_match(w, p);
		if (!m.len || match_gain(m) <= 0) {
			p += 1 + (misses++ >> w->effort->skip);
			continue;
		}
		while (w->effort->lazy && m.len < NICE_LEN && p + 1 < stop) {
			struct match next = find_match(w, p + 1);
			if (!next.len || match_gain(next) <= match_gain(m) + 1)
				break;
			m = next;
			p++;
		}
		misses = 0;
		/*
		 * The search may have skipped its start. (Sharing this as a function with
		 * encode_fast costs either up to 1 % more instructions.)
		 */
		while (p - 1 > lit && (size_t)(p - w->src) > m.dist && p[-1] == *(p - 1 - m.dist)) {
			p--;
			m.len++;
		}
		if (!put_literals(w, lit, (size_t)(p - lit)) || !put_match(w, m))
			return false;
		chain_fill(w, p + 1, p + m.len);
		p += m.len;
		lit = p;
	}
	return put_literals(w, lit, (size_t)(w->src_end - lit));
}

/* The shortest match: shorter ones cost about what they save. */
#define SHORTEST 7u

/*
 * The distance to the newest position with the same hash; enters p. Entries of an earlier stream
 * are out of reach, and become 1, which is as good a guess as any, and saves the search an
 * unpredictable branch. p is not the first byte.
 */
static inline uint32_t fast_put(struct state *st, const struct writer *w, const uint8_t *p,
				unsigned log)
{
	uint32_t at = (uint32_t)(p - w->src), pos = st->base + at;
	uint32_t *slot = &st->head[hash_first(p, SHORTEST, log)];
	uint32_t dist = pos - *slot, reach = at < FAR_MAX ? at : FAR_MAX;
	*slot = pos;
	return dist - 1 < reach ? dist : 1;
}

/* True: at least SHORTEST bytes at p equal those `dist` before. */
static inline bool fast_matches(const uint8_t *p, uint32_t dist)
{
	return (get_le64(p) ^ get_le64(p - dist)) << (64 - 8 * SHORTEST) == 0;
}

/* Greedy: takes the first match found. */
static bool encode_fast(struct writer *w)
{
	struct state *st = w->st;
	const uint8_t *p = w->src, *lit = p, *stop = w->src_end - TAIL;
	const unsigned log = w->effort->hash_log, skip = w->effort->skip;
	unsigned misses = 0;
	for (p++; p < stop;) {
		uint32_t dist = fast_put(st, w, p, log);
		if (!fast_matches(p, dist)) {
			p += 1 + (misses++ >> skip);
			continue;
		}
		struct match m = {0, dist};
		m.len = SHORTEST + equal_bytes(p + SHORTEST, p - dist + SHORTEST, w->match_end);
		if (dist > NEAR_MAX && m.len < SHORTEST + 2) {
			p++;
			continue;
		}
		misses = 0;
		while (p - 1 > lit && (size_t)(p - w->src) > dist && p[-1] == *(p - 1 - dist)) {
			p--;
			m.len++;
		}
		if (!put_literals(w, lit, (size_t)(p - lit)) || !put_match(w, m))
			return false;
		p += m.len;
		lit = p;
		if (p < stop)
			(void)fast_put(st, w, p - 2, log);
	}
	return put_literals(w, lit, (size_t)(w->src_end - lit));
}

/*
 * A stream that hardly shrinks costs its readers more than it saves, and is soon given up: a window
 * in its second half is parsed as a probe, writing nothing. From level 3 on the percentages
 * (effort.least) are the reference's, so both give up on the same data; for levels 1 and 2 it has
 * 200 and 150.
 */
#define PROBE 16384u
#define PROBE_LOG 12
#define PROBE_SKIP 5 /* noise is recognised without looking at every byte */

/* The encoded length of n literals, and of a match, assumed near: as written above. */
static inline size_t literals_cost(size_t n)
{
	return n + n / RUN + 1;
}

static inline size_t match_cost(size_t len)
{
	return len >= MORE_LEN ? 3 + (len - MORE_LEN) / 255 : 2;
}

/* Estimates the encoded length of n bytes. */
static size_t probe_cost(struct state *st, const uint8_t *src, size_t n)
{
	const uint8_t *p = src + 1, *lit = src, *end = src + n, *stop = end - TAIL;
	struct writer w = {.st = st, .src = src};
	size_t cost = 0, misses = 0;
	while (p < stop) {
		uint32_t dist = fast_put(st, &w, p, PROBE_LOG);
		if (!fast_matches(p, dist)) {
			p += 1 + (misses++ >> PROBE_SKIP);
			continue;
		}
		misses = 0;
		size_t len = SHORTEST + equal_bytes(p + SHORTEST, p - dist + SHORTEST, end);
		cost += (size_t)(p - lit) + 1 + match_cost(len); /* mostly one run */
		p += len;
		lit = p;
	}
	st->base += (uint32_t)n;
	return cost + literals_cost((size_t)(end - lit));
}

static bool worth_it(struct state *st, const struct effort *e, struct view src)
{
	size_t half = src.n / 2, n = half < PROBE ? half : PROBE;
	return n < 4 * TAIL || probe_cost(st, src.p + half, n) * e->least <= 100 * n;
}

static bool encode_all(struct writer *w)
{
	return w->effort->depth > 1 ? encode_thoroughly(w) : encode_fast(w);
}

/* Restarts positions at 1 if those of n bytes and of their probe might not fit 32 bits. */
static void make_positions(struct state *st, size_t n)
{
	_Static_assert(PROBE <= FAR_MAX, "those of the probe");
	if (st->base && st->base <= UINT32_MAX - 2 * FAR_MAX - n)
		return;
	memset(st, 0, sizeof *st);
	st->base = 1;
}

static ssize_t blosclz_encode(void *state, int level, struct view src, struct span dst)
{
	struct state *st = state;
	assert(level >= 1 && level <= 9);
	if (src.n < 2 * TAIL || src.n > STREAM_MAX)
		return 0;
	make_positions(st, src.n);
	if (!worth_it(st, &efforts[level], src))
		return 0;
	struct writer w = {
		.st = st,
		.effort = &efforts[level],
		.src = src.p,
		.src_end = src.p + src.n,
		.match_end = src.p + src.n - 4,
		.out = dst.p,
		.out_end = dst.p + dst.n,
	};
	bool fits = encode_all(&w);
	st->base += (uint32_t)src.n;
	return fits ? w.out - dst.p : 0;
}

static int blosclz_state_new(void **state, const struct kernels *k)
{
	*state = mem_zalloc(sizeof(struct state));
	return *state ? 0 : -ENOMEM;
}

const struct codec codec_blosclz = {
	.name = "blosclz",
	.what = "BloscLZ: the library's own, for repetitive data",
	.id = CODEC_BLOSCLZ,
	.format = 0,
	.level = 5,
	.state_new = blosclz_state_new,
	.state_free = mem_free,
	.encode = blosclz_encode,
	.decode = blosclz_decode,
	.decode_front = blosclz_decode_front,
};
