/*
 * What zstd_fast encodes, the library must decode.
 *
 *   zstd_check SECONDS SEED
 *
 * tries lengths near limits with each kind of bytes, then random mixtures of them, with random cuts
 * and too little room. Source and result are in allocations of exactly their size. The kernels in C
 * and the best ones must give the same bytes, whatever was encoded before. Built with clang as
 * zstd_fuzz, it gets its input from libFuzzer.
 */
#include "codec/kernels/cpu.h"
#include "codec/zstd/count.h"
#include "codec/zstd/fast.h"
#include "exact.h"
#include "zstd_kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <zstd.h>

#define STREAM_MAX (300u << 10)

static void fail(const char *what, size_t n, uint64_t seed)
{
	fprintf(stderr, "%s: a stream of %zu bytes, seed %llu\n", what, n,
		(unsigned long long)seed);
	abort();
}

/*
 * Which forms of literals, and of tables for lengths of literals, offsets and lengths of matches,
 * have been written, by their numbers in the format. A form that never occurs would not be tested.
 */
#define ROUNDS_FOR_FORMS 1000 /* sometimes one is missing after the sweep, never after ten */
enum { LITERAL_FORMS, TABLE_FORMS, ALL_FORMS = TABLE_FORMS + ZSTD_KINDS };
static unsigned long seen[ALL_FORMS][4];

static size_t literals_length(const uint8_t *p)
{
	uint64_t h = get_le64(p);
	unsigned form = p[0] & 3, size = p[0] >> 2 & 3;
	static const unsigned wide[4] = {3, 3, 4, 5}, bits[4] = {10, 10, 14, 18};
	seen[LITERAL_FORMS][form]++;
	if (form >= ZSTD_LITERALS_COMPRESSED)
		return wide[size] + (h >> (4 + bits[size]) & ((1u << bits[size]) - 1));
	size_t head = size == 1 ? 2 : size == 3 ? 3 : 1;
	size_t n = (h & ((1u << 8 * head) - 1)) >> (head == 1 ? 3 : 4);
	return head + (form == ZSTD_LITERALS_RLE ? 1 : n);
}

/* Of a frame that the library has decoded; eight bytes after it can be read. */
static void note_forms(const uint8_t *p)
{
	static const unsigned wide[4] = {1, 2, 4, 8};
	uint32_t block;
	p += 5 + wide[p[4] >> ZSTD_SIZE_SHIFT];
	do {
		block = (uint32_t)get_le64(p) & 0xFFFFFF;
		p += ZSTD_BLOCK_HEADER;
		if ((block >> 1 & 3) == ZSTD_BLOCK_COMPRESSED) {
			const uint8_t *s = p + literals_length(p);
			unsigned n = *s++;
			s += n >= 128;
			for (unsigned k = 0; n && k < ZSTD_KINDS; k++)
				seen[TABLE_FORMS + k][*s >> (6 - 2 * k) & 3]++;
		}
		p += block >> 3;
	} while (!(block & 1));
}

/* Of the kernels in C, and of the best ones. */
static struct zstd_work *works[2];
static struct kernels kernels[2];

static uint64_t round_seed;
static unsigned long coded;

static int level;

/* The payload is encoded in room of exactly its size, and decoded again. */
static size_t encode(int i, struct view src, const struct cuts *cuts, struct span dst)
{
	uint8_t *back = exact(src.n);
	ssize_t n = kernels[i].put_zstd(works[i], level, src, cuts, dst);
	if (n < 0 || (size_t)n > dst.n)
		fail("length", src.n, round_seed);
	if (n) {
		coded++;
		if (ZSTD_decompress(back, src.n, dst.p, (size_t)n) != src.n ||
		    memcmp(back, src.p, src.n))
			fail("not the same", src.n, round_seed);
		if (ZSTD_getFrameContentSize(dst.p, (size_t)n) != src.n)
			fail("content size", src.n, round_seed);
		uint8_t *frame = exact((size_t)n + 8);
		memcpy(frame, dst.p, (size_t)n);
		note_forms(frame);
		free(frame);
	}
	free(back);
	return (size_t)n;
}

static void try_level(const uint8_t *bytes, size_t n, const struct cuts *cuts)
{
	size_t room = below(2) ? n + n / 100 + 100 : n;
	uint8_t *src = exact_copy(bytes, n), *dst[2] = {exact(room), exact(room)};
	size_t len[2];
	for (int i = 0; i < 2; i++)
		len[i] = encode(i, view_of(src, n), cuts, span_of(dst[i], room));
	if (len[0] != len[1] || memcmp(dst[0], dst[1], len[0]))
		fail("depends on the kernels or the past", n, round_seed);
	struct view v = view_of(src, n);
	if (n <= ZSTD_NEAR_MAX && kernels[0].estimate_zstd(works[0], v, cuts) !=
					  kernels[1].estimate_zstd(works[1], v, cuts))
		fail("estimate depends on the kernels or the past", n, round_seed);
	if (n > 1000 && room > n + n / 100 && !len[0])
		fail("no room, where plain blocks have it", n, round_seed);
	size_t less = len[0] ? len[0] - below(len[0] < 40 ? len[0] : 40) : below(n + 1);
	uint8_t *small = exact(less);
	encode(0, view_of(src, n), cuts, span_of(small, less));
	free(small);
	free(src);
	free(dst[0]);
	free(dst[1]);
}

