/*
 * Compares loops that are the same on all machines with what FORMAT.md says of each byte: truncated
 * floats and integers with every parameter, the search for runs of one byte, copies (bytes_copy has
 * several ways), and long matches that overlap themselves. Sources and results end, or start, at a
 * page that is not mapped; all lengths up to 300 are tried, and some near those of blocks. Prints
 * the first difference, or how many calls were right.
 */
#include "codec/codec.h"
#include "codec/filter.h"
#include "codec/kernels/cpu.h"
#include "codec/stream.h"
#include "fenced.h"
#include "random.h"

#include <stdio.h>
#include <stdlib.h>

#define SPACE (1u << 18)

static uint8_t *src, *dst; /* fenced */
static unsigned long calls;

static uint8_t *place(uint8_t *area, size_t n, bool at_end)
{
	return at_end ? area + SPACE - n : area;
}

/* 0 to 300, then lengths near those of blocks, then 0 again: there are no more. */
static size_t length_at(size_t i)
{
	static const size_t around[] = {4096, 16384, 65536};
	if (i <= 300)
		return i;
	i -= 301;
	return i < 15 ? around[i / 5] + i % 5 - 2 : 0;
}

static unsigned zeroed(const struct filter *f, uint8_t param, uint32_t size)
{
	int m = (int8_t)param, all = 8 * (int)size;
	if (f->id == FILTER_TRUNCPREC)
		all = size == 4 ? 23 : 52;
	return (unsigned)(m >= 0 ? all - m : -m);
}

/* The low bits of each whole word are cleared, and nothing else. */
static uint8_t truncated(uint8_t byte, size_t i, uint32_t size, unsigned bits)
{
	size_t below = 8 * (i % size);
	unsigned lost = bits <= below ? 0 : bits - below < 8 ? (unsigned)(bits - below) : 8;
	return (uint8_t)(byte >> lost << lost);
}

static void check_one(const struct filter *f, uint8_t param, uint32_t size, size_t n)
{
	struct filter_arg arg = {.typesize = size, .param = param};
	struct kernels k;
	kernels_init(&k, 0);
	for (int at_end = 0; at_end < 2; at_end++, calls++) {
		uint8_t *in = place(src, n, at_end), *out = place(dst, n, at_end);
		for (size_t i = 0; i < n; i++)
			in[i] = (uint8_t)next_random();
		filter_run(f->forward, &k, &arg, view_of(in, n), out);
		for (size_t i = 0; i < n; i++) {
			uint8_t want = in[i];
			if (i < n - n % size)
				want = truncated(in[i], i, size, zeroed(f, param, size));
			if (out[i] == want)
				continue;
			printf("%s:%d, items of %u, %zu bytes: byte %zu is %02x, not %02x\n",
			       f->name, (int8_t)param, size, n, i, out[i], want);
			exit(1);
		}
	}
}

static void check_truncation(const struct filter *f)
{
	unsigned params = 0;
	for (uint32_t size = 1; size <= 8; size++)
		for (int param = 0; param < 256; param++) {
			if (f->check((uint8_t)param, size))
				continue;
			params++;
			for (size_t i = 0; !i || length_at(i); i++)
				if (i <= 300 || param % 8 == 1)
					check_one(f, (uint8_t)param, size, length_at(i));
		}
	if (params < 70) {
		printf("%s: only %u parameters\n", f->name, params);
		exit(1);
	}
}

static ssize_t nothing_fits(void *of_codec, int level, struct view v, struct span room)
{
	return 0;
}

/* The byte `at` differs, or none if that is n. */
static void check_run(size_t n, size_t at, uint8_t value, bool at_end)
{
	static const struct codec none = {.encode = nothing_fits};
	const struct stream_coder coder = {.codec = &none, .level = 1};
	uint8_t *in = place(src, n, at_end), *out = place(dst, STREAM_CSIZE + n, at_end);
	bool run = at == n || n == 1;
	memset(in, value, n);
	if (at < n)
		in[at] = (uint8_t)(value ^ 1 << at % 8);
	ssize_t want = run ? STREAM_CSIZE + (in[0] != 0) : STREAM_CSIZE + (ssize_t)n;
	ssize_t len = stream_encode(&coder, view_of(in, n), span_of(out, STREAM_CSIZE + n));
	int32_t csize = run ? -in[0] : (int32_t)n;
	bool same = run || !memcmp(out + STREAM_CSIZE, in, n);
	calls++;
	if (len == want && (int32_t)get_le32(out) == csize && same)
		return;
	printf("a run of %zu times %02x, but byte %zu: %zd bytes, csize %d\n", n, value, at, len,
	       (int32_t)get_le32(out));
	exit(1);
}

