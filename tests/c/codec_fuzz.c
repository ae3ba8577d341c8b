/*
 * Hostile bytes: chunk_parse and chunk_decode, or one of our own codecs' decoders, must return
 * bytes or an error, and touch nothing else; chunk_patch must change just the blocks that it is
 * asked to. What one of our encoders makes of any bytes must be decoded to them by our decoder and
 * by the library's. Meant for a build with sanitizers: all bytes are passed in allocations of
 * exactly their size.
 *
 *   codec_fuzz chunk|blosclz|lz4|lz4hc|zstd|unzstd SECONDS SEED FILE...
 *
 * tries the files as they are, then changes their bytes at random; the seed of each round is
 * printed when a signal ends the program. Built with clang as codec_fuzz_chunk, codec_fuzz_blosclz
 * and so on, libFuzzer drives the same functions; with -Dc_args=-fsanitize=fuzzer-no-link it sees
 * the branches of the codec.
 */
#include "codec/block_sums.h"
#include "codec/chunk.h"
#include "codec/codec.h"
#include "codec/kernels/cpu.h"
#include "codec/kernels/kernels.h"
#include "codec/zstd/fast.h"
#include "exact_chunk.h"
#include "fuzz_loop.h"

#include <lz4.h>
#include <zstd.h>

#define LZ4_FORMAT 1
#define DECODE_MAX (8u << 20)

/* Numbers next to some limit. */
static uint32_t awkward(uint32_t size)
{
	static const uint32_t n[] = {0,          1,          2,          16,         31,
				     32,         33,         255,        256,        0x7FFFFFFF,
				     0x80000000, 0xFFFFFFFF, 0xFFFFFF01, 0xFFFFFF00, 536866816,
				     536866817,  2147483615, 2147483616};
	uint32_t pick = (uint32_t)(next_random() % (sizeof n / sizeof n[0] + 3));
	return pick < sizeof n / sizeof n[0] ? n[pick] : size + (uint32_t)(next_random() % 9) - 4;
}

static void mutate(uint8_t *p, size_t n)
{
	for (uint64_t i = next_random() % 6 + 1; i; i--) {
		/* Half of all changes hit the header and the first offsets. */
		size_t reach = next_random() % 2 && n > 64 ? 64 : n;
		size_t at = next_random() % reach;
		switch (next_random() % 4) {
		case 0: p[at] = (uint8_t)next_random(); break;
		case 1: p[at] ^= (uint8_t)(1 << next_random() % 8); break;
		case 2: p[at] = (uint8_t)(p[at] + next_random() % 5 - 2); break;
		default:
			at &= ~(size_t)3;
			if (at + 4 <= n)
				put_le32(p + at, awkward((uint32_t)n));
		}
	}
}

/* Seals a chunk's table of block checksums, if it has one, so that changes before it are tried. */
static void seal(uint8_t *p, size_t n)
{
	if (n < CHUNK_HEAD + 4)
		return;
	uint32_t nbytes = get_le32(p + 4), blocksize = get_le32(p + 8), first = get_le32(p + 32);
	uint64_t nblocks = blocksize ? ceil_div(nbytes, blocksize) : 0;
	size_t len = nblocks <= n ? block_sums_len((uint32_t)nblocks) : 0;
	if (len && first <= n && first >= CHUNK_HEAD + 4 * nblocks + len)
		block_sums_seal(p, first - len, (uint32_t)nblocks);
}

static int fetch(const struct chunk *c, struct scratch *s, struct view v, struct run run)
{
	struct extent e = chunk_extent(c, run);
	uint32_t n = chunk_run_bytes(c, run);
	if ((uint64_t)e.off + e.len > v.n)
		abort();
	uint8_t *stored = exact_copy(v.p + e.off, e.len), *dst = exact(n);
	int rc = chunk_decode_checked(c, s, run, view_of(stored, e.len), span_of(dst, n));
	rc |= chunk_decode(c, s, run, view_of(stored, e.len), span_of(dst, n));
	free(stored);
	free(dst);
	return rc;
}

/*
 * Decodes a part of a block, which must equal those bytes of the whole block. The checksum is made
 * right, so that the decoders see what was changed.
 */
