/*
 * The Huffman tree of literals (RFC 8878, 4.2.1): from counts to codes, and its description, which
 * has a weight for each symbol: the larger the weight, the shorter the code.
 */
#include "codec/zstd/codes.h"
#include "codec/zstd/format.h"
#include "codec/zstd/fse.h"
#include "codec/zstd/impl.h"

#define CODE_MAX ZSTD_CODE_MAX /* put_codes relies on this, too */

/* Weights are coded with a table of up to 64 cells; the result may be longer than allowed. */
#define WEIGHTS_LOG ZSTD_WEIGHTS_LOG
#define WEIGHTS_MAX (FSE_DESCRIPTION_MAX + 255 * WEIGHTS_LOG / 8 + 16)

/*
 * Symbols are sorted only by the five leading bits of their counts, taken from exponent and
 * mantissa of a float. Counts that differ by less than a sixteenth may end up in the wrong order;
 * that costs 0.004 % in size, and sorting takes one pass.
 */
#define RANK_SHIFT 19
#define RANKS (18 * 16) /* counts are below 2^18 */

static unsigned rank_of(uint32_t count)
{
	float real = (float)(int32_t)count;
	uint32_t bits;
	memcpy(&bits, &real, sizeof bits);
	return (bits >> RANK_SHIFT) - (127u << (23 - RANK_SHIFT));
}

/* Sorts the symbols that occur, rarest first; a key is the count above, the symbol below. */
static unsigned sort_symbols(const uint32_t count[static 256], uint32_t key[static 256])
{
	uint32_t unsorted[256];
	uint16_t begin[RANKS + 1] = {0};
	unsigned n = 0, sum = 0;
	for (unsigned s = 0; s < 256; s++) {
		unsorted[n] = count[s] << 8 | s;
		n += count[s] > 0;
	}
	for (unsigned i = 0; i < n; i++)
		begin[rank_of(unsorted[i] >> 8) + 1]++;
	for (unsigned i = 0; i <= RANKS; i++)
		begin[i] = (uint16_t)(sum += begin[i]);
	for (unsigned i = 0; i < n; i++)
		key[begin[rank_of(unsorted[i] >> 8)]++] = unsorted[i];
	return n;
}

/*
 * The depths of n sorted leaves in the Huffman tree, largest depth first. Inner nodes are created
 * in ascending order, too, so the two rarest are always at the front of one of two queues. up: the
 * parent of a leaf (from 0 on) or of an inner node (from 256 on).
 */
static void find_depths(const uint32_t *key, unsigned n, uint8_t *depth)
{
	uint32_t sum[256];
	uint16_t up[512];
	uint8_t deep[512];
	unsigned leaf = 0, node = 0;
	for (unsigned made = 0; made + 1 < n; made++) {
		sum[made] = 0;
		for (unsigned k = 0; k < 2; k++)
			if (leaf < n && (node >= made || key[leaf] >> 8 <= sum[node])) {
				sum[made] += key[leaf] >> 8;
				up[leaf++] = (uint16_t)(256 + made);
			} else {
				sum[made] += sum[node];
				up[256 + node++] = (uint16_t)(256 + made);
			}
	}
	deep[256 + n - 2] = 0;
	for (unsigned i = n - 2; i-- > 0;)
		deep[256 + i] = (uint8_t)(deep[up[256 + i]] + 1);
	for (unsigned i = 0; i < n; i++)
		depth[i] = (uint8_t)(deep[up[i]] + 1);
}

/*
 * Limits codes to CODE_MAX bits, leaving no code unused. In units of the longest code, of which
 * there are `full`, a code of depth d takes full >> d: if shortening has taken too many, the rarest
 * symbols pay; what is left then goes to the most frequent.
 */
static void limit_depths(uint8_t *depth, unsigned n)
{
	const uint32_t full = 1u << CODE_MAX;
	uint32_t used = 0;
	if (depth[0] <= CODE_MAX)
		return;
	for (unsigned i = 0; i < n; i++) {
		depth[i] = depth[i] < CODE_MAX ? depth[i] : CODE_MAX;
		used += full >> depth[i];
	}
	for (unsigned i = 0; used > full; i += depth[i] == CODE_MAX)
		if (depth[i] < CODE_MAX)
			used -= full >> ++depth[i];
	while (used < full)
		for (unsigned i = n; used < full && i-- > 0;)
			if (depth[i] > 1 && full >> depth[i] <= full - used)
				used += full >> depth[i]--;
}

/*
 * The four quarters of the alphabet are numbered in parallel: symbol 0, 64, 128, 192, then 1, 65,
 * and so on. Neighbours mostly have codes of the same length, so in order each would wait for the
 * store of that length's counter.
 */
