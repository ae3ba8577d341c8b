#include "codec_sides.h"

#include "codec/filter.h"
#include "codec/scratch_impl.h"

#include <blosc2.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

struct reference ref;
static __typeof__(blosc2_create_cctx) *create_cctx;
static __typeof__(blosc2_create_dctx) *create_dctx;
static void *zstd_cctx, *zstd_dctx, *lz4_state;

void die(const char *what)
{
	fprintf(stderr, "codec bench: %s\n", what);
	exit(1);
}

static void find(void *lib, const char *name, void *to)
{
	void *p = dlsym(lib, name);
	if (!p)
		die(name);
	memcpy(to, &p, sizeof p);
}

void reference_open(const char *path)
{
	/* Deep: it brings codecs of its own under the names of those that we link. */
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	if (!lib)
		die(dlerror());
	const struct {
		const char *name;
		void *to;
	} symbol[] = {
		{"blosc2_init", &ref.init},
		{"blosc2_create_cctx", &create_cctx},
		{"blosc2_create_dctx", &create_dctx},
		{"blosc2_compress_ctx", &ref.compress},
		{"blosc2_decompress_ctx", &ref.decompress},
		{"blosc2_getitem_ctx", &ref.getitem},
		{"blosc2_free_ctx", &ref.free_ctx},
		{"blosc2_shuffle", &ref.kernel[0]},
		{"blosc2_unshuffle", &ref.kernel[1]},
		{"blosc2_bitshuffle", &ref.kernel[2]},
		{"blosc2_bitunshuffle", &ref.kernel[3]},
		{"ZSTD_versionString", &ref.zstd_version},
		{"LZ4_versionString", &ref.lz4_version},
		{"zlibng_version", &ref.zlib_version},
		{"ZSTD_compressCCtx", &ref.zstd_encode},
		{"ZSTD_decompressDCtx", &ref.zstd_decode},
		{"ZSTD_createCCtx", &ref.zstd_cctx},
		{"ZSTD_createDCtx", &ref.zstd_dctx},
		{"LZ4_compress_fast_extState", &ref.lz4_encode},
		{"LZ4_compress_HC_extStateHC", &ref.lz4hc_encode},
		{"LZ4_decompress_safe", &ref.lz4_decode},
		{"LZ4_sizeofState", &ref.lz4_state},
		{"LZ4_sizeofStateHC", &ref.lz4hc_state},
		{"zng_compress2", &ref.zlib_encode},
		{"zng_uncompress", &ref.zlib_decode},
	};
	for (size_t i = 0; i < sizeof symbol / sizeof symbol[0]; i++)
		find(lib, symbol[i].name, symbol[i].to);
	ref.init();
	zstd_cctx = ref.zstd_cctx();
	zstd_dctx = ref.zstd_dctx();
	lz4_state = calloc(1, (size_t)ref.lz4hc_state() + (size_t)ref.lz4_state());
}

static struct scratch *main_scratch;
static _Thread_local struct scratch *worker_scratch;
static _Thread_local bool is_main;

static struct scratch *scratch_of_thread(void)
{
	if (is_main)
		return main_scratch;
	if (!worker_scratch && scratch_open(&worker_scratch) < 0)
		die("no memory");
	return worker_scratch;
}

static void open_reference(struct bench *b)
{
	const struct cell *c = &b->cell;
	blosc2_cparams cp = BLOSC2_CPARAMS_DEFAULTS;
	blosc2_dparams dp = BLOSC2_DPARAMS_DEFAULTS;
	cp.compcode = c->codec;
	cp.clevel = c->level;
	cp.typesize = c->typesize;
	cp.nthreads = (int16_t)c->threads;
	dp.nthreads = (int16_t)c->threads;
	memset(cp.filters, 0, sizeof cp.filters);
	for (unsigned i = 0; i < c->nfilters; i++) {
		unsigned slot = BLOSC2_MAX_FILTERS - c->nfilters + i;
		cp.filters[slot] = c->filters[i];
		cp.filters_meta[slot] = c->filters[i] == FILTER_BYTEDELTA ? c->typesize : 0;
	}
	b->cctx = create_cctx(cp);
	b->dctx = create_dctx(dp);
	if (!b->cctx || !b->dctx)
		die("no context");
}

static void open_ours(struct bench *b)
{
	const struct cell *c = &b->cell;
	struct pipeline *p = &b->pipeline;
	struct err_reason why;
	pipeline_default(p);
	p->codec = c->codec;
	p->level = c->level;
	p->typesize = c->typesize;
	p->blocksize = get_le32(b->chunk[REFERENCE].p + 8);
	for (unsigned i = 0; i < c->nfilters; i++)
		p->filter[FILTER_SLOTS - c->nfilters + i] = c->filters[i];
	if (pipeline_check(p, &why) < 0)
		die(why.text);
	is_main = true;
	main_scratch = b->scratch;
	if (c->threads > 1 && parallel_open(&b->parallel, b->pool, scratch_of_thread) < 0)
		die("no memory");
}

