/*
 * The Huffman codes of Zstandard's literals (kernels.h: put_codes) by AVX-512, built with and
 * without VBMI, which looks up 64 bytes in a table of 256 at once. Here 64-byte registers gain more
 * than a processor without VBMI loses by the lower clock that they cause (avx512bw.c).
 *
 * The plain version is slow because of its dependency chain: where a code goes depends on the
 * lengths of all before it. Here the codes of 64 literals are joined to pairs, fours and eights in
 * parallel, which leaves one step of the chain for eight literals.
 */
#include "codec/inline.h"
#include "codec/zstd/codes.h"

#include <immintrin.h>

/* A word has a code of at most 11 bits, and its length above. */
#define LENGTH_AT 12

static void words_of(uint16_t word[256], const uint64_t code[256])
{
	const __m512i bits = _mm512_set1_epi64(63), all = _mm512_set1_epi64(64);
	for (size_t i = 0; i < 256; i += 8) {
		__m512i x = _mm512_loadu_si512(code + i), n = _mm512_and_si512(x, bits);
		/* If there is no code, the shift by 64 yields 0. */
		__m512i c = _mm512_srlv_epi64(x, _mm512_sub_epi64(all, n));
		c = _mm512_or_si512(c, _mm512_slli_epi64(n, LENGTH_AT));
		_mm_storeu_si128((__m128i *)(word + i), _mm512_cvtepi64_epi16(c));
	}
}

/* The words of 64 literals: those of 0 .. 7, 16 .. 23 and so on in w[0], the others in w[1]. */
struct words {
	__m512i w[2];
};

#ifdef __AVX512VBMI__
struct codes {
	__m512i low[4], high[4]; /* low and high bytes of the words */
};

static __m512i low_bytes(__m512i a, __m512i b)
{
	return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(a)),
				  _mm512_cvtepi16_epi8(b), 1);
}

static void codes_init(struct codes *c, const uint64_t code[256])
{
	uint16_t word[256];
	words_of(word, code);
	for (size_t i = 0; i < 4; i++) {
		__m512i a = _mm512_loadu_si512(word + 64 * i);
		__m512i b = _mm512_loadu_si512(word + 64 * i + 32);
		c->low[i] = low_bytes(a, b);
		c->high[i] = low_bytes(_mm512_srli_epi16(a, 8), _mm512_srli_epi16(b, 8));
	}
}

/* Looks up 64 bytes in a table: an instruction covers half of it, the top bit selects which. */
ALWAYS_INLINE __m512i bytes_at(const __m512i table[4], __m512i x)
{
	__m512i a = _mm512_permutex2var_epi8(table[0], x, table[1]);
	__m512i b = _mm512_permutex2var_epi8(table[2], x, table[3]);
	return _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), a, b);
}

ALWAYS_INLINE struct words look_up(const struct codes *c, __m512i x)
{
	__m512i low = bytes_at(c->low, x), high = bytes_at(c->high, x);
	return (struct words){
		{_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)}};
}
#else
struct codes {
	__m512i word[8];
};

static void codes_init(struct codes *c, const uint64_t code[256])
{
	uint16_t word[256];
	words_of(word, code);
	memcpy(c->word, word, sizeof word);
}

/* Looks up 32 words in a table: an instruction covers a quarter of it, two bits select which. */
ALWAYS_INLINE __m512i words_at(const __m512i table[8], __m512i x)
{
	__mmask32 bit6 = _mm512_test_epi16_mask(x, _mm512_set1_epi16(64));
	__mmask32 bit7 = _mm512_test_epi16_mask(x, _mm512_set1_epi16(128));
	__m512i q0 = _mm512_permutex2var_epi16(table[0], x, table[1]);
	__m512i q1 = _mm512_permutex2var_epi16(table[2], x, table[3]);
	__m512i q2 = _mm512_permutex2var_epi16(table[4], x, table[5]);
	__m512i q3 = _mm512_permutex2var_epi16(table[6], x, table[7]);
	q0 = _mm512_mask_blend_epi16(bit6, q0, q1);
	q2 = _mm512_mask_blend_epi16(bit6, q2, q3);
	return _mm512_mask_blend_epi16(bit7, q0, q2);
}

ALWAYS_INLINE struct words look_up(const struct codes *c, __m512i x)
{
	const __m512i zero = _mm512_setzero_si512();
	return (struct words){{words_at(c->word, _mm512_unpacklo_epi8(x, zero)),
			       words_at(c->word, _mm512_unpackhi_epi8(x, zero))}};
}
#endif

/* In each 64 bits of a register: the joined codes of several literals, and their length in bits. */
struct joined {
	__m512i bits, n;
};

/*
 * Literals are written last first: of two neighbours the later one gets the lower bits, and the
 * earlier one is shifted up by its length.
 */
