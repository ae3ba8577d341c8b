/* LZ4, FORMAT.md 6.2: raw blocks. */
#include "base/buf.h"
#include "codec/codec.h"

#include <lz4.h>

struct state {
	LZ4_stream_t work;
	LZ4_stream_t primed; /* `work` as it is after loading the dictionary */
	bool has_dict;
};

static int lz4_state_new(void **state)
{
	*state = mem_zalloc(sizeof(struct state));
	if (!*state)
		return -ENOMEM;
	LZ4_initStream(&((struct state *)*state)->work, sizeof(LZ4_stream_t));
	return 0;
}

static ssize_t lz4_encode(void *state, int level, struct view src, struct span dst)
{
	struct state *st = state;
	int accel = 10 - level;
	if (st->has_dict) {
		/* Loading hashes the whole dictionary; a copy of the table does not. */
		st->work = st->primed;
		return LZ4_compress_fast_continue(&st->work, (const char *)src.p, (char *)dst.p,
						  (int)src.n, (int)dst.n, accel);
	}
	return LZ4_compress_fast_extState(&st->work, (const char *)src.p, (char *)dst.p, (int)src.n,
					  (int)dst.n, accel);
}

static int lz4_decode(void *state, struct view src, struct span dst, const struct codec_dict *dict)
{
	int n;
	if (dict)
		n = LZ4_decompress_safe_usingDict((const char *)src.p, (char *)dst.p, (int)src.n,
						  (int)dst.n, (const char *)dict->raw.p,
						  (int)dict->raw.n);
	else
		n = LZ4_decompress_safe((const char *)src.p, (char *)dst.p, (int)src.n, (int)dst.n);
	if (n < 0 || (size_t)n != dst.n)
		return CORRUPT("lz4 stream", n);
	return 0;
}

/* What stands first is as good as anything else without a trainer. */
static ssize_t lz4_dict_make(struct view samples, size_t nsamples, struct span dict)
{
	size_t n = samples.n < dict.n ? samples.n : dict.n;
	memcpy(dict.p, samples.p, n);
	return (ssize_t)n;
}

static int lz4_dict_set(void *state, struct view dict)
{
	struct state *st = state;
	st->has_dict = dict.n > 0;
	LZ4_initStream(&st->work, sizeof st->work);
	if (st->has_dict) {
		LZ4_loadDict(&st->work, (const char *)dict.p, (int)dict.n);
		st->primed = st->work;
	}
	return 0;
}

const struct codec codec_lz4 = {
	.name = "lz4",
	.what = "LZ4: fast to write and to read",
	.id = CODEC_LZ4,
	.format = 1,
	.level = 5,
	.state_new = lz4_state_new,
	.state_free = mem_free,
	.encode = lz4_encode,
	.decode = lz4_decode,
	.dict_make = lz4_dict_make,
	.dict_set = lz4_dict_set,
};
