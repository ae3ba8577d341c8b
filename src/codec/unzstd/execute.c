/*
 * Decodes and executes the sequences of a block, one after the other. All that a processor can
 * predict about them is that lengths are short: so a copy writes 32 bytes before it checks whether
 * that was enough, and offsets are selected without branches.
 */
#include "codec/inline.h"
#include "codec/unzstd/impl.h"

#include <immintrin.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

ALWAYS_INLINE void copy16(uint8_t *to, const uint8_t *from)
{
	_mm_storeu_si128((__m128i *)to, _mm_loadu_si128((const __m128i *)from));
}

ALWAYS_INLINE void copy32(uint8_t *to, const uint8_t *from)
{
	_mm256_storeu_si256((__m256i *)to, _mm256_loadu_si256((const __m256i *)from));
}

#define LIST4(f, a, i) f(a, i), f(a, i + 1), f(a, i + 2), f(a, i + 3)
#define LIST16(f, a) LIST4(f, a, 0), LIST4(f, a, 4), LIST4(f, a, 8), LIST4(f, a, 12)
#define PLACE(a, i) (i) % (a)
#define PLACES(a) {LIST16(PLACE, a)}

/* Shuffles that repeat a pattern of 1 to 15 bytes over 16. */
static const uint8_t place[16][16] = {
	PLACES(1),  PLACES(1),  PLACES(2),  PLACES(3),  PLACES(4),  PLACES(5),
	PLACES(6),  PLACES(7),  PLACES(8),  PLACES(9),  PLACES(10), PLACES(11),
	PLACES(12), PLACES(13), PLACES(14), PLACES(15),
};

/* The largest multiple of the offset up to 16. */
static const uint8_t steps[16] = {16, 16, 16, 15, 16, 15, 12, 14, 16, 9, 10, 11, 12, 13, 14, 15};

/* For offsets below 16: stores 16 bytes at a time, advancing by a multiple of the offset. */
ALWAYS_INLINE void copy_pattern(uint8_t *op, size_t offset, size_t n)
{
	__m128i x = _mm_loadu_si128((const __m128i *)(op - offset));
	x = _mm_shuffle_epi8(x, _mm_loadu_si128((const __m128i *)place[offset]));
	size_t step = steps[offset];
	for (uint8_t *end = op + n; op < end; op += step)
		_mm_storeu_si128((__m128i *)op, x);
}

/* Writes up to 31 bytes too many. */
ALWAYS_INLINE void copy_match(uint8_t *op, size_t offset, size_t n)
{
	const uint8_t *from = op - offset, *end = op + n;
	if (LIKELY(offset >= 32)) {
		copy32(op, from);
		for (size_t i = 32; UNLIKELY(i < n); i += 32)
			copy32(op + i, from + i);
	} else if (offset >= 16) {
		do {
			copy16(op, from);
			copy16(op + 16, from + 16);
			op += 32;
			from += 32;
		} while (UNLIKELY(op < end));
	} else {
		copy_pattern(op, offset, n);
	}
}

/* For the end of dst: wide copies as far as `room` allows, the rest byte by byte. */
static __attribute__((noinline)) void copy_exactly(uint8_t *op, size_t offset, size_t n,
						   size_t room)
{
	if (n > 2 * UNZSTD_SLACK) {
		size_t most = min_u64(n, room - UNZSTD_SLACK);
		copy_match(op, offset, most);
		op += most;
		n -= most;
	}
	for (size_t i = 0; i < n; i++)
		op[i] = op[(ptrdiff_t)(i - offset)];
}