#define QUARTERS 4
#define QUARTER (256 / QUARTERS)

/* Codes of the same length are consecutive, in order of their symbols; the longest start at 0. */
static void number_codes(struct zstd_tree *t, uint32_t number[QUARTERS][CODE_MAX + 1])
{
	uint32_t next[QUARTERS][CODE_MAX + 1] = {0}, code = 0;
	for (unsigned len = CODE_MAX; len > 0; len--) {
		for (unsigned k = 0; k < QUARTERS; k++) {
			next[k][len] = code;
			code += number[k][len];
		}
		code >>= 1;
	}
	for (unsigned s = 0; s < QUARTER; s++)
		for (unsigned k = 0; k < QUARTERS; k++) {
			unsigned len = t->len[k * QUARTER + s];
			t->code[k * QUARTER + s] = code_of(next[k][len]++, len);
		}
}

uint64_t zstd_build_tree(struct zstd_tree *t, const uint32_t count[static 256])
{
	uint32_t key[256], number[QUARTERS][CODE_MAX + 1] = {0};
	uint8_t depth[256] = {0};
	unsigned n = sort_symbols(count, key);
	find_depths(key, n, depth);
	limit_depths(depth, n);
	memset(t->len, 0, sizeof t->len);
	uint64_t bits = 0;
	t->n = 0;
	for (unsigned i = 0; i < n; i++) {
		unsigned symbol = key[i] & 255;
		t->len[symbol] = depth[i];
		bits += (uint64_t)depth[i] * (key[i] >> 8);
		t->n = symbol >= t->n ? symbol + 1 : t->n;
		number[symbol / QUARTER][depth[i]]++;
	}
	number_codes(t, number);
	return bits;
}

/*
 * Codes the weights, with two states in turn. Returns the length; 0: all weights are the same, for
 * which there is no table, or they take more than ZSTD_TREE_CODED_MAX bytes.
 */
static size_t put_weights(const uint8_t *weight, unsigned n, uint8_t out[static WEIGHTS_MAX])
{
	uint32_t count[CODE_MAX + 1], part[4][CODE_MAX + 1] = {0}; /* as in count.h */
	struct fse_shares shares = {.n = CODE_MAX + 1};
	struct fse_table table;
	for (unsigned i = 0; i < n; i++)
		part[i & 3][weight[i]]++;
	for (unsigned i = 0; i <= CODE_MAX; i++)
		count[i] = part[0][i] + part[1][i] + part[2][i] + part[3][i];
	for (unsigned i = 0; i <= CODE_MAX; i++)
		if (count[i] == n)
			return 0;
	fse_share(&shares, count, n, WEIGHTS_LOG);
	fse_build(&table, &shares);
	struct bits b = {.out = fse_put_description(out, &shares)};
	uint32_t state[2] = {0};
	for (unsigned i = n; i-- > 0;)
		if (i + 2 >= n) {
			state[i & 1] = fse_begin(&table, weight[i]);
		} else {
			state[i & 1] = fse_put(&b, &table, state[i & 1], weight[i]);
			bits_flush(&b);
		}
	fse_end(&b, &table, state[1]);
	fse_end(&b, &table, state[0]);
	size_t length = (size_t)(bits_end(&b) - out);
	return length <= ZSTD_TREE_CODED_MAX ? length : 0;
}

/* The most weights of half a byte each: what a byte can count above ZSTD_TREE_CODED_MAX. */
#define HALVES_MAX (UINT8_MAX - ZSTD_TREE_CODED_MAX)

/* Writes the weights of all symbols but the last, whose weight is implied. */
size_t zstd_put_tree(const struct zstd_tree *t, uint8_t out[static ZSTD_TREE_MAX])
{
	uint8_t weight[256] = {0}, coded[WEIGHTS_MAX];
	unsigned longest = 0, n = t->n - 1;
	for (unsigned s = 0; s < t->n; s++)
		longest = t->len[s] > longest ? t->len[s] : longest;
	for (unsigned s = 0; s < n; s++)
		weight[s] = t->len[s] ? (uint8_t)(longest + 1 - t->len[s]) : 0;
	size_t length = n > 2 ? put_weights(weight, n, coded) : 0;
	if (length && (n > HALVES_MAX || length <= (n + 1) / 2)) {
		out[0] = (uint8_t)length;
		memcpy(out + 1, coded, length);
		return 1 + length;
	}
	if (n > HALVES_MAX)
		return 0;
	out[0] = (uint8_t)(ZSTD_TREE_CODED_MAX + n);
	for (unsigned s = 0; s < n; s += 2)
		out[1 + s / 2] = (uint8_t)(weight[s] << 4 | weight[s + 1]);
	return 1 + (n + 1) / 2;
}
