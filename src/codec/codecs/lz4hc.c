/*
 * LZ4HC: the streams of LZ4 (FORMAT.md 6.2), found with more effort. Levels 1 to 5 are our own;
 * higher ones and dictionaries use the library.
 *
 * The table has rows of ROW positions whose four bytes have the same hash. For each position a row
 * also has a tag, eight more bits of that hash. All tags are compared at once to select candidates:
 * no chain is walked, and few candidates fail. Only the low 16 bits of positions are kept. Entries
 * from further back or from an earlier stream yield a wrong distance; since every candidate is
 * compared with the actual bytes, that costs time but not correctness, and nothing is cleared
 * between streams.
 */
#include "base/buf.h"
#include "codec/codec.h"
#include "codec/codecs/lz4_format.h"
#include "codec/match.h"

#include <lz4.h>
#include <lz4hc.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define ROW 16u
#define ROWS_LOG 12
#define OWN_LEVELS 5
#define NICE_LEN 512u /* long enough: the search ends */

/* One cache line each. */
struct row {
	uint8_t tag[ROW];
	uint16_t place[ROW];
	uint8_t newest; /* index of the last position entered */
	uint8_t pad[15];
};

struct state {
	LZ4_streamHC_t work;
	struct view dict;
	struct row *row;      /* 1 << ROWS_LOG of them, in the same allocation */
};

struct match {
	const uint8_t *at;
	size_t len, dist; /* len 0: none */
};

struct finder {
	struct state *st;
	const uint8_t *src, *end; /* matches end at `end` */
	const uint8_t *next;      /* first position not entered yet */
	unsigned looks;           /* the most candidates per search */
};

struct sink {
	uint8_t *out, *end;
};

/* Twelve bits for the row, and eight for the tag. */
static inline uint32_t hash_of(const uint8_t *p)
{
	return hash_four(p, ROWS_LOG + 8);
}

static inline void enter(struct state *st, uint32_t hash, size_t at)
{
	struct row *row = &st->row[hash >> 8];
	unsigned i = row->newest = (row->newest - 1) & (ROW - 1);
	row->tag[i] = (uint8_t)hash;
	row->place[i] = (uint16_t)at;
}

/* The positions of the row with this tag, as a bit mask, newest lowest. */
static inline uint32_t candidates(const struct state *st, uint32_t hash)
{
	const struct row *row = &st->row[hash >> 8];
	unsigned newest = row->newest;
#ifdef __SSE2__
	__m128i same = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)row->tag),
				      _mm_set1_epi8((char)hash));
	uint32_t bits = (uint32_t)_mm_movemask_epi8(same);
#else
	uint32_t bits = 0;
	for (unsigned i = 0; i < ROW; i++)
		bits |= (uint32_t)(row->tag[i] == (uint8_t)hash) << i;
#endif
	return (bits >> newest | bits << (ROW - newest)) & 0xFFFF;
}

/* Enters all positions before p. */
static inline void enter_up_to(struct finder *f, const uint8_t *p)
{
	for (; f->next < p; f->next++)
		enter(f->st, hash_of(f->next), (size_t)(f->next - f->src));
}

/*
 * The longest match around p, if longer than `least`; it may start as early as `low`. Ties go to
 * the nearest. Enters p.
 */