static void try_part(struct chunk *c, struct scratch *s, struct view v, uint32_t i)
{
	struct run one = {i, 1};
	struct extent e = chunk_extent(c, one);
	uint32_t n = chunk_run_bytes(c, one);
	if (!c->sums)
		c->sums = calloc(c->nblocks, sizeof *c->sums);
	if (!n || !c->sums || !chunk_has_parts(c, s))
		return;
	uint32_t lo = (uint32_t)(next_random() % n), len = 1 + (uint32_t)(next_random() % (n - lo));
	uint8_t *stored = exact_copy(v.p + e.off, e.len), *whole = exact(n), *dst = exact(len);
	struct view bytes = view_of(stored, e.len);
	c->sums[i] = block_sums_of(bytes);
	int rc = chunk_decode_part(c, s, (struct chunk_part){i, lo}, bytes, span_of(dst, len));
	if (!chunk_decode(c, s, one, bytes, span_of(whole, n)) &&
	    (rc < 0 || (rc == 0 && memcmp(dst, whole + lo, len))))
		abort();
	free(stored);
	free(whole);
	free(dst);
}

/* The decoded bytes of a block, or NULL if it is damaged. */
static uint8_t *decode_one(const struct chunk *c, struct scratch *s, struct view v, uint32_t i)
{
	struct run one = {i, 1};
	struct extent e = chunk_extent(c, one);
	uint32_t n = chunk_run_bytes(c, one);
	uint8_t *dst = exact(n);
	if (chunk_decode(c, s, one, view_part(v, e.off, e.len), span_of(dst, n)) == 0)
		return dst;
	free(dst);
	return NULL;
}

/* The patched chunk has the new bytes; block k, which was not patched, has its old ones. */
static void check_patched(const struct chunk_patch *p, struct scratch *s, const struct buf *out,
			  uint32_t item, uint32_t k)
{
	struct chunk c = {0};
	struct run run = p->edit->run;
	if (exact_parse(&c, buf_view(out), item, 0) || c.nbytes != p->nbytes ||
	    c.cbytes != out->n || exact_load_ref(&c, s, buf_view(out)))
		abort();
	uint8_t *new = exact(p->edit->bytes.n);
	struct extent e = chunk_extent(&c, run);
	if (chunk_decode_checked(&c, s, run, view_of(out->p + e.off, e.len),
				 span_of(new, p->edit->bytes.n)) ||
	    memcmp(new, p->edit->bytes.p, p->edit->bytes.n))
		abort();
	free(new);
	if (k < run.first || k >= run.first + run.n) {
		uint8_t *before = decode_one(p->chunk, s, p->stored, k);
		uint8_t *now = decode_one(&c, s, buf_view(out), k);
		if (!before != !now || (now && memcmp(before, now, chunk_block_bytes(&c, k).len)))
			abort();
		free(before);
		free(now);
	}
	chunk_deinit(&c);
}

/*
 * Gives the new end of a chunk the bytes that its last block had. False if that block is damaged,
 * or the one that all others depend on.
 */
static bool keep_end(const struct chunk *c, struct scratch *s, struct view v, uint8_t *new)
{
	uint32_t last = c->nblocks - 1;
	if (chunk_wants_ref(c) && !c->ref.n)
		return false;
	uint8_t *old = decode_one(c, s, v, last);
	if (old)
		memcpy(new, old, chunk_block_bytes(c, last).len);
	free(old);
	return old;
}

/* New bytes from block `first` on: a few blocks of them, or so many that the chunk gets longer. */
static void try_patch(const struct chunk *c, struct scratch *s, struct view v, uint32_t item,
		      uint32_t first)
{
	struct pipeline p;
	struct buf out = {0};
	struct chunk longer = *c;
	bool grow = next_random() % 4 == 0 && !c->is_vl && c->blocksize < DECODE_MAX / 8;
	pipeline_default(&p);
	p.codec = c->codec;
	p.level = (uint8_t)(next_random() % 4);
	uint32_t some = (uint32_t)min_u64(c->nblocks - first, 1 + next_random() % 3);
	struct chunk_edit edit = {.run = {first, some}};
	if (grow) {
		first = c->nblocks == 1 ? 0 : c->nbytes / c->blocksize;
		uint32_t most = next_random() % 2 ? 64 : 3 * c->blocksize;
		longer = chunk_longer(c, c->nbytes + 1 + (uint32_t)(next_random() % most));
		edit.run = (struct run){first, longer.nblocks - first};
	}
	uint32_t n = chunk_run_bytes(&longer, edit.run), few = 1 + (uint32_t)(next_random() % 255);
	uint8_t *new = exact(n), *stored = exact_copy(v.p, c->cbytes);
	for (uint32_t i = 0; i < n; i++)
		new[i] = (uint8_t)(next_random() % few);
	edit.bytes = view_of(new, n);
	struct chunk_patch patch = {c, view_of(stored, c->cbytes), &p, &edit, 1, longer.nbytes,
				    false};
	if (grow && first + 1 == c->nblocks && next_random() % 2)
		patch.kept = keep_end(c, s, v, new);
	if (chunk_patch(s, &patch, &out) == 0)
		check_patched(&patch, s, &out, item, (uint32_t)(next_random() % c->nblocks));
	buf_free(&out);
	free(new);
	free(stored);
}

