/*
 * The sequences of a block (RFC 8878, 3.1.1.3.2): each of their three numbers as a code, for which
 * there is a table of finite state entropy, and extra bits as they are.
 */
#include "codec/zstd_fast_impl.h"
#include "codec/zstd_fse.h"

enum { LITERALS, OFFSET, MATCH, KINDS };
enum mode { PREDEFINED, ONE, OWN }; /* the format's own numbers */

/* 3.1.1.3.2.2 */
static const struct fse_shares predefined[KINDS] = {
	[LITERALS] = {6, 36, {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2,
			      2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1}},
	[OFFSET] = {5, 29, {1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1,
			    1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1}},
	[MATCH] = {6, 53, {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1,
			   1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
			   1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1}},
};

static const unsigned log_max[KINDS] = {9, 8, 9}; /* the format's limits */

/* Extra bits of a code, and codes of small numbers: 3.1.1.3.2.1. */
static const uint8_t literals_bits[36] = {
	[16] = 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
};
static const uint8_t match_bits[53] = {
	[32] = 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
};

static const uint8_t literals_code[64] = {
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
	16, 16, 17, 17, 18, 18, 19, 19, 20, 20, 20, 20, 21, 21, 21, 21,
	22, 22, 22, 22, 22, 22, 22, 22, 23, 23, 23, 23, 23, 23, 23, 23,
	24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24,
};

static const uint8_t match_code[128] = {
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
	16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
	32, 32, 33, 33, 34, 34, 35, 35, 36, 36, 36, 36, 37, 37, 37, 37,
	38, 38, 38, 38, 38, 38, 38, 38, 39, 39, 39, 39, 39, 39, 39, 39,
	40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40,
	41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41,
	42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42,
	42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42,
};

/* From there on each power of two has a code: that of 64 is 25, that of 128 is 43. */
static inline unsigned code_literals(uint32_t n)
{
	return n < 64 ? literals_code[n] : bit_top(n) + 19;
}

static inline unsigned code_match(uint32_t n)
{
	return n < 128 ? match_code[n] : bit_top(n) + 36;
}

static void count_codes(const struct zstd_sequence *seq, size_t n,
			uint32_t count[KINDS][FSE_SYMBOLS])
{
	memset(count, 0, KINDS * sizeof *count);
	for (size_t i = 0; i < n; i++) {
		count[LITERALS][code_literals(seq[i].literals)]++;
		count[OFFSET][bit_top(seq[i].offset)]++;
		count[MATCH][code_match(seq[i].match)]++;
	}
}

/*
 * A table of one's own costs its description and the time to build it: few sequences do without,
 * and codes that are about as frequent as each other. The limits are those of the library's fastest
 * strategy.
 */
static enum mode choose(const uint32_t *count, size_t n, unsigned log)
{
	uint32_t most = 0;
	for (unsigned i = 0; i < FSE_SYMBOLS; i++)
		most = count[i] > most ? count[i] : most;
	if (most == n && n > 2)
		return ONE;
	return most == n || n < (9u << log) / 8 || most < n >> (log - 1) ? PREDEFINED : OWN;
}

static uint8_t *put_own(struct fse_table *t, const uint32_t *count, size_t n, unsigned most,
			uint8_t *out)
{
	struct fse_shares shares = {.n = FSE_SYMBOLS};
	fse_share(&shares, count, (uint32_t)n, most);
	fse_build(t, &shares);
	return fse_put_description(out, &shares);
}

static uint8_t *put_one(struct fse_table *t, const uint32_t *count, uint8_t *out)
{
	unsigned symbol = 0;
	while (!count[symbol])
		symbol++;
	fse_build_one(t, symbol);
	*out = (uint8_t)symbol;
	return out + 1;
}

/* Bits that are put together by themselves, so that they do not wait for the states'. */
struct extra {
	uint64_t bits;
	unsigned n;
};

static inline void extra_add(struct extra *e, uint32_t value, unsigned n)
{
	e->bits |= (uint64_t)(value & ((1u << n) - 1)) << e->n;
	e->n += n;
}