static inline struct match find(struct finder *f, const uint8_t *p, const uint8_t *low,
				size_t least)
{
	struct state *st = f->st;
	struct match best = {p, 0, 0};
	size_t at = (size_t)(p - f->src), best_len = least;
	enter_up_to(f, p);
	uint32_t hash = hash_of(p), bits = candidates(st, hash), first = get_le32(p);
	const struct row *row = &st->row[hash >> 8];
	unsigned newest = row->newest;
	for (unsigned looks = f->looks; bits && looks; bits &= bits - 1, looks--) {
		unsigned i = (newest + (unsigned)__builtin_ctz(bits)) & (ROW - 1);
		size_t dist = (uint16_t)(at - row->place[i]);
		if (dist - 1 >= at)
			continue;
		/*
		 * A longer match must include the two bytes at the end of the best one, wherever it
		 * starts.
		 */
		const uint8_t *q = p - dist, *edge = low + best_len - 1;
		if (edge >= p && get_le16(edge) != get_le16(edge - dist))
			continue;
		if (get_le32(q) != first)
			continue;
		size_t ahead = LZ4_MATCH_MIN +
			       equal_bytes(p + LZ4_MATCH_MIN, q + LZ4_MATCH_MIN, f->end),
		       back = 0;
		while (p - back > low && q - back > f->src &&
		       p[-1 - (ptrdiff_t)back] == q[-1 - (ptrdiff_t)back])
			back++;
		if (ahead + back > best_len) {
			best = (struct match){p - back, ahead + back, dist};
			best_len = best.len;
			if (best_len >= NICE_LEN)
				break;
		}
	}
	enter(st, hash, at);
	f->next = p + 1;
	return best;
}

/*
 * The parser weighs up to three overlapping matches, like the library's, with the same constants.
 * When it has a match it looks for a longer one around the match's last two bytes, and then for a
 * third around the last three of that. A match that would be cut to less than three bytes is
 * dropped.
 */
#define OVERLAP_NEXT 2
#define OVERLAP_THIRD 3
#define STUMP_MIN 3

/* A match up to this length costs no extra byte. */
#define CHEAP_LEN 18u

/* The state of the parser. */
struct parser {
	struct finder f;
	struct sink out;
	const uint8_t *lit, *stop; /* first byte not written; last possible start of a match */
};

static inline struct match find_around_end(struct parser *ps, const struct match *m, size_t overlap)
{
	/* The other match may have to start at this one's end. */
	const uint8_t *end = m->at + m->len;
	if (end > ps->stop)
		return (struct match){end, 0, 0};
	return find(&ps->f, end - overlap, m->at, m->len);
}

static inline bool put_match(struct parser *ps, const struct match *m)
{
	struct sink *s = &ps->out;
	s->out = lz4_put_sequence(s->out, s->end, view_of(ps->lit, (size_t)(m->at - ps->lit)),
				  m->len, m->dist);
	ps->lit = m->at + m->len;
	return s->out;
}

static inline void cut_front(struct match *m, const uint8_t *at)
{
	if (at <= m->at)
		return;
	size_t n = (size_t)(at - m->at);
	m->len = n < m->len ? m->len - n : 0;
	m->at = at;
}

static inline void cut_end(struct match *m, const uint8_t *end)
{
	if (m->at + m->len > end)
		m->len = (size_t)(end - m->at);
}

/*
 * Where a and b overlap, a keeps the length that is free in its token, as long as b remains a
 * match.
 */
static inline void share(struct match *a, struct match *b)
{
	size_t len = a->len < CHEAP_LEN ? a->len : CHEAP_LEN;
	if ((size_t)(b->at - a->at) >= CHEAP_LEN)
		return;
	if (a->at + len > b->at + b->len - LZ4_MATCH_MIN)
		len = (size_t)(b->at - a->at) + b->len - LZ4_MATCH_MIN;
	cut_front(b, a->at + len);
}

/*
 * Settles a and b, a longer match that starts inside a or right after it. b replaces a if it starts
 * too early to leave a match of a. Otherwise a third match, around the end of b, decides: if it
 * starts at the end of a or before, b is not needed. Leaves the next match to consider in *a; len
 * 0: none.
 */