/* True if everything could be decoded. */
static bool try_chunk(struct scratch *s, struct view v)
{
	struct chunk c = {0};
	uint32_t item = next_random() % 3 ? 8 : 0;
	size_t have = (size_t)min_u64(next_random() % 48, v.n);
	int rc = exact_parse(&c, v, item, have);
	if (!rc && chunk_footprint(&c) > (200u << 10) + 20 * v.n)
		abort();
	if (!rc && c.nbytes <= DECODE_MAX && c.nblocks) {
		uint32_t i = (uint32_t)(next_random() % c.nblocks);
		rc = fetch(&c, s, v, (struct run){0, c.nblocks});
		if (exact_load_ref(&c, s, v) < 0)
			rc = -1;
		else
			rc |= fetch(&c, s, v, (struct run){i, 1});
		try_patch(&c, s, v, item, i);
		if (!c.has_dict)
			try_part(&c, s, v, i);
	}
	chunk_deinit(&c);
	return rc == 0;
}

/* The front of a stream, decoded by itself, equals that of `whole` (NULL: it is damaged). */
static void try_front(const struct codec *codec, void *with, struct view src, const uint8_t *whole,
		      size_t n)
{
	size_t front = 1 + next_random() % n;
	if (!codec->decode_front)
		return;
	uint8_t *dst = exact(n);
	bool done = codec->decode_front(with, src, span_of(dst, n), front);
	if (whole && (!done || memcmp(dst, whole, front)))
		abort();
	free(dst);
}

/* Two bytes of length, then a payload to be decoded; in any case it is also encoded, as bytes. */
static bool try_codec(const char *name, struct view v)
{
	static void *states[CODEC_IDS];
	const struct codec *codec = codec_by_name(view_of(name, strlen(name)));
	void **state_of = &states[codec->id];
	if (v.n < 3)
		return false;
	if (!*state_of) {
		struct kernels k;
		kernels_init(&k, cpu_features());
		if (codec->state_new(state_of, &k) < 0)
			abort();
	}
	void *codec_state = *state_of;
	size_t n = (size_t)get_le16(v.p) + 1;
	uint8_t *in = exact_copy(v.p + 2, v.n - 2), *dst = malloc(n), *back = malloc(v.n);
	uint8_t *small = malloc(v.n);
	if (!dst || !back || !small)
		abort();
	int rc = codec->decode(codec_state, view_of(in, v.n - 2), span_of(dst, n), NULL);
	try_front(codec, codec_state, view_of(in, v.n - 2), rc ? NULL : dst, n);
	/* Usually enough room, so that there is a result to decode. */
	size_t room = v.p[0] & 3 ? v.n - 2 : 1 + get_le16(v.p) % (v.n - 2);
	ssize_t len = codec->encode(codec_state, 1 + v.p[0] % 9, view_of(in, v.n - 2),
				    span_of(small, room));
	if (len < 0 || (size_t)len > room)
		abort();
	/* The library insists on rules for the end of a block that our decoder does not need. */
	if (len > 0 && codec->format == LZ4_FORMAT &&
	    LZ4_decompress_safe((const char *)small, (char *)back, (int)len, (int)(v.n - 2)) !=
		    (int)(v.n - 2))
		abort();
	if (len > 0 && (codec->decode(codec_state, view_of(small, (size_t)len),
				      span_of(back, v.n - 2), NULL) ||
			memcmp(back, in, v.n - 2)))
		abort();
	if (len > 0)
		try_front(codec, codec_state, view_of(small, (size_t)len), in, v.n - 2);
	free(in);
	free(dst);
	free(back);
	free(small);
	return rc == 0;
}