void bench_open(struct bench *b, const struct cell *cell, struct view src, struct scratch *s,
		struct pool *pool)
{
	*b = (struct bench){.cell = *cell, .src = src, .scratch = s, .pool = pool};
	for (int i = 0; i < SIDES; i++)
		if (buf_reserve_fresh(&b->chunk[i], src.n + (64 << 10)) < 0)
			die("no memory");
	if (buf_reserve_fresh(&b->back, src.n) < 0)
		die("no memory");
	b->back.n = src.n;
	memset(b->back.p, 0, src.n);
	open_reference(b);
	bench_encode(b, REFERENCE);
	open_ours(b);
	for (int i = 0; i < SIDES; i++) {
		bench_encode(b, i);
		bench_decode(b, i);
		if (memcmp(b->back.p, src.p, src.n))
			die("a chunk comes back as something else");
	}
}

void bench_close(struct bench *b)
{
	parallel_close(b->parallel);
	ref.free_ctx(b->cctx);
	ref.free_ctx(b->dctx);
	buf_free(&b->chunk[OURS]);
	buf_free(&b->chunk[REFERENCE]);
	buf_free(&b->back);
}

void bench_encode(struct bench *b, enum side_id side)
{
	struct buf *out = &b->chunk[side];
	int n;
	if (side == REFERENCE) {
		n = ref.compress(b->cctx, b->src.p, (int32_t)b->src.n, out->p,
				 (int32_t)(b->src.n + BLOSC2_MAX_OVERHEAD));
		out->n = n > 0 ? (size_t)n : 0;
	} else {
		n = b->parallel ? parallel_encode(b->parallel, &b->pipeline, b->src, out)
				: chunk_encode(b->scratch, &b->pipeline, b->src, out);
	}
	if (n < 0 || !out->n)
		die("encode");
}

static int decode_ours(struct bench *b)
{
	struct chunk c = {0};
	struct view all = buf_view(&b->chunk[OURS]);
	if (!b->parallel)
		return chunk_decode_all(b->scratch, all, 0, buf_span(&b->back));
	int rc = chunk_parse(&c, all, all.n, 0);
	struct run run = {0, c.nblocks};
	struct extent e = chunk_extent(&c, run);
	if (!rc)
		rc = parallel_decode(b->parallel, &c, run, view_part(all, e.off, e.len),
				     buf_span(&b->back));
	chunk_deinit(&c);
	return rc;
}

void bench_decode(struct bench *b, enum side_id side)
{
	const struct buf *in = &b->chunk[side];
	int rc;
	if (side == REFERENCE)
		rc = ref.decompress(b->dctx, in->p, (int32_t)in->n, b->back.p, (int32_t)b->back.n);
	else
		rc = decode_ours(b);
	if (rc < 0)
		die("decode");
}

bool bare_exists(const struct bench *b, enum side_id side)
{
	return side == OURS || b->cell.codec != CODEC_BLOSCLZ; /* which it does not export */
}

static size_t reference_encode(const struct cell *c, struct view src, struct span dst)
{
	size_t n = dst.n;
	int zstd = c->level == 9 ? 22 : 2 * c->level - 1, rc = 0;
	switch (c->codec) {
	case CODEC_LZ4:
		rc = ref.lz4_encode(lz4_state, (const char *)src.p, (char *)dst.p, (int)src.n,
				    (int)dst.n, 10 - c->level);
		return (size_t)rc;
	case CODEC_LZ4HC:
		rc = ref.lz4hc_encode(lz4_state, (const char *)src.p, (char *)dst.p, (int)src.n,
				      (int)dst.n, c->level);
		return (size_t)rc;
	case CODEC_ZLIB:
		return ref.zlib_encode(dst.p, &n, src.p, src.n, c->level) ? 0 : n;
	default:
		n = ref.zstd_encode(zstd_cctx, dst.p, dst.n, src.p, src.n, zstd);
		return n > dst.n ? 0 : n;
	}
}

static bool reference_decode(const struct cell *c, struct view src, struct span dst)
{
	size_t n = dst.n;
	switch (c->codec) {
	case CODEC_LZ4:
	case CODEC_LZ4HC:
		return ref.lz4_decode((const char *)src.p, (char *)dst.p, (int)src.n, (int)n) ==
		       (int)n;
	case CODEC_ZLIB:
		return !ref.zlib_decode(dst.p, &n, src.p, src.n);
	default:
		return ref.zstd_decode(zstd_dctx, dst.p, n, src.p, src.n) == n;
	}
}

static const struct codec *our_codec(struct bench *b, void **state)
{
	const struct codec *codec = codec_by_id(b->cell.codec);
	if (scratch_state(b->scratch, codec, state) < 0)
		die("no memory");
	return codec;
}

size_t bare_encode(struct bench *b, enum side_id side, struct view src, struct span dst)
{
	void *state;
	if (side == REFERENCE)
		return reference_encode(&b->cell, src, dst);
	const struct codec *codec = our_codec(b, &state);
	ssize_t n = codec->encode(state, b->cell.level, src, dst);
	return n < 0 ? 0 : (size_t)n;
}

void bare_decode(struct bench *b, enum side_id side, struct view src, struct span dst)
{
	void *state;
	if (side == REFERENCE) {
		if (!reference_decode(&b->cell, src, dst))
			die("bare decode of the reference");
		return;
	}
	const struct codec *codec = our_codec(b, &state);
	if (codec->decode(state, src, dst, NULL) < 0)
		die("bare decode");
}