static bool settle(struct parser *ps, struct match *a, struct match b)
{
	for (;;) {
		if (b.at - a->at < STUMP_MIN) {
			*a = b;
			return true;
		}
		share(a, &b);
		struct match c = find_around_end(ps, &b, OVERLAP_THIRD);
		if (!c.len) {
			cut_end(a, b.at);
			bool fits = put_match(ps, a) && put_match(ps, &b);
			a->len = 0;
			return fits;
		}
		const uint8_t *end = a->at + a->len;
		if (c.at < end + STUMP_MIN) {
			b = c;
			if (c.at < end)
				continue;
			bool fits = put_match(ps, a);
			*a = b;
			return fits;
		}
		cut_end(a, b.at);
		if (!put_match(ps, a))
			return false;
		*a = b;
		b = c;
	}
}

static bool encode_rows(struct parser *ps, const uint8_t *src_end)
{
	const uint8_t *p = ps->lit;
	while (p <= ps->stop) {
		struct match a = find(&ps->f, p, ps->lit, LZ4_MATCH_MIN - 1);
		if (!a.len) {
			p++;
			continue;
		}
		while (a.len) {
			struct match b = find_around_end(ps, &a, OVERLAP_NEXT);
			if (!b.len) {
				if (!put_match(ps, &a))
					return false;
				break;
			}
			if (!settle(ps, &a, b))
				return false;
		}
		p = ps->lit;
	}
	ps->out.out = lz4_put_last(ps->out.out, ps->out.end,
				   view_of(ps->lit, (size_t)(src_end - ps->lit)));
	return ps->out.out;
}

static ssize_t encode_here(struct state *st, int level, struct view src, struct span dst)
{
	if (src.n < LZ4_COPY_MARGIN)
		return 0;
	struct parser ps = {
		.f = {
			.st = st,
			.src = src.p,
			.end = src.p + src.n - LZ4_LAST_LITERALS,
			.next = src.p,
			.looks = level < 3 ? 2 : 1u << (level - 1), /* at level 5: ROW */
		},
		.out = {dst.p, dst.p + dst.n},
		.lit = src.p,
		.stop = src.p + src.n - LZ4_COPY_MARGIN,
	};
	return encode_rows(&ps, src.p + src.n) ? ps.out.out - dst.p : 0;
}

static int lz4hc_state_new(void **state, const struct kernels *k)
{
	struct state *st = mem_zalloc(sizeof *st + sizeof(struct row) * ((1 << ROWS_LOG) + 1));
	*state = st;
	if (!st)
		return -ENOMEM;
	uintptr_t rows = (uintptr_t)(st + 1);
	st->row = (struct row *)(rows + (-rows & (sizeof(struct row) - 1)));
	LZ4_initStreamHC(&st->work, sizeof st->work);
	return 0;
}

static ssize_t lz4hc_encode(void *state, int level, struct view src, struct span dst)
{
	struct state *st = state;
	if (!st->dict.n && level <= OWN_LEVELS)
		return encode_here(st, level, src, dst);
	if (!st->dict.n)
		return LZ4_compress_HC_extStateHC(&st->work, (const char *)src.p, (char *)dst.p,
						  (int)src.n, (int)dst.n, level);
	LZ4_resetStreamHC_fast(&st->work, level);
	LZ4_loadDictHC(&st->work, (const char *)st->dict.p, (int)st->dict.n);
	return LZ4_compress_HC_continue(&st->work, (const char *)src.p, (char *)dst.p, (int)src.n,
					(int)dst.n);
}

static int lz4hc_dict_set(void *state, struct view dict)
{
	struct state *st = state;
	st->dict = dict;
	/* The tables may still point into a dictionary that is going away. */
	LZ4_initStreamHC(&st->work, sizeof st->work);
	return 0;
}

const struct codec codec_lz4hc = {
	.name = "lz4hc",
	.what = "LZ4 with a thorough search: slower to write, as fast to read",
	.id = CODEC_LZ4HC,
	.format = 1,
	.level = 9,
	.state_new = lz4hc_state_new,
	.state_free = mem_free,
	.encode = lz4hc_encode,
	.decode = lz4_decode,
	.decode_front = lz4_decode_front,
	.dict_make = lz4_dict_make,
	.dict_set = lz4hc_dict_set,
};
