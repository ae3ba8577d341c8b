/*
 * The Huffman codes of Zstandard's literals (kernels.h: put_codes) by AVX-512 with VBMI, which
 * looks up 64 bytes in a table of 256 at once.
 *
 * What makes the plain version slow is its chain: where a code goes depends on the lengths of all
 * before it. Here codes of 64 literals are put together two and two, then four and four, all of
 * them side by side; the chain is left with one step for four literals.
 */
#include "codec/inline.h"
#include "codec/zstd/codes.h"

#include <immintrin.h>

/*
 * Two tables of 256 bytes. low: the low byte of each code. high: the other three bits that it may
 * have, and its length in the upper four.
 */
struct codes {
	__m512i low[4], high[4];
};

static void codes_init(struct codes *c, const uint64_t code[256])
{
	const __m512i bits = _mm512_set1_epi64(63), word = _mm512_set1_epi64(64);
	uint8_t low[256], high[256];
	for (size_t i = 0; i < 256; i += 8) {
		__m512i x = _mm512_loadu_si512(code + i), n = _mm512_and_si512(x, bits);
		/* Where there is no code, the shift by 64 gives nothing. */
		__m512i l = _mm512_srlv_epi64(x, _mm512_sub_epi64(word, n));
		__m512i h = _mm512_or_si512(_mm512_srli_epi64(l, 8), _mm512_slli_epi64(n, 4));
		_mm_storel_epi64((__m128i *)(low + i), _mm512_cvtepi64_epi8(l));
		_mm_storel_epi64((__m128i *)(high + i), _mm512_cvtepi64_epi8(h));
	}
	memcpy(c->low, low, sizeof low);
	memcpy(c->high, high, sizeof high);
}

/* The bytes of a table at 64 places: an instruction sees half of it, the top bit says which. */
ALWAYS_INLINE __m512i look_up(const __m512i table[4], __m512i x)
{
	__m512i a = _mm512_permutex2var_epi8(table[0], x, table[1]);
	__m512i b = _mm512_permutex2var_epi8(table[2], x, table[3]);
	return _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), a, b);
}

/*
 * The codes of 64 literals, joined four and four, in the order of the literals: bits[0] has the
 * first four and every second after it, bits[1] the others; n has the lengths of all sixteen.
 */
struct fours {
	uint64_t bits[2][8];
	uint32_t n[16];
};

/*
 * Literals are written last first: of two neighbours the later one has the lower bits, and the
 * earlier one is moved up by its length. First within 16 bits (early, late), then within 32 (two0,
 * two1: the pair in the lower and in the upper half).
 */
ALWAYS_INLINE void gather_fours(const struct codes *c, __m512i x, struct fours *f)
{
	const __m512i byte = _mm512_set1_epi16(0xFF), word = _mm512_set1_epi32(0xFFFF);
	const __m512i half = _mm512_set1_epi64(0xFFFFFFFF);
	__m512i low = look_up(c->low, x), high = look_up(c->high, x);
	__m512i early = _mm512_or_si512(_mm512_and_si512(low, byte),
		_mm512_slli_epi16(_mm512_and_si512(high, _mm512_set1_epi16(7)), 8));
	__m512i late = _mm512_or_si512(_mm512_srli_epi16(low, 8),
		_mm512_and_si512(high, _mm512_set1_epi16(0x700)));
	__m512i nlate = _mm512_srli_epi16(high, 12);
	__m512i n = _mm512_add_epi16(nlate,
		_mm512_and_si512(_mm512_srli_epi16(high, 4), _mm512_set1_epi16(15)));
	__m512i two0 = _mm512_or_si512(_mm512_and_si512(late, word),
		_mm512_sllv_epi32(_mm512_and_si512(early, word), _mm512_and_si512(nlate, word)));
	__m512i two1 = _mm512_or_si512(_mm512_srli_epi32(late, 16),
		_mm512_sllv_epi32(_mm512_srli_epi32(early, 16), _mm512_srli_epi32(nlate, 16)));
	__m512i n0 = _mm512_and_si512(n, word), n1 = _mm512_srli_epi32(n, 16);
	_mm512_storeu_si512(f->bits[0], _mm512_or_si512(_mm512_and_si512(two1, half),
		_mm512_sllv_epi64(_mm512_and_si512(two0, half), _mm512_and_si512(n1, half))));
	_mm512_storeu_si512(f->bits[1], _mm512_or_si512(_mm512_srli_epi64(two1, 32),
		_mm512_sllv_epi64(_mm512_srli_epi64(two0, 32), _mm512_srli_epi64(n1, 32))));
	_mm512_storeu_si512(f->n, _mm512_add_epi32(n0, n1));
}

#define AT_ONCE 64 /* literals a register */

static uint8_t *put_stream(const struct codes *c, const uint64_t code[256], struct view v,
			   struct span to)
{
	struct bits b = {.out = to.p};
	struct fours f;
	size_t n = v.n;
	if (to.n < CODES_SLACK)
		return NULL;
	const uint8_t *limit = to.p + to.n - CODES_SLACK;
	for (; n % AT_ONCE && b.out <= limit; n--) {
		put_code(&b, code[v.p[n - 1]]);
		bits_flush(&b);
	}
	for (; n && b.out <= limit; n -= AT_ONCE) {
		gather_fours(c, _mm512_loadu_si512(v.p + n - AT_ONCE), &f);
		for (int i = 15; i >= 0 && b.out <= limit; i--) {
			bits_add(&b, f.bits[i & 1][i / 2], f.n[i]);
			bits_flush(&b);
		}
	}
	return end_stream(&b, limit);
}

bool zstd_put_codes_avx512(const uint64_t code[256], struct view v, struct span to,
			   uint8_t *end[4])
{
	struct codes c;
	codes_init(&c, code);
	for (unsigned k = 0; k < 4; k++) {
		end[k] = put_stream(&c, code, part_of_four(v, k), to);
		if (!end[k])
			return false;
		to = span_of(end[k], (size_t)(to.p + to.n - end[k]));
	}
	return true;
}