/* A byte that says how, then the input of our encoder of Zstandard: plain C, and the best build. */
static bool try_zstd(struct view v)
{
	static struct zstd_work *work[2];
	static struct kernels kernels[2];
	struct cuts cuts = {.parts = 1, .n = 1, .end = {1}};
	ssize_t len[2];
	if (v.n < 2)
		return false;
	size_t n = v.n - 1, room = v.p[0] & 2 ? n + n / 100 + 100 : n;
	int level = v.p[0] & 1 && n <= ZSTD_DOUBLE_MAX ? 2 : 1;
	uint8_t *in = exact_copy(v.p + 1, n), *back = malloc(n), *out[2];
	if (v.p[0] & 4 && n >= 4)
		cuts = (struct cuts){.parts = 4, .n = 3, .end = {1, 2, 4}};
	for (int i = 0; i < 2; i++) {
		if (!work[i]) {
			kernels_init(&kernels[i], i ? cpu_features() : 0);
			work[i] = calloc(1, sizeof *work[i]);
			work[i]->put_codes = kernels[i].put_codes;
		}
		out[i] = malloc(room);
		len[i] = kernels[i].put_zstd(work[i], level, view_of(in, n), &cuts,
					     span_of(out[i], room));
	}
	if (len[0] != len[1] || len[0] < 0 || (size_t)len[0] > room ||
	    memcmp(out[0], out[1], (size_t)len[0]))
		abort();
	if (len[0] &&
	    (ZSTD_decompress(back, n, out[0], (size_t)len[0]) != n || memcmp(back, in, n)))
		abort();
	free(in);
	free(back);
	free(out[0]);
	free(out[1]);
	return len[0] > 0;
}

/* Two bytes of length, then a frame: what our reader accepts, it decodes as the library does. */
static bool try_unzstd(struct view v)
{
	static struct unzstd *reader;
	static struct kernels k;
	static void *state_of_row;
	const struct codec *row = codec_by_id(CODEC_ZSTD);
	if (v.n < 3)
		return false;
	if (!state_of_row) {
		kernels_init(&k, cpu_features());
		if (row->state_new(&state_of_row, &k) < 0)
			abort();
	}
	size_t n = (size_t)get_le16(v.p) + 1, front = next_random() % (n + 1);
	uint8_t *in = exact_copy(v.p + 2, v.n - 2), *dst = malloc(n), *want = malloc(n);
	struct view src = view_of(in, v.n - 2);
	bool legal = ZSTD_decompress(want, n, src.p, src.n) == n;
	if (k.get_zstd && k.get_zstd(&reader, src, span_of(dst, n), n)) {
		if (!legal || memcmp(dst, want, n))
			abort();
		memset(dst, 0xA5, n);
		if (!k.get_zstd(&reader, src, span_of(dst, n), front) || memcmp(dst, want, front))
			abort();
	} else if (k.get_zstd) {
		(void)k.get_zstd(&reader, src, span_of(dst, n), front);
	}
	bool taken = row->decode(state_of_row, src, span_of(dst, n), NULL) == 0;
	if (taken != legal || (taken && memcmp(dst, want, n)))
		abort();
	free(in);
	free(dst);
	free(want);
	return taken;
}

static bool try_one(const char *target, struct scratch *s, struct view v)
{
	if (!strcmp(target, "chunk"))
		return try_chunk(s, v);
	if (!strcmp(target, "zstd"))
		return try_zstd(v);
	return strcmp(target, "unzstd") ? try_codec(target, v) : try_unzstd(v);
}

#ifdef FUZZ_TARGET

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static struct scratch *s;
	if (!s && scratch_open(&s) < 0)
		abort();
	seed_by(p, n);
	(void)try_one(FUZZ_TARGET, s, view_of(p, n));
	return 0;
}

#else

static const char *target;
static struct scratch *scratch;

static bool try_target(struct view v)
{
	return try_one(target, scratch, v);
}

static void change(uint8_t *p, size_t n)
{
	mutate(p, n);
	if (!strcmp(target, "chunk") && next_random() % 2)
		seal(p, n);
}

int main(int argc, char **argv)
{
	static const struct fuzz_target t = {try_target, change, "decoded"};
	if (argc < 2 || scratch_open(&scratch) < 0)
		return 2;
	target = argv[1];
	int rc = fuzz_loop(&t, argc - 2, argv + 2);
	scratch_close(scratch);
	return rc;
}

#endif