/* Behind the bits of three states, which leave room for few others. */
static inline void put_extra(struct bits *b, const struct zstd_sequence *s, unsigned literals,
			     unsigned match)
{
	struct extra e = {0};
	extra_add(&e, s->literals, literals_bits[literals]);
	extra_add(&e, s->match, match_bits[match]);
	extra_add(&e, s->offset, bit_top(s->offset));
	if (__builtin_expect(b->n + e.n > 63, 0))
		bits_flush(b);
	bits_add(b, e.bits, e.n);
	bits_flush(b);
}

#define SEQUENCE_MAX 24 /* bytes that are written to for a sequence, and at the end */

static uint8_t *put_all(const struct fse_table t[KINDS], const struct zstd_sequence *seq, size_t n,
			struct span room)
{
	struct bits b = {.out = room.p};
	const uint8_t *limit = room.p + room.n - SEQUENCE_MAX;
	const struct zstd_sequence *s = &seq[n - 1];
	unsigned literals = code_literals(s->literals), match = code_match(s->match);
	uint32_t state[KINDS] = {
		[LITERALS] = fse_begin(&t[LITERALS], literals),
		[OFFSET] = fse_begin(&t[OFFSET], bit_top(s->offset)),
		[MATCH] = fse_begin(&t[MATCH], match),
	};
	put_extra(&b, s, literals, match);
	while (s-- > seq) {
		if (b.out > limit)
			return NULL;
		literals = code_literals(s->literals);
		match = code_match(s->match);
		state[OFFSET] = fse_put(&b, &t[OFFSET], state[OFFSET], bit_top(s->offset));
		state[MATCH] = fse_put(&b, &t[MATCH], state[MATCH], match);
		state[LITERALS] = fse_put(&b, &t[LITERALS], state[LITERALS], literals);
		put_extra(&b, s, literals, match);
	}
	if (b.out > limit)
		return NULL;
	fse_end(&b, &t[MATCH], state[MATCH]);
	fse_end(&b, &t[OFFSET], state[OFFSET]);
	fse_end(&b, &t[LITERALS], state[LITERALS]);
	return bits_end(&b);
}

/* How many there are: fewer than 0x7F00, since a block has no more, in one or two bytes. */
static uint8_t *put_number(uint8_t *out, size_t n)
{
	if (n >= 128)
		*out++ = (uint8_t)(128 + (n >> 8));
	*out++ = (uint8_t)n;
	return out;
}

/* The tables of n > 0 sequences as built, and what tells of them; *last: its last description. */
static uint8_t *put_tables(struct fse_table table[KINDS], const struct zstd_sequence *seq, size_t n,
			   uint8_t *out, uint8_t **last)
{
	uint32_t count[KINDS][FSE_SYMBOLS];
	uint8_t *modes = out++;
	*modes = 0;
	count_codes(seq, n, count);
	for (unsigned k = 0; k < KINDS; k++) {
		enum mode mode = choose(count[k], n, predefined[k].log);
		*modes |= (uint8_t)(mode << (6 - 2 * k));
		if (mode == PREDEFINED) {
			fse_build(&table[k], &predefined[k]);
		} else if (mode == ONE) {
			out = put_one(&table[k], count[k], out);
		} else {
			*last = out;
			out = put_own(&table[k], count[k], n, log_max[k], out);
		}
	}
	return out;
}

#define HEAD_MAX (2 + 1 + KINDS * FSE_DESCRIPTION_MAX) /* number, modes, tables */
#define LAST_MIN 4 /* bytes from the last description on; readers before 1.3.5 refuse fewer */

uint8_t *zstd_put_sequences(const struct zstd_sequence *seq, size_t n, uint8_t *out, uint8_t *end)
{
	struct fse_table table[KINDS];
	uint8_t head[HEAD_MAX], *last = NULL, *at = put_number(head, n);
	if (n)
		at = put_tables(table, seq, n, at, &last);
	size_t length = (size_t)(at - head);
	size_t from_last = last ? (size_t)(at - last) : LAST_MIN;
	if ((size_t)(end - out) < length + (n ? SEQUENCE_MAX : 0))
		return NULL;
	memcpy(out, head, length);
	out += length;
	if (!n)
		return out;
	const uint8_t *first = out;
	out = put_all(table, seq, n, span_of(out, (size_t)(end - out)));
	return out && from_last + (size_t)(out - first) < LAST_MIN ? NULL : out;
}
