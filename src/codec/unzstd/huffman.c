/*
 * Decodes the Huffman codes of literals (RFC 8878, 4.2.2): four streams in parallel, whose table
 * look-ups do not wait for each other.
 */
#include "codec/inline.h"
#include "codec/unzstd/impl.h"

/* An entry of `many`: symbols, then the total length of their codes, then their number. */
#define LENGTH_AT 24
#define ONE_MORE (1u << 30)
#define LENGTH(x) ((x) >> LENGTH_AT & 63)

ALWAYS_INLINE uint32_t entry_of(uint32_t one)
{
	return ONE_MORE | (one & 63) << LENGTH_AT | one >> 8;
}

/*
 * A look-up takes HUF_LOG bits: a code of n bits, and the HUF_LOG - n bits after it, which may hold
 * more codes. to[i] becomes the entry for the codes in those bits, whose value is i, shifted by one
 * symbol to make room for the first. `from` has, for the same i, the entry of a look-up that begins
 * with them; if its codes are longer than those bits, to[i] stays.
 */
static void tails_fill(unsigned n, const uint32_t *restrict from, uint32_t *restrict to)
{
	unsigned rest = HUF_LOG - n;
	for (uint32_t i = 0; i < 1u << rest; i++) {
		uint32_t x = from[i];
		to[i] = LENGTH(x) <= rest ? (x & 0xFF000000) | (x & 0xFFFF) << 8 : to[i];
	}
}

#define AT_ONCE 8

/*
 * Fills h->many: for each code its own symbol, followed by what tails_fill has found. A code of n
 * bits has a run of HUF_SIZE >> n entries. Eight are written at once, even if a run is shorter: the
 * next code's run overwrites the rest, and the last run, of the shortest code, has at least eight.
 */
static void runs_fill(struct huffman *h, const uint32_t *tails)
{
	for (uint32_t i = 0; i < HUF_SIZE;) {
		const unsigned n = h->one[i] & 63;
		const uint32_t run = HUF_SIZE >> n;
		do {
			const uint32_t first = entry_of(h->one[i]), *restrict from = tails + run;
			uint32_t *restrict to = h->many + i;
			for (uint32_t k = 0; k < run; k += AT_ONCE)
				for (uint32_t j = 0; j < AT_ONCE; j++)
					to[k + j] = from[k + j] + first;
			i += run;
		} while (i < HUF_SIZE && (h->one[i] & 63) == n);
	}
}

/* Picks every 2^n-th entry, of one code or of two. */
ALWAYS_INLINE void pick(const struct huffman *h, bool many, unsigned n, uint32_t *restrict to)
{
	for (uint32_t i = 0; i < HUF_SIZE >> n; i++)
		to[i] = many ? h->many[i << n] : entry_of(h->one[i << n]);
}

static void pick_first(const struct huffman *h, bool many, unsigned n, uint32_t *to)
{
	if (n == 1)
		pick(h, many, 1, to); /* a constant, for which the compiler uses shuffles */
	else
		pick(h, many, n, to);
}

/*
 * Makes the table for up to two codes per look-up, or with `third` three: a second pass appends the
 * pairs made by the first one to each code. Codes are ordered by length, longest first. The bits
 * after a code of n bits are the upper HUF_LOG - n bits of a look-up that begins there, so its
 * entries are every 2^n-th of the table: every second of those for n - 1.
 */
static void many_fill(struct huffman *h, bool third)
{
	unsigned longest = h->one[0] & 63, shortest = h->one[HUF_SIZE - 1] & 63;
	uint32_t tails[2 * HUF_SIZE], every[2 * HUF_SIZE];
	memset(tails, 0, (2 * HUF_SIZE >> shortest) * sizeof *tails);
	for (int pass = 0; pass < 1 + third; pass++) {
		pick_first(h, pass, shortest, every + (HUF_SIZE >> shortest));
		for (unsigned n = shortest; n <= longest; n++) {
			uint32_t size = HUF_SIZE >> n, *to = every + size, *from = to + size;
			for (uint32_t i = 0; n > shortest && i < size; i++)
				to[i] = from[2 * i];
			tails_fill(n, to, tails + size);
		}
		runs_fill(h, tails);
	}
	h->many_ready = true;
}