/* The state of decoding a block's sequences. No arrays, which would not stay in registers. */
struct walk {
	/* the bitstream, which is read backwards */
	const uint8_t *p, *lowest; /* the word at hand, and the lowest one with bits of the
				      stream */
	unsigned held;             /* how many of its lowest bits are unread            */
	/* the states of literal lengths, offsets and match lengths, as indexes into `cell` */
	const struct cell *cell;
	uint32_t l, o, m;
	/* dst: where the next byte goes; its start and end */
	uint8_t *op, *start, *last;
	uint8_t *end;      /* of the block, or of the part wanted         */
	uint8_t *fast_end; /* up to here copies may overshoot by UNZSTD_SLACK */
	const uint8_t *lit, *lit_end; /* the next literal, and the end of all */
	uint32_t r0, r1, r2;          /* the last three offsets, newest first  */
};

struct numbers {
	size_t literals, match;
	uint32_t value;
};

/* Loads a word with at least 56 unread bits. False: the stream is exhausted. */
ALWAYS_INLINE bool refill(struct walk *w, uint64_t *word)
{
	w->p += (ptrdiff_t)(w->held >> 3) - 7;
	w->held = 56 + (w->held & 7);
	if (UNLIKELY(w->p < w->lowest))
		return false;
	*word = get_le64(w->p);
	return true;
}

ALWAYS_INLINE bool walk_begin(struct walk *w, const struct sequences *s)
{
	ptrdiff_t left = bits_begin(s->bits);
	uint64_t word;
	if (left < 0)
		return false;
	w->p = s->bits.p + (left >> 3);
	w->held = left & 7;
	w->lowest = s->bits.p - 7;
	if (!refill(w, &word))
		return false;
	const struct states *l = &s->states[ZSTD_LITERALS], *o = &s->states[ZSTD_OFFSET];
	const struct states *m = &s->states[ZSTD_MATCH];
	w->l = l->first + bits_take(word, &w->held, l->log);
	w->o = o->first + bits_take(word, &w->held, o->log);
	w->m = m->first + bits_take(word, &w->held, m->log);
	return true;
}

#define STATES_BITS (ZSTD_LITERALS_LOG + ZSTD_OFFSET_LOG + ZSTD_MATCH_LOG)

/*
 * Decodes a sequence. False: the stream ends too early or, after the `last` one, which no states
 * follow, not exactly here.
 */
ALWAYS_INLINE bool decode(struct walk *w, struct numbers *x, const bool last)
{
	const struct cell *l = w->cell + w->l, *o = w->cell + w->o, *m = w->cell + w->m;
	uint64_t word;
	if (!refill(w, &word))
		return false;
	x->value = o->base + bits_take(word, &w->held, o->extra);
	x->match = m->base + bits_take(word, &w->held, m->extra);
	x->literals = l->base + bits_take(word, &w->held, l->extra);
	if (last)
		return (w->p - w->lowest - 7) * 8 + (ptrdiff_t)w->held == 0;
	if (UNLIKELY(w->held < STATES_BITS) && !refill(w, &word))
		return false;
	w->l = l->next + bits_take(word, &w->held, l->bits);
	w->m = m->next + bits_take(word, &w->held, m->bits);
	w->o = o->next + bits_take(word, &w->held, o->bits);
	return true;
}

/*
 * Values 1 to 3 are the last three offsets; without literals, shifted by one (RFC 8878, 3.1.1.5).
 */
ALWAYS_INLINE uint32_t offset_of(struct walk *w, const struct numbers *x)
{
	uint32_t offset = x->value - ZSTD_OFFSET_RECENT;
	if (LIKELY(x->value > ZSTD_OFFSET_RECENT)) {
		w->r2 = w->r1;
		w->r1 = w->r0;
		return w->r0 = offset;
	}
	uint32_t which = x->value - 1 + !x->literals;
	offset = which == 2 ? w->r2 : w->r1;
	offset = which == 3 ? w->r0 - 1 : offset;
	offset = which == 0 ? w->r0 : offset;
	w->r2 = which >= 2 ? w->r1 : w->r2;
	w->r1 = which >= 1 ? w->r0 : w->r1;
	return w->r0 = offset;
}