static void try_cut(const uint8_t *bytes, size_t n, const struct cuts *cuts)
{
	for (level = 1; level <= 2; level++)
		try_level(bytes, n, cuts);
}

static void try_stream(const uint8_t *bytes, size_t n)
{
	struct cuts cuts = random_cuts(n);
	try_cut(bytes, n, &cuts);
}

/* Similar pieces: the second one can use the tables of the first. */
static void alike(uint8_t *bytes)
{
	static const enum kind kinds[] = {SKEWED, WORDS, STEEP, COPY};
	const size_t half = 24000;
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		fill(bytes, 0, half, kinds[i]);
		fill(bytes, half, half, kinds[i]);
		try_cut(bytes, 2 * half, &(struct cuts){.parts = 2, .n = 2, .end = {1, 2}});
	}
}

/*
 * A piece, then its parts again, each followed by the same byte, which is the only literal of the
 * second piece. As the search leaps, it misses a part now and then; nothing else makes such
 * literals.
 */
#define MARKED_TRIES 20
static void marked(uint8_t *bytes)
{
	const size_t half = 8000, part = 159;
	for (size_t i = 0; i < half; i++)
		bytes[i] = (uint8_t)below(100);
	for (size_t i = 0; i < half / (part + 1); i++) {
		uint8_t *to = bytes + half + i * (part + 1);
		memcpy(to, bytes + i * part, part);
		to[part] = 255;
	}
	try_cut(bytes, 2 * half, &(struct cuts){.parts = 2, .n = 2, .end = {1, 2}});
}

/* Numbers of literals, and lengths of matches, that do not fit 16 bits. */
static void huge(uint8_t *bytes)
{
	const size_t noise = 70000, all = 96 << 10;
	fill(bytes, 0, noise, FLAT);
	memcpy(bytes + noise, bytes + 10000, all - noise);
	try_cut(bytes, all, &(struct cuts){.parts = 1});
	fill(bytes, 0, 1000, FLAT);
	for (size_t i = 1000; i < all; i++)
		bytes[i] = bytes[i - 1000];
	try_cut(bytes, all, &(struct cuts){.parts = 1});
}

/* The half of the bytes that is counted (zstd/count.h) is unlike the other half. */
static void unlike(uint8_t *bytes)
{
	const size_t n = 64000;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t pair = i / (2 * COUNT_RUN), later = pair * 2654435761u >> 31;
		bool counted = (i / COUNT_RUN & 1) == later;
		bytes[i] = (uint8_t)below(counted && below(40) ? 32 : 256);
	}
	try_cut(bytes, n, &(struct cuts){.parts = 1});
}

static bool all_forms_seen(void)
{
	for (unsigned i = 0; i < ALL_FORMS; i++)
		for (unsigned form = 0; form < 4; form++)
			if (!seen[i][form])
				return false;
	return true;
}

static void open_works(void)
{
	for (int i = 0; i < 2; i++) {
		kernels_init(&kernels[i], i ? cpu_features() : 0);
		works[i] = exact(sizeof *works[i]);
		memset(works[i], i ? 0xFF : 0, sizeof *works[i]);
		works[i]->put_codes = kernels[i].put_codes;
		works[i]->built = 0;
	}
}

#ifdef FUZZ_TARGET

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	if (!works[0])
		open_works();
	seed_by(p, n);
	if (n)
		try_stream(p, n);
	return 0;
}

#else

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	uint8_t *bytes = exact(STREAM_MAX);
	time_t end = time(NULL) + atoi(argv[1]);
	open_works();
	round_seed = strtoull(argv[2], NULL, 10) | 1;
	state = round_seed;
	sweep(bytes, try_stream);
	alike(bytes);
	for (int i = 0; i < MARKED_TRIES && !seen[LITERAL_FORMS][ZSTD_LITERALS_RLE]; i++)
		marked(bytes);
	huge(bytes);
	unlike(bytes);
	unsigned long rounds = 0;
	do {
		round_seed = round_seed * 6364136223846793005u + 1442695040888963407u;
		state = round_seed | 1;
		size_t n = random_length(STREAM_MAX);
		mixture(bytes, n);
		try_stream(bytes, n);
		rounds++;
	} while (time(NULL) < end || (!all_forms_seen() && rounds < ROUNDS_FOR_FORMS));
	if (!all_forms_seen())
		fail("a form never occurs", 0, round_seed);
	printf("%lu rounds, %lu frames read back\n", rounds, coded);
	free(works[0]);
	free(works[1]);
	free(bytes);
	return 0;
}

#endif