ALWAYS_INLINE struct joined join_four(__m512i words)
{
	const __m512i word = _mm512_set1_epi32(0xFFFF), half = _mm512_set1_epi64(0xFFFFFFFF);
	__m512i code = _mm512_and_si512(words, _mm512_set1_epi16((1 << LENGTH_AT) - 1));
	__m512i n = _mm512_srli_epi16(words, LENGTH_AT), late = _mm512_srli_epi32(n, 16);
	__m512i two = _mm512_or_si512(_mm512_srli_epi32(code, 16),
		_mm512_sllv_epi32(_mm512_and_si512(code, word), late));
	__m512i n2 = _mm512_add_epi32(_mm512_and_si512(n, word), late);
	__m512i late2 = _mm512_srli_epi64(n2, 32);
	return (struct joined){
		_mm512_or_si512(_mm512_srli_epi64(two, 32),
			_mm512_sllv_epi64(_mm512_and_si512(two, half), late2)),
		_mm512_add_epi64(_mm512_and_si512(n2, half), late2)};
}

struct run {
	uint64_t bits[8], n[8];
};

ALWAYS_INLINE void run_store(struct run *r, __m512i bits, __m512i n)
{
	_mm512_storeu_si512(r->bits, bits);
	_mm512_storeu_si512(r->n, n);
}

/*
 * The codes of 64 literals, in order: by eights, for use if each is short enough, and the early and
 * late halves of those.
 */
struct group {
	struct run eight, early, late;
	bool short_enough;
};

#define AT_ONCE 64                /* literals per group                       */
#define GROUP_BYTES (64 * 11 / 8) /* at most                                  */
#define EIGHT_BITS 56             /* what fits besides up to 7 bits not flushed */

ALWAYS_INLINE void group_join(struct group *g, const struct codes *c, const uint8_t *literals)
{
	struct words w = look_up(c, _mm512_loadu_si512(literals));
	struct joined a = join_four(w.w[0]), b = join_four(w.w[1]);
	__m512i early = _mm512_unpacklo_epi64(a.bits, b.bits);
	__m512i late = _mm512_unpackhi_epi64(a.bits, b.bits);
	__m512i nearly = _mm512_unpacklo_epi64(a.n, b.n), nlate = _mm512_unpackhi_epi64(a.n, b.n);
	__m512i n = _mm512_add_epi64(nearly, nlate);
	run_store(&g->early, early, nearly);
	run_store(&g->late, late, nlate);
	run_store(&g->eight, _mm512_or_si512(late, _mm512_sllv_epi64(early, nlate)), n);
	g->short_enough = !_mm512_cmpgt_epu64_mask(n, _mm512_set1_epi64(EIGHT_BITS));
}

ALWAYS_INLINE void put_run(struct bits *b, const struct run *r, int i)
{
	bits_add(b, r->bits[i], (unsigned)r->n[i]);
	bits_flush(b);
}

ALWAYS_INLINE void group_put(struct bits *b, const struct group *g)
{
	if (g->short_enough) {
#pragma GCC unroll 8
		for (int i = 7; i >= 0; i--)
			put_run(b, &g->eight, i);
		return;
	}
#pragma GCC unroll 8
	for (int i = 7; i >= 0; i--) {
		put_run(b, &g->late, i);
		put_run(b, &g->early, i);
	}
}

/*
 * Writes whole groups from the end of v, as long as there is room for two. Returns how many
 * literals are left. While one group is written the next one is joined: the processor does both in
 * parallel.
 */
static size_t put_groups(struct bits *b, const struct codes *c, struct view v, const uint8_t *limit)
{
	struct group g[2];
	size_t n = v.n;
	unsigned k = 0;
	if (n < AT_ONCE || limit - b->out < 2 * GROUP_BYTES)
		return n;
	group_join(&g[k], c, v.p + (n -= AT_ONCE));
	for (; n >= AT_ONCE && limit - b->out >= 2 * GROUP_BYTES; k ^= 1) {
		group_join(&g[k ^ 1], c, v.p + (n -= AT_ONCE));
		group_put(b, &g[k]);
	}
	group_put(b, &g[k]);
	return n;
}

static uint8_t *put_stream(const struct codes *c, const uint64_t code[256], struct view v,
			   struct span to)
{
	struct bits b = {.out = to.p};
	if (to.n < CODES_SLACK)
		return NULL;
	const uint8_t *limit = to.p + to.n - CODES_SLACK;
	size_t rest = put_groups(&b, c, v, limit);
	put_literals(&b, code, view_of(v.p, rest), limit);
	return end_stream(&b, limit);
}

/* Below this many literals the table does not pay. */
#define FEW 1024

bool PUT_CODES(const uint64_t code[256], struct view v, struct span to, uint8_t *end[4])
{
	struct codes c;
	if (v.n < FEW)
		return zstd_put_codes_avx2(code, v, to, end);
	codes_init(&c, code);
	for (unsigned k = 0; k < 4; k++) {
		end[k] = put_stream(&c, code, part_of_four(v, k), to);
		if (!end[k])
			return false;
		to = span_of(end[k], (size_t)(to.p + to.n - end[k]));
	}
	return true;
}
