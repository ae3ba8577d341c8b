/*
 * Reads the Huffman tree of literals (RFC 8878, 4.2.1): weights of symbols, direct or coded, become
 * the table of codes. A symbol of weight w has a code of log + 1 - w bits, or none if w is 0.
 */
#include "codec/unzstd/impl.h"
#include "codec/zstd/bits.h"

#include <immintrin.h>

#define SYMBOLS 256
#define WEIGHTS_MAX 255 /* the last symbol's is implied */
#define WEIGHTS_LOG ZSTD_WEIGHTS_LOG

struct weights {
	unsigned n;
	uint8_t w[SYMBOLS]; /* zeros after the n weights */
};

static const struct meaning weight_meaning[HUF_LOG + 1] = {
	{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0},  {5, 0},
	{6, 0}, {7, 0}, {8, 0}, {9, 0}, {10, 0}, {11, 0},
};

/* Two states take turns, until there are not enough bits for the next one. */
static bool weights_decode(struct weights *w, const struct cell *cell, unsigned log,
			   struct view v)
{
	ptrdiff_t left = bits_begin(v);
	if (left < 2 * (ptrdiff_t)log)
		return false;
	uint64_t word = bits_word(v.p, left);
	unsigned held = bits_held(left);
	const struct cell *a = cell + bits_take(word, &held, log);
	const struct cell *b = cell + bits_take(word, &held, log);
	left -= 2 * log;
	while (left >= 4 * WEIGHTS_LOG && w->n + 4 < WEIGHTS_MAX) {
		word = bits_word(v.p, left);
		held = bits_held(left);
		left -= held;
		for (int i = 0; i < 2; i++) {
			w->w[w->n++] = (uint8_t)a->base;
			a = cell + a->next + bits_take(word, &held, a->bits);
			w->w[w->n++] = (uint8_t)b->base;
			b = cell + b->next + bits_take(word, &held, b->bits);
		}
		left += held;
	}
	while (w->n < WEIGHTS_MAX - 1) {
		w->w[w->n++] = (uint8_t)a->base;
		if (left < a->bits) {
			w->w[w->n++] = (uint8_t)b->base;
			return true;
		}
		word = bits_word(v.p, left);
		held = bits_held(left);
		const struct cell *next = cell + a->next + bits_take(word, &held, a->bits);
		left -= a->bits;
		a = b;
		b = next;
	}
	return false;
}

/* Reads n weights, half a byte each. Returns the bytes read; 0: there are too few. */
static size_t halves_read(struct weights *w, unsigned n, struct view v)
{
	size_t bytes = (n + 1) / 2;
	if (bytes > v.n)
		return 0;
	w->n = n;
	for (size_t i = 0; i < bytes; i++) {
		w->w[2 * i] = v.p[i] >> 4;
		w->w[2 * i + 1] = v.p[i] & 15;
	}
	w->w[n] = 0; /* the other half of the last byte */
	return bytes;
}

/* Reads n bytes: the description of a table, and coded weights. Returns n; 0: invalid. */
static size_t coded_read(struct weights *w, size_t n, struct view v)
{
	struct cell cell[1 << WEIGHTS_LOG];
	struct shares s;
	if (n > v.n)
		return 0;
	size_t about = shares_read(&s, view_part(v, 0, n), HUF_LOG + 1, WEIGHTS_LOG);
	if (!about)
		return 0;
	states_fill(cell, 0, &s, weight_meaning);
	return weights_decode(w, cell, s.log, view_part(v, about, n - about)) ? n : 0;
}

/* Returns the bytes read; 0: invalid. */
static size_t weights_read(struct weights *w, struct view v)
{
	if (!v.n)
		return 0;
	unsigned first = v.p[0];
	struct view rest = view_from(v, 1);
	w->n = 0;
	size_t n = first > ZSTD_TREE_CODED_MAX ? halves_read(w, first - ZSTD_TREE_CODED_MAX, rest)
					       : coded_read(w, first, rest);
	return n ? n + 1 : 0;
}

/* One bit for each symbol. */
struct symbol_set {
	uint64_t word[4];
};

static struct symbol_set symbols_of(const struct weights *w, unsigned weight)
{
	const __m256i x = _mm256_set1_epi8((char)weight), *from = (const __m256i *)w->w;
	struct symbol_set set;
	for (int i = 0; i < 4; i++) {
		__m256i a = _mm256_cmpeq_epi8(_mm256_loadu_si256(from + 2 * i), x);
		__m256i b = _mm256_cmpeq_epi8(_mm256_loadu_si256(from + 2 * i + 1), x);
		set.word[i] = (uint32_t)_mm256_movemask_epi8(a) |
			      (uint64_t)(uint32_t)_mm256_movemask_epi8(b) << 32;
	}
	return set;
}

static unsigned count(const struct symbol_set *set)
{
	int n = 0;
	for (int i = 0; i < 4; i++)
		n += __builtin_popcountll(set->word[i]);
	return (unsigned)n;
}

/*
 * Finds the symbols of each weight; the last symbol's weight makes the sum a power of two. False:
 * invalid.
 */
static bool weights_end(const struct weights *w, unsigned *log, struct symbol_set of[HUF_LOG + 1])
{
	uint32_t total = 0, known = 0;
	for (unsigned k = 0; k <= HUF_LOG; k++) {
		of[k] = symbols_of(w, k);
		unsigned n = count(&of[k]);
		known += n;
		total += k ? n << (k - 1) : 0;
	}
	if (known < SYMBOLS || !total || total >= HUF_SIZE)
		return false;
	*log = bit_top(total) + 1;
	uint32_t rest = (1u << *log) - total;
	if (rest & (rest - 1))
		return false;
	of[bit_top(rest) + 1].word[w->n / 64] |= 1ull << w->n % 64;
	unsigned longest = count(&of[1]);
	return longest >= 2 && longest % 2 == 0;
}

/*
 * Symbols of low weights have the first codes; within a weight they are in order. Eight entries are
 * written at once, even if a code has fewer: the next code overwrites the rest, and the last one
 * has at least eight.
 */
static void one_fill(struct huffman *h, unsigned log, const struct symbol_set of[HUF_LOG + 1])
{
	uint16_t *to = h->one;
	for (unsigned k = 1; k <= log; k++) {
		size_t run = 1u << (k - 1 + HUF_LOG - log);
		for (unsigned i = 0; i < 4; i++)
			for (uint64_t left = of[k].word[i]; left; left &= left - 1, to += run) {
				unsigned symbol = 64 * i + (unsigned)__builtin_ctzll(left);
				uint64_t x = (symbol << 8 | (log + 1 - k)) * 0x0001000100010001u;
				for (size_t j = 0; j < run; j += 8) {
					put_le64((uint8_t *)(to + j), x);
					put_le64((uint8_t *)(to + j + 4), x);
				}
			}
	}
}

size_t huffman_read(struct huffman *h, struct view v)
{
	struct weights w = {0};
	struct symbol_set of[HUF_LOG + 1];
	unsigned log;
	size_t n = weights_read(&w, v);
	h->ready = false;
	if (!n || !weights_end(&w, &log, of))
		return 0;
	one_fill(h, log, of);
	h->ready = true;
	h->many_ready = false;
	return n;
}