/* The state of decoding a stream. A mark bit below the unread bits of `word` counts those read. */
struct huffman_way {
	uint64_t word;
	const uint8_t *p, *start;
	uint8_t *op, *end;
};

ALWAYS_INLINE void way_refill(struct huffman_way *w)
{
	unsigned used = (unsigned)__builtin_ctzll(w->word);
	w->p -= used >> 3;
	w->word = (get_le64(w->p) | 1) << (used & 7);
}

ALWAYS_INLINE bool way_begin(struct huffman_way *w, struct view in, struct span out)
{
	if (!in.n || !in.p[in.n - 1])
		return false;
	w->start = in.p;
	w->p = in.p + in.n - 8;
	w->word = (get_le64(w->p) | 1) << (__builtin_clz(in.p[in.n - 1]) - 23);
	w->op = out.p;
	w->end = out.p + out.n;
	return true;
}

/* What a step needs to have in registers. */
struct huffman_table {
	const void *entry;     /* h->one or h->many                                 */
	const uint8_t *number; /* number of codes, by the upper byte of an entry of `many` */
	uint64_t top;          /* 64 - HUF_LOG                                      */
};

#define LIST16(x) x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x
#define LIST64(x) LIST16(x), LIST16(x), LIST16(x), LIST16(x)

static const uint8_t numbers[256] = {LIST64(0), LIST64(1), LIST64(2), LIST64(3)};

/*
 * The empty assembly keeps the three in registers: compilers would load two of them, which are
 * constants, again in each step. Its "memory" clobber stands for the steps below, whose own
 * assembly does not declare that they read the table.
 */
ALWAYS_INLINE struct huffman_table table_of(const struct huffman *h, const bool many)
{
	struct huffman_table t = {many ? (const void *)h->many : h->one, numbers, 64 - HUF_LOG};
	__asm__ volatile("" : "+r"(t.entry), "+r"(t.number), "+r"(t.top) : : "memory");
	return t;
}

/*
 * Both take the next bits of *word and write the symbols of their entry: one, or four bytes, of
 * which step_many counts up to three. Processors do two shifts per cycle, and two or three loads:
 * so only the look-up and the advance shift, and the other fields of an entry are loaded
 * separately. Compilers would load once and shift.
 */
ALWAYS_INLINE void step_one(uint64_t *word, const struct huffman_table *t, uint8_t *op)
{
	uint64_t x, y;
	__asm__("shrx %[top], %[word], %[x]\n\t"
		"movzbl 1(%[entry], %[x], 2), %k[y]\n\t"
		"movzbl (%[entry], %[x], 2), %k[x]\n\t"
		"movb %b[y], %[to]\n\t"
		"shlx %[x], %[word], %[word]"
		: [word] "+r"(*word), [x] "=&r"(x), [y] "=&r"(y), [to] "=m"(*op)
		: [top] "r"(t->top), [entry] "r"(t->entry));
}

ALWAYS_INLINE void step_many(uint64_t *word, const struct huffman_table *t, uint8_t **op)
{
	uint64_t x, y;
	__asm__("shrx %[top], %[word], %[x]\n\t"
		"movl (%[entry], %[x], 4), %k[y]\n\t"
		"movzbl 3(%[entry], %[x], 4), %k[x]\n\t"
		"movl %k[y], %[to]\n\t"
		"movzbl (%[number], %[x]), %k[y]\n\t"
		"shlx %[x], %[word], %[word]"
		: [word] "+r"(*word), [x] "=&r"(x), [y] "=&r"(y),
		  [to] "=m"(*(uint8_t(*)[4])*op)
		: [top] "r"(t->top), [entry] "r"(t->entry), [number] "r"(t->number));
	*op += y;
}

ALWAYS_INLINE void way_step(struct huffman_way *w, const struct huffman_table *t, const bool many,
			    const int i)
{
	if (many)
		step_many(&w->word, t, &w->op);
	else
		step_one(&w->word, t, w->op + i);
}

/* Look-ups per round: a word has enough bits for five of up to 11 after a refill. */
#define ROUND_LOOKS 5
#define ROUND_BYTES 7 /* of the stream: 55 bits, and a partial byte */

/* At most, including overshoot: three per look-up, and one more byte of the last. */
#define ROUND_SYMBOLS(many) ((many) ? 3 * ROUND_LOOKS + 1 : ROUND_LOOKS)