static void check_runs(void)
{
	static const uint8_t value[] = {0, 1, 128, 255};
	for (size_t i = 1; length_at(i); i++) {
		size_t n = length_at(i), step = n <= 300 ? 1 : n / 50;
		for (size_t at = 0; at <= n + step; at += step)
			for (size_t v = 0; v < sizeof value; v++)
				check_run(n, at < n ? at : n, value[v], next_random() % 2);
		check_run(n, n - 1, 0, true);
		check_run(n, n / 2, 0, false);
	}
}

/* dst begins `behind` bytes after src, modulo pages; nothing around the copy changes. */
static void check_copy(size_t n, size_t behind, bool at_end)
{
	uint8_t *in = place(src, n + 100, at_end), *out = place(dst, n + 100, at_end) + behind;
	for (size_t i = 0; i < n; i++)
		in[i] = (uint8_t)next_random();
	memset(dst, 0x5A, SPACE);
	bytes_copy(out, in, n);
	calls++;
	bool good = !memcmp(out, in, n) && (out == dst || out[-1] == 0x5A);
	for (uint8_t *p = out + n; good && p < dst + SPACE; p++)
		good = *p == 0x5A;
	if (good)
		return;
	printf("a copy of %zu bytes, %zu behind\n", n, behind);
	exit(1);
}

static void check_copies(void)
{
	static const size_t length[] = {0,    1,    1023, 1024, 1025, 2047,  2048,
					2049, 3072, 4095, 4096, 4097, 10000, 65536, 69632};
	for (size_t i = 0; i < sizeof length / sizeof length[0]; i++)
		for (size_t behind = 0; behind <= 100; behind++)
			check_copy(length[i], behind, next_random() % 2);
}

/* Encodes and decodes n bytes that repeat the `dist` bytes before them, with others around them. */
static void check_match(const struct codec *codec, void *codec_state, size_t n, size_t dist)
{
	size_t len = 40 + dist + n + 40;
	uint8_t coded[4096], *in = place(src, len, true), *out = place(dst, len, true);
	for (size_t i = 0; i < len; i++)
		in[i] = (uint8_t)next_random();
	for (size_t i = 40 + dist; i < 40 + dist + n; i++)
		in[i] = in[i - dist];
	if (next_random() % 2) /* to the very end of what is decoded */
		len -= 35, in += 35, out += 35;
	ssize_t got = codec->encode(codec_state, 5, view_of(in, len), span_of(coded, sizeof coded));
	memset(dst, 0x5A, SPACE);
	bool good = got == 0 || codec->decode(codec_state, view_of(coded, (size_t)got),
					      span_of(out, len), NULL) == 0;
	calls++;
	if (good && (!got || !memcmp(in, out, len)) && out[-1] == 0x5A)
		return;
	printf("%s: a match of %zu bytes, %zu back: %zd\n", codec->name, n, dist, got);
	exit(1);
}

static void check_matches(uint8_t id)
{
	static const size_t length[] = {200, 255, 256, 257, 271, 300, 1000, 8191, 20000, 40001};
	const struct codec *codec = codec_by_id(id);
	struct kernels k;
	void *codec_state;
	kernels_init(&k, cpu_features());
	if (codec->state_new(&codec_state, &k) < 0)
		exit(1);
	for (size_t i = 0; i < sizeof length / sizeof length[0]; i++)
		for (size_t dist = 1; dist <= 300; dist += dist < 80 ? 1 : 37)
			check_match(codec, codec_state, length[i], dist);
	codec->state_free(codec_state);
}

int main(int argc, char **argv)
{
	state = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1) | 1;
	src = fenced(SPACE);
	dst = fenced(SPACE);
	check_truncation(filter_by_id(FILTER_TRUNCPREC));
	check_truncation(filter_by_id(FILTER_INTTRUNC));
	check_runs();
	check_copies();
	check_matches(CODEC_LZ4);
	check_matches(CODEC_BLOSCLZ);
	printf("%lu calls right\n", calls);
	return 0;
}