ALWAYS_INLINE bool execute(struct walk *w, const struct numbers *x)
{
	size_t offset = offset_of(w, x);
	uint8_t *op = w->op, *match_at = op + x->literals, *next = match_at + x->match;
	const uint8_t *from = w->lit;
	w->lit += x->literals;
	w->op = next;
	if (UNLIKELY(offset - 1 >= (size_t)(match_at - w->start)) ||
	    UNLIKELY(w->lit > w->lit_end))
		return false;
	if (UNLIKELY(next > w->fast_end)) {
		if (next > w->end)
			return false;
		memcpy(op, from, x->literals);
		copy_exactly(match_at, offset, x->match, (size_t)(w->last - match_at));
		return true;
	}
	copy32(op, from);
	for (size_t i = 32; UNLIKELY(i < x->literals); i += 32)
		copy32(op + i, from + i);
	copy_match(match_at, offset, x->match);
	return true;
}

/*
 * Called after execute has refused a sequence. If that was only because it goes beyond what is
 * wanted (s->stop), executes it and returns where it ends; else returns 0. w.op and w.lit have
 * already been moved past the sequence. Arguments are passed by value: variables whose address is
 * taken would not stay in registers in the caller's loop.
 */
static __attribute__((noinline)) size_t execute_last(struct walk w, struct numbers x,
						     const struct sequences *s)
{
	size_t next = (size_t)(w.op - w.start), offset = w.r0;
	if (next < s->stop || next > s->end || w.lit > w.lit_end)
		return 0;
	uint8_t *match_at = w.op - x.match, *op = match_at - x.literals;
	if (offset - 1 >= (size_t)(match_at - w.start))
		return 0;
	memcpy(op, w.lit - x.literals, x.literals);
	copy_exactly(match_at, offset, x.match, (size_t)(w.last - match_at));
	return next;
}

/* front: may end at s->stop. */
ALWAYS_INLINE size_t execute_all(const struct sequences *s, uint32_t rep[3], const bool front)
{
	struct numbers x;
	struct walk w = {
		.cell = s->cell,
		.op = s->dst.p + s->at,
		.start = s->dst.p,
		.end = s->dst.p + (front ? s->stop : s->end),
		.last = s->dst.p + s->dst.n,
		.lit = s->literals.p,
		.lit_end = s->literals.p + s->literals.n,
		.r0 = rep[0],
		.r1 = rep[1],
		.r2 = rep[2],
	};
	w.fast_end = s->dst.n < UNZSTD_SLACK ? w.start : w.last - UNZSTD_SLACK;
	w.fast_end = w.fast_end < w.end ? w.fast_end : w.end;
	if (!walk_begin(&w, s))
		return 0;
	for (size_t i = s->n - 1; i; i--) {
		if (!decode(&w, &x, false))
			return 0;
		if (!execute(&w, &x))
			return front ? execute_last(w, x, s) : 0;
	}
	if (!decode(&w, &x, true))
		return 0;
	if (!execute(&w, &x))
		return front ? execute_last(w, x, s) : 0;
	size_t rest = (size_t)(w.lit_end - w.lit);
	if (rest > (front ? s->end - (size_t)(w.op - w.start) : (size_t)(w.end - w.op)))
		return 0;
	bytes_copy(w.op, w.lit, rest);
	rep[0] = w.r0;
	rep[1] = w.r1;
	rep[2] = w.r2;
	return (size_t)(w.op + rest - w.start);
}

/* Two instances: each additional value that the loop has to keep costs a fiftieth of its time. */
static __attribute__((noinline)) size_t execute_whole(const struct sequences *s, uint32_t rep[3])
{
	return execute_all(s, rep, false);
}

static __attribute__((noinline)) size_t execute_front(const struct sequences *s, uint32_t rep[3])
{
	return execute_all(s, rep, true);
}

size_t sequences_execute(const struct sequences *s, uint32_t rep[3])
{
	return s->stop < s->end ? execute_front(s, rep) : execute_whole(s, rep);
}