/* Negative: another round might overrun the stream, or the output. */
ALWAYS_INLINE ptrdiff_t way_room(const struct huffman_way *w, const bool many)
{
	return (w->p - w->start - ROUND_BYTES) | (w->end - w->op - ROUND_SYMBOLS(many));
}

/* Decodes the rest, symbol by symbol; false: it does not end exactly with its bits. */
ALWAYS_INLINE bool way_finish(struct huffman_way *w, const struct huffman *h)
{
	ptrdiff_t left = (w->p - w->start) * 8 + 64 - __builtin_ctzll(w->word);
	while (w->op < w->end) {
		if (left < 0)
			return false;
		uint64_t word = bits_word(w->start, left) << (64 - bits_held(left));
		unsigned n = 0;
		for (int i = 0; i < ROUND_LOOKS && w->op < w->end; i++) {
			unsigned x = h->one[word >> (64 - HUF_LOG)];
			word <<= x & 63;
			n += x & 63;
			*w->op++ = (uint8_t)(x >> 8);
		}
		left -= n;
	}
	return left == 0;
}

/* Runs all four, in registers, until one of them has no room for another round. */
ALWAYS_INLINE void ways_run(struct huffman_way to[4], const struct huffman *h, const bool many)
{
	struct huffman_way w[4] = {to[0], to[1], to[2], to[3]};
	const struct huffman_table t = table_of(h, many);
	do {
#pragma GCC unroll 5
		for (int i = 0; i < ROUND_LOOKS; i++)
#pragma GCC unroll 4
			for (int k = 0; k < 4; k++)
				way_step(&w[k], &t, many, i);
#pragma GCC unroll 4
		for (int k = 0; k < 4; k++) {
			w[k].op += many ? 0 : ROUND_LOOKS;
			way_refill(&w[k]);
		}
	} while ((way_room(&w[0], many) | way_room(&w[1], many) | way_room(&w[2], many) |
		  way_room(&w[3], many)) >= 0);
#pragma GCC unroll 4
	for (int k = 0; k < 4; k++)
		to[k] = w[k];
}

ALWAYS_INLINE bool decode_four(const struct huffman_streams *s, const struct huffman *h,
			       const bool many)
{
	struct huffman_way w[4];
	bool good = true;
	for (unsigned k = 0; k < 4; k++)
		if (!way_begin(&w[k], s->in[k], s->out[k]))
			return false;
	unsigned done = 0;
	for (;;) {
		int other = -1;
		for (int k = 0; k < 4; k++)
			if (way_room(&w[k], many) >= 0)
				other = k;
			else if (!(done & 1u << k)) {
				good &= way_finish(&w[k], h);
				done |= 1u << k;
			}
		if (other < 0)
			return good;
		for (int k = 0; k < 4; k++)
			if (done & 1u << k)
				w[k] = w[other];
		ways_run(w, h, many);
	}
}

ALWAYS_INLINE bool decode_one(const struct huffman_streams *s, const struct huffman *h,
			      const bool many)
{
	struct huffman_way w;
	const struct huffman_table t = table_of(h, many);
	if (!way_begin(&w, s->in[0], s->out[0]))
		return false;
	while (way_room(&w, many) >= 0) {
		for (int i = 0; i < ROUND_LOOKS; i++)
			way_step(&w, &t, many, i);
		w.op += many ? 0 : ROUND_LOOKS;
		way_refill(&w);
	}
	return way_finish(&w, h);
}

/*
 * From this many literals on, the larger table, with several symbols per look-up, pays if codes are
 * short.
 */
#define MANY_MIN 1500

bool huffman_decode(struct huffman *h, const struct huffman_streams *s)
{
	size_t bits = 8 * (s->in[0].n + s->in[1].n + s->in[2].n + s->in[3].n);
	size_t n = s->out[0].n + s->out[1].n + s->out[2].n + s->out[3].n;
	bool many = n >= MANY_MIN && bits <= n * 7;
	if (many && !h->many_ready)
		many_fill(h, bits < n * 7 / 2);
	if (many)
		return s->n == 1 ? decode_one(s, h, true) : decode_four(s, h, true);
	return s->n == 1 ? decode_one(s, h, false) : decode_four(s, h, false);
}
