/* LZ4HC: the streams of LZ4, found with more effort. */
#include "base/buf.h"
#include "codec/codec.h"

#include <lz4.h>
#include <lz4hc.h>

struct state {
	LZ4_streamHC_t work;
	struct view dict;
};

extern const struct codec codec_lz4;

static int lz4hc_state_new(void **state)
{
	*state = mem_zalloc(sizeof(struct state));
	if (!*state)
		return -ENOMEM;
	LZ4_initStreamHC(&((struct state *)*state)->work, sizeof(LZ4_streamHC_t));
	return 0;
}

static ssize_t lz4hc_encode(void *state, int level, struct view src, struct span dst)
{
	struct state *st = state;
	if (!st->dict.n)
		return LZ4_compress_HC_extStateHC(&st->work, (const char *)src.p, (char *)dst.p,
						  (int)src.n, (int)dst.n, level);
	LZ4_resetStreamHC_fast(&st->work, level);
	LZ4_loadDictHC(&st->work, (const char *)st->dict.p, (int)st->dict.n);
	return LZ4_compress_HC_continue(&st->work, (const char *)src.p, (char *)dst.p, (int)src.n,
					(int)dst.n);
}

/* The payload is plain LZ4, whose decoder needs no state. */
static int lz4hc_decode(void *state, struct view src, struct span dst, const struct codec_dict *dict)
{
	return codec_lz4.decode(NULL, src, dst, dict);
}

static ssize_t lz4hc_dict_make(struct view samples, size_t nsamples, struct span dict)
{
	return codec_lz4.dict_make(samples, nsamples, dict);
}

static int lz4hc_dict_set(void *state, struct view dict)
{
	struct state *st = state;
	st->dict = dict;
	/* The tables may still point into a dictionary that is going away. */
	LZ4_initStreamHC(&st->work, sizeof st->work);
	return 0;
}

const struct codec codec_lz4hc = {
	.name = "lz4hc",
	.what = "LZ4 with a thorough search: slower to write, as fast to read",
	.id = CODEC_LZ4HC,
	.format = 1,
	.level = 9,
	.state_new = lz4hc_state_new,
	.state_free = mem_free,
	.encode = lz4hc_encode,
	.decode = lz4hc_decode,
	.dict_make = lz4hc_dict_make,
	.dict_set = lz4hc_dict_set,
};
