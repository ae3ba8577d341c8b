/*
 * Zlib, FORMAT.md 6.3: zlib-wrapped deflate. Uses libdeflate for both directions if it was found,
 * about twice as fast; otherwise zlib.
 */
#include "base/buf.h"
#include "codec/codec.h"

#ifdef HAVE_LIBDEFLATE

#include <libdeflate.h>

struct state {
	struct libdeflate_compressor *comp;
	struct libdeflate_decompressor *decomp;
	int level; /* of comp */
};

static void zlib_state_free(void *state)
{
	struct state *st = state;
	if (!st)
		return;
	libdeflate_free_compressor(st->comp);
	libdeflate_free_decompressor(st->decomp);
	mem_free(st);
}

static ssize_t zlib_encode(void *state, int level, struct view src, struct span dst)
{
	struct state *st = state;
	if (!st->comp || st->level != level) {
		libdeflate_free_compressor(st->comp);
		st->comp = libdeflate_alloc_compressor(level);
		st->level = level;
		if (!st->comp)
			return -ENOMEM;
	}
	return (ssize_t)libdeflate_zlib_compress(st->comp, src.p, src.n, dst.p, dst.n);
}

static int zlib_decode(void *state, struct view src, struct span dst, const struct codec_dict *dict)
{
	struct state *st = state;
	if (!st->decomp && !(st->decomp = libdeflate_alloc_decompressor()))
		return -ENOMEM;
	size_t used;
	/* Asking for `used` allows bytes after the end of the stream. */
	enum libdeflate_result rc = libdeflate_zlib_decompress_ex(st->decomp, src.p, src.n, dst.p,
								  dst.n, &used, NULL);
	return rc == LIBDEFLATE_SUCCESS ? 0 : CORRUPT("zlib stream", rc);
}

#else

#include <zlib.h>

struct state {
	z_stream comp, decomp;
	int level; /* of comp; 0: not created yet */
	bool has_decomp;
};

static void zlib_state_free(void *state)
{
	struct state *st = state;
	if (!st)
		return;
	if (st->level)
		deflateEnd(&st->comp);
	if (st->has_decomp)
		inflateEnd(&st->decomp);
	mem_free(st);
}

static int comp_ready(struct state *st, int level)
{
	if (st->level == level)
		return deflateReset(&st->comp);
	if (st->level)
		deflateEnd(&st->comp);
	st->comp = (z_stream){0};
	int rc = deflateInit(&st->comp, level);
	st->level = rc == Z_OK ? level : 0;
	return rc;
}

static ssize_t zlib_encode(void *state, int level, struct view src, struct span dst)
{
	struct state *st = state;
	if (comp_ready(st, level) != Z_OK)
		return -ENOMEM;
	st->comp.next_in = (Bytef *)src.p;
	st->comp.avail_in = (uInt)src.n;
	st->comp.next_out = dst.p;
	st->comp.avail_out = (uInt)dst.n;
	if (deflate(&st->comp, Z_FINISH) != Z_STREAM_END)
		return 0;
	return (ssize_t)(dst.n - st->comp.avail_out);
}

static int zlib_decode(void *state, struct view src, struct span dst, const struct codec_dict *dict)
{
	struct state *st = state;
	z_stream *z = &st->decomp;
	if ((st->has_decomp ? inflateReset(z) : inflateInit(z)) != Z_OK)
		return -ENOMEM;
	st->has_decomp = true;
	z->next_in = (Bytef *)src.p;
	z->avail_in = (uInt)src.n;
	z->next_out = dst.p;
	z->avail_out = (uInt)dst.n;
	int rc = inflate(z, Z_FINISH);
	if (rc != Z_STREAM_END || z->avail_out)
		return CORRUPT("zlib stream", rc);
	return 0;
}

#endif

static int zlib_state_new(void **state, const struct kernels *k)
{
	*state = mem_zalloc(sizeof(struct state));
	return *state ? 0 : -ENOMEM;
}

const struct codec codec_zlib = {
	.name = "zlib",
	.what = "deflate, as in zip and gzip",
	.id = CODEC_ZLIB,
	.format = 3,
	.level = 6,
	.state_new = zlib_state_new,
	.state_free = zlib_state_free,
	.encode = zlib_encode,
	.decode = zlib_decode,
};
