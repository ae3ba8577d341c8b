/*
 * Compares every kernel of every level of this machine with the C version.
 *
 *   kernels_check [seed]           compares; the first difference is printed and ends it
 *   kernels_check --bench [bytes]  times the same calls, in GB/s for each level
 *
 * The kernel's buffers end, then start, at an unmapped page, so that an access
 * one byte too far is a fault. CPU_MASK limits the levels.
 */
#include "codec/codecs/lz4_fast.h"
#include "codec/kernels/kernels.h"
#include "codec/zstd/codes.h"
#include "cpu_levels.h"
#include "fenced.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SPACE (1u << 20) /* mapped bytes of a fenced buffer */

/* One kernel, called in one way: n items of `size` bytes. */
typedef void call_fn(const struct kernels *, size_t size, size_t n, const uint8_t *, uint8_t *);

static void call_shuffle(const struct kernels *k, size_t size, size_t n, const uint8_t *s,
			 uint8_t *d)
{
	k->shuffle(size, n, s, d);
}

static void call_unshuffle(const struct kernels *k, size_t size, size_t n, const uint8_t *s,
			   uint8_t *d)
{
	k->unshuffle(size, n, s, d);
}

static void call_bitshuffle(const struct kernels *k, size_t size, size_t n, const uint8_t *s,
			    uint8_t *d)
{
	k->bitshuffle(size, n, s, d);
}

static void call_bitunshuffle(const struct kernels *k, size_t size, size_t n, const uint8_t *s,
			      uint8_t *d)
{
	k->bitunshuffle(size, n, s, d);
}

static void call_xor_scan(const struct kernels *k, size_t size, size_t n, const uint8_t *s,
			  uint8_t *d)
{
	k->xor_scan(size, n, s, d);
}

static void call_xor_bytes(const struct kernels *k, size_t size, size_t n, const uint8_t *s,
			   uint8_t *d)
{
	/* Neighbours, as in delta: the operands overlap, and there are only n - 1 bytes. */
	if (n)
		d[0] = s[0];
	if (n > 1)
		k->xor_bytes(n - 1, s + 1, s, d + 1);
}

static void call_sub_bytes(const struct kernels *k, size_t size, size_t n, const uint8_t *s,
			   uint8_t *d)
{
	k->sub_bytes(n, s, d);
}

static void call_sum_scan(const struct kernels *k, size_t size, size_t n, const uint8_t *s,
			  uint8_t *d)
{
	k->sum_scan(n, s, d);
}

/* Bytes at one of the two ends; now and then there is too little room, or just enough. */
static void call_put_codes(const struct kernels *k, size_t size, size_t n, const uint8_t *s,
			   uint8_t *d)
{
	uint64_t code[256];
	size_t literals = n % 3 ? n / 2 : n;
	size_t room = n % 5 ? n : n * 3 / 4; /* codes have six bits on average */
	uint8_t *end[4];
	if (literals >= 6) {
		for (uint32_t i = 0; i < 256; i++) {
			unsigned bits = i * 7 % 11 + 1;
			code[i] = code_of((i * 2654435761u) >> (32 - bits), bits);
		}
		struct view v = view_of(n % 2 ? s : s + n - literals, literals);
		if (k->put_codes(code, v, span_of(d, room), end)) {
			memset(end[3], 0, (size_t)(d + n - end[3]));
			for (unsigned i = 0; i < 4; i++)
				put_le16(d + n - 2 * (i + 1), (uint16_t)(end[i] - d));
			return;
		}
	}
	memset(d, 0, n);
}

/* At every level; half of the time there is too little room. */
static void call_put_lz4(const struct kernels *k, size_t size, size_t n, const uint8_t *s,
			 uint8_t *d)
{
	static struct lz4_table table;
	size_t room = n % 2 ? n : n / 4;
	ssize_t len = k->put_lz4(&table, (int)(n % 9) + 1, view_of(s, n), span_of(d, room));
	memset(d + len, (int)len, n - (size_t)len);
}

/* Of up to 32 Ki bytes, a few values of which are frequent. */
static void call_entropy(const struct kernels *k, size_t size, size_t n, const uint8_t *s,
			 uint8_t *d)
{
	uint32_t count[256] = {0};
	for (size_t i = 0; i < n; i++)
		count[s[i] & s[7 * i % n] & s[n - 1 - i]] += (uint32_t)(1 + n % 7);
	uint32_t bits = k->entropy(count);
	memset(d, 0, n);
	memcpy(d, &bits, n < sizeof bits ? n : sizeof bits);
}

enum sizes { ANY_SIZE, WORDS, BYTES, ALIKE /* bytes of two kinds */ };

static const struct subject {
	const char *name;
	call_fn *call;
	enum sizes sizes;
	unsigned unit; /* n is a multiple of this */
} subjects[] = {
	{"shuffle", call_shuffle, ANY_SIZE, 1},
	{"unshuffle", call_unshuffle, ANY_SIZE, 1},
	{"bitshuffle", call_bitshuffle, ANY_SIZE, 8},
	{"bitunshuffle", call_bitunshuffle, ANY_SIZE, 8},
	{"xor_scan", call_xor_scan, WORDS, 1},
	{"xor_bytes", call_xor_bytes, BYTES, 1},
	{"sub_bytes", call_sub_bytes, BYTES, 1},
	{"sum_scan", call_sum_scan, BYTES, 1},
	{"put_codes", call_put_codes, BYTES, 1},
	{"put_lz4", call_put_lz4, ALIKE, 1},
	{"entropy", call_entropy, BYTES, 1},
};
#define NSUBJECTS (sizeof subjects / sizeof subjects[0])

struct arena {
	uint8_t *src, *dst; /* fenced */
	uint8_t *data;      /* the input */
	uint8_t *want;      /* the result of the C version */
	uint64_t seed;
};

static uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

static bool size_fits(const struct subject *s, size_t size)
{
	if (s->sizes == WORDS)
		return size == 1 || size == 2 || size == 4 || size == 8;
	return s->sizes == ANY_SIZE || size == 1;
}

/* The same call at the end of the fenced space, or at its start. */
static void compare_at(struct arena *a, const struct subject *s, const char *level,
		       const struct kernels *k, const size_t shape[static 3])
{
	size_t size = shape[0], n = shape[1], at_end = shape[2], bytes = size * n;
	uint8_t *src = at_end ? a->src + SPACE - bytes : a->src;
	uint8_t *dst = at_end ? a->dst + SPACE - bytes : a->dst;
	memcpy(src, a->data, bytes);
	memset(dst, 0x5A, bytes);
	s->call(k, size, n, src, dst);
	if (!memcmp(dst, a->want, bytes))
		return;
	size_t bad = 0;
	while (dst[bad] == a->want[bad])
		bad++;
	printf("%s %s: size %zu n %zu at %s: byte %zu is %02x, not %02x\n", level, s->name, size, n,
	       at_end ? "end" : "start", bad, dst[bad], a->want[bad]);
	exit(1);
}

static void compare(struct arena *a, const struct subject *s, const char *level,
		    const struct kernels *k, const size_t shape[static 2])
{
	size_t size = shape[0], n = shape[1], bytes = size * n;
	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t word = next_random(&a->seed);
		if (s->sizes == ALIKE)
			word &= 0x0101010101010101;
		memcpy(a->data + i, &word, bytes - i < 8 ? bytes - i : 8);
	}
	memset(a->want, 0xA5, bytes);
	struct kernels c;
	kernels_init(&c, 0);
	s->call(&c, size, n, a->data, a->want);
	compare_at(a, s, level, k, (size_t[]){size, n, 1});
	compare_at(a, s, level, k, (size_t[]){size, n, 0});
}

static unsigned long compare_sizes(struct arena *a, const struct subject *s, const char *level,
				   const struct kernels *k)
{
	static const size_t more[] = {500,  511,  512,  513,  1000, 1023,
				      1024, 1031, 2048, 4095, 4096, 4099};
	unsigned long calls = 0;
	for (size_t size = 1; size <= 255; size = size == 32 ? 48 : size == 48 ? 255 : size + 1) {
		if (!size_fits(s, size))
			continue;
		for (size_t i = 0; i <= 300 + sizeof more / sizeof more[0]; i++) {
			size_t n = i <= 300 ? i : more[i - 301];
			n -= n % s->unit;
			if (n * size > SPACE)
				continue;
			compare(a, s, level, k, (size_t[]){size, n});
			calls += 2;
		}
	}
	return calls;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The best of many short runs: other work on the machine only ever slows one down. */
static double speed(struct arena *a, const struct subject *s, const struct kernels *k,
		    const size_t shape[static 2])
{
	size_t size = shape[0], n = shape[1] / size / s->unit * s->unit;
	double best = 1e9;
	for (int i = 0; i < 40; i++) {
		double start = now();
		s->call(k, size, n, a->src, a->dst);
		double took = now() - start;
		best = took < best ? took : best;
	}
	return (double)(n * size) / best / 1e9;
}

static void bench(struct arena *a, const struct subject *s, const char *level,
		  const struct kernels *k, size_t bytes)
{
	static const size_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32};
	printf("%-8s %-13s", level, s->name);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		if (size_fits(s, sizes[i]))
			printf("  %zu: %5.1f", sizes[i],
			       speed(a, s, k, (size_t[]){sizes[i], bytes}));
	printf("\n");
}

static void call_memcpy(const struct kernels *k, size_t size, size_t n, const uint8_t *s,
			uint8_t *d)
{
	memcpy(d, s, n);
}

int main(int argc, char **argv)
{
	bool timing = argc > 1 && !strcmp(argv[1], "--bench");
	size_t bytes = timing && argc > 2 ? strtoul(argv[2], NULL, 10) : 128 << 10;
	bool masked = getenv("CPU_MASK");
	unsigned have = cpu_features() & cpu_mask();
	unsigned long calls = 0;
	bool compared[CPU_LEVELS] = {false};
	struct arena a = {fenced(SPACE), fenced(SPACE), malloc(SPACE), malloc(SPACE),
			  0x9E3779B97F4A7C15u};
	if (!a.data || !a.want || bytes > SPACE)
		return 2;
	if (!timing && argc > 1)
		a.seed = strtoull(argv[1], NULL, 10) | 1;
	if (timing)
		bench(&a, &(struct subject){"memcpy", call_memcpy, BYTES, 1}, "libc", NULL, bytes);
	for (size_t i = 0; i < NSUBJECTS; i++) {
		struct kernels before = {0};
		for (size_t l = 0; l < CPU_LEVELS; l++) {
			const char *name = cpu_levels[l].name;
			unsigned level = cpu_levels[l].features;
			struct kernels k;
			if ((level & have) != level || (masked && !level))
				continue; /* a mask leaves out C, or it would meet itself */
			kernels_init(&k, level);
			if (!memcmp(&k, &before, sizeof k))
				continue; /* the level adds nothing */
			before = k;
			if (timing)
				bench(&a, &subjects[i], name, &k, bytes);
			else
				calls += compare_sizes(&a, &subjects[i], name, &k);
			compared[l] = true;
		}
	}
	if (!timing) {
		printf("%lu calls equal:", calls);
		for (size_t l = 0; l < CPU_LEVELS; l++)
			if (compared[l])
				printf(" %s", cpu_levels[l].name);
		printf("\n");
	}
	free(a.data);
	free(a.want);
	return 0;
}
