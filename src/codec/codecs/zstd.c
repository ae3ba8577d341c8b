/* Zstandard, FORMAT.md 6.4: ordinary frames with their content size. */
#include "base/buf.h"
#include "codec/codec.h"
#include "codec/cuts.h"
#include "codec/pipeline.h"
#include "codec/zstd/append.h"
#include "codec/zstd/fast.h"

#include <assert.h>
#include <zdict.h>
#include <zstd.h>
#include <zstd_errors.h>

/* Contexts are created on first use: a reader never pays for a compressor. */
struct state {
	ZSTD_CCtx *cctx;
	ZSTD_DCtx *dctx;
	struct unzstd *reader;
	ZSTD_CDict *cdict; /* NULL: no dictionary */
	struct zstd_work *work;
	struct kernels kernels;
};

static int zstd_state_new(void **state, const struct kernels *k)
{
	struct state *st = mem_zalloc(sizeof *st);
	*state = st;
	if (!st)
		return -ENOMEM;
	st->kernels = *k;
	return 0;
}

static void zstd_state_free(void *state)
{
	struct state *st = state;
	if (!st)
		return;
	ZSTD_freeCCtx(st->cctx);
	ZSTD_freeDCtx(st->dctx);
	mem_free(st->reader);
	ZSTD_freeCDict(st->cdict);
	mem_free(st->work);
	mem_free(st);
}

/*
 * A context of up to this size is kept: that is enough for blocks of up to 1 MiB at any level, and
 * for any block at levels up to 5. Creating one for each block took a third more processor time at
 * level 5; for larger ones it is small compared with the work.
 */
#define CONTEXT_KEEP (20u << 20)

static void zstd_state_trim(void *state)
{
	struct state *st = state;
	if (!st->cctx || ZSTD_sizeof_CCtx(st->cctx) <= CONTEXT_KEEP)
		return;
	ZSTD_freeCCtx(st->cctx);
	st->cctx = NULL;
}

#define KEPT_LEVEL_MAX 5 /* contexts have at most 9 MiB at level 4, 17 at level 5 */

/*
 * By ZSTD_sizeof_CCtx (1.5.4): tables grow with the stream, at most 17 bytes per byte, up to a
 * limit for each level; that of the last level is never reached.
 */
static uint64_t zstd_encode_memory(int level, size_t n)
{
	static const uint8_t most_mib[] = {[6] = 29, [7] = 37, [8] = 69};
	uint64_t bytes = 17ull * n + (2u << 20);
	if (level <= KEPT_LEVEL_MAX)
		return 0;
	if (level < PIPELINE_LEVEL_MAX)
		bytes = min_u64(bytes, (uint64_t)most_mib[level] << 20);
	return bytes > CONTEXT_KEEP ? bytes : 0;
}

/* The library's level for a pipeline's level: FORMAT.md 6.4. */
static int library_level(int level)
{
	return level >= PIPELINE_LEVEL_MAX ? ZSTD_maxCLevel() : 2 * level - 1;
}

/*
 * From here to tuning_of_planes, levels in comments, constants and struct tuning are the library's:
 * 5, 7 and 9 are a pipeline's 3, 4 and 5.
 */

/*
 * Level 9: rows of 16 candidates instead of 32, in a table sized for the stream. A sixth faster,
 * for 0.2 % in size; one step less in either number, or another strategy, costs up to 6 %.
 */
#define ROWS_LEVEL 9
#define MIDDLE_STREAM (64u << 10)
#define LONG_STREAM (256u << 10) /* longer ones would lose up to a fifth: far repeats */
#define MIDDLE_HASH_LOG 16
#define LONG_HASH_LOG 17
#define ROWS_SEARCH_LOG 4

/*
 * Level 9 on planes: each repeats itself, so a table for 512 KiB of them may be this small, which
 * is a third faster. In bit planes short matches are accidental: taking only longer ones is faster
 * both ways and up to a tenth smaller, also at levels 5 and 7; from 11 on it is slower.
 */
#define PLANES_STREAM (1u << 20)
#define PLANES_HASH_LOG 18
#define BITS_LEVEL_MIN 5
#define BITS_LEVEL_MAX 9
#define BITS_HASH_LOG 16
#define BITS_MATCH 6

struct tuning {
	int level, hash_log, search_log, min_match; /* 0: the library's default */
};

/* For a stream of n bytes at a pipeline's level. */
static struct tuning tuning_of(int level, size_t n)
{
	struct tuning t = {.level = library_level(level)};
	if (t.level == ROWS_LEVEL && n <= LONG_STREAM) {
		t.hash_log = n <= MIDDLE_STREAM ? MIDDLE_HASH_LOG : LONG_HASH_LOG;
		t.search_log = ROWS_SEARCH_LOG;
	}
	return t;
}

/* The same for a stream that is cut, into planes of a filter's output. */
static struct tuning tuning_of_planes(int level, size_t n, const struct cuts *cuts)
{
	struct tuning t = tuning_of(level, n);
	if (n > PLANES_STREAM)
		return t;
	if (cuts->bits && t.level >= BITS_LEVEL_MIN && t.level <= BITS_LEVEL_MAX) {
		t.hash_log = BITS_HASH_LOG;
		t.search_log = ROWS_SEARCH_LOG;
		t.min_match = BITS_MATCH;
	} else if (t.level == ROWS_LEVEL && n > LONG_STREAM) {
		t.hash_log = PLANES_HASH_LOG;
		t.search_log = ROWS_SEARCH_LOG;
	}
	return t;
}

static void set_tuning(ZSTD_CCtx *cctx, struct tuning t)
{
	/* A stream that did not fit is still open, and would refuse parameters. */
	ZSTD_CCtx_reset(cctx, ZSTD_reset_session_only);
	ZSTD_CCtx_setParameter(cctx, ZSTD_c_compressionLevel, t.level);
	ZSTD_CCtx_setParameter(cctx, ZSTD_c_hashLog, t.hash_log);
	ZSTD_CCtx_setParameter(cctx, ZSTD_c_searchLog, t.search_log);
	ZSTD_CCtx_setParameter(cctx, ZSTD_c_minMatch, t.min_match);
}

static size_t encode_plain(ZSTD_CCtx *cctx, int level, struct view src, struct span dst)
{
	set_tuning(cctx, tuning_of(level, src.n));
	return ZSTD_compress2(cctx, dst.p, dst.n, src.p, src.n);
}

static ssize_t length_or_error(size_t n)
{
	if (!ZSTD_isError(n))
		return (ssize_t)n;
	return ZSTD_getErrorCode(n) == ZSTD_error_dstSize_tooSmall ? 0 : -ENOMEM;
}

/* Shorter streams, dictionaries and higher levels are left to the library. */
#define FAST_MIN 1024

static bool is_fast(const struct state *st, int level, size_t n)
{
	size_t most = level == 1 ? ZSTD_FAST_MAX : level == 2 ? ZSTD_DOUBLE_MAX : 0;
	return !st->cdict && n >= FAST_MIN && n <= most;
}

static int make_work(struct state *st)
{
	if (st->work)
		return 0;
	st->work = mem_zalloc(sizeof *st->work);
	if (!st->work)
		return -ENOMEM;
	st->work->put_codes = st->kernels.put_codes;
	return 0;
}

static ssize_t encode_fast(struct state *st, int level, struct view src, const struct cuts *cuts,
			   struct span dst)
{
	TRY(make_work(st));
	return st->kernels.put_zstd(st->work, level, src, cuts, dst);
}

/* By our encoder, whatever the level: filters affect the library's streams much the same. */
static ssize_t zstd_estimate_sample(void *state, struct view sample, const struct cuts *cuts)
{
	struct state *st = state;
	assert(sample.n <= ZSTD_NEAR_MAX);
	TRY(make_work(st));
	return (ssize_t)max_u64(st->kernels.estimate_zstd(st->work, sample, cuts), 1);
}

/* Flushing ends a block of the frame, and each block is raw or has its own tables. */
static ssize_t zstd_encode_cut(void *state, int level, struct view src, const struct cuts *cuts,
			       struct span dst)
{
	struct state *st = state;
	/* Level 2 is for data that no filter helps; it was not measured on planes. */
	if (level == 1 && is_fast(st, level, src.n))
		return encode_fast(st, level, src, cuts, dst);
	if (!st->cctx && !(st->cctx = ZSTD_createCCtx()))
		return -ENOMEM;
	set_tuning(st->cctx, tuning_of_planes(level, src.n, cuts));
	ZSTD_CCtx_setPledgedSrcSize(st->cctx, src.n);
	ZSTD_outBuffer out = {dst.p, dst.n, 0};
	size_t at = 0, left = 0;
	for (uint32_t i = 0; !left && i < cuts->n; i++) {
		size_t end = cuts_end(cuts, i, src.n);
		ZSTD_inBuffer in = {src.p + at, end - at, 0};
		ZSTD_EndDirective how = i + 1 < cuts->n ? ZSTD_e_flush : ZSTD_e_end;
		left = ZSTD_compressStream2(st->cctx, &out, &in, how);
		at = end;
	}
	if (ZSTD_isError(left))
		return length_or_error(left);
	return left ? 0 : (ssize_t)out.pos;
}

static ssize_t zstd_encode(void *state, int level, struct view src, struct span dst)
{
	struct state *st = state;
	if (is_fast(st, level, src.n))
		return encode_fast(st, level, src, NULL, dst);
	if (!st->cctx && !(st->cctx = ZSTD_createCCtx()))
		return -ENOMEM;
	size_t n;
	if (st->cdict)
		n = ZSTD_compress_usingCDict(st->cctx, dst.p, dst.n, src.p, src.n, st->cdict);
	else
		n = encode_plain(st->cctx, level, src, dst);
	return length_or_error(n);
}

/* Our decoder handles only plain frames, and no errors: the library does the rest. */
static int zstd_decode(void *state, struct view src, struct span dst, const struct codec_dict *dict)
{
	struct state *st = state;
	if (!dict && st->kernels.get_zstd && st->kernels.get_zstd(&st->reader, src, dst, dst.n))
		return 0;
	if (!st->dctx && !(st->dctx = ZSTD_createDCtx()))
		return -ENOMEM;
	size_t n;
	if (dict)
		n = ZSTD_decompress_usingDDict(st->dctx, dst.p, dst.n, src.p, src.n, dict->digest);
	else
		n = ZSTD_decompressDCtx(st->dctx, dst.p, dst.n, src.p, src.n);
	if (ZSTD_isError(n))
		return CORRUPT("zstd stream", ZSTD_getErrorCode(n));
	if (n != dst.n)
		return CORRUPT("zstd stream of another length", n);
	return 0;
}

static bool zstd_has_front(const struct kernels *k)
{
	return k->get_zstd != NULL;
}

static bool zstd_decode_front(void *state, struct view src, struct span dst, size_t n)
{
	struct state *st = state;
	return st->kernels.get_zstd(&st->reader, src, dst, n);
}

/* The most samples for the trainer; more help little. */
#define SAMPLES_MAX 1024

static ssize_t zstd_dict_make(struct view samples, size_t nsamples, struct span dict)
{
	size_t size[SAMPLES_MAX];
	if (nsamples > SAMPLES_MAX)
		nsamples = SAMPLES_MAX;
	for (size_t i = 0; i < nsamples; i++)
		size[i] = samples.n / nsamples;
	size_t n = ZDICT_trainFromBuffer(dict.p, dict.n, samples.p, size, (unsigned)nsamples);
	return ZDICT_isError(n) ? 0 : (ssize_t)n;
}

/* Level 1 whatever the pipeline's, as in the reference (FORMAT.md 4). */
static int zstd_dict_set(void *state, struct view dict)
{
	struct state *st = state;
	ZSTD_freeCDict(st->cdict);
	st->cdict = NULL;
	if (dict.n && !(st->cdict = ZSTD_createCDict(dict.p, dict.n, 1)))
		return -ENOMEM;
	return 0;
}

static int zstd_digest_new(void **digest, struct view dict)
{
	*digest = ZSTD_createDDict(dict.p, dict.n);
	/* NULL means a broken dictionary far more often than lack of memory. */
	return *digest ? 0 : CORRUPT("zstd dictionary", dict.n);
}

static void zstd_digest_free(void *digest)
{
	ZSTD_freeDDict(digest);
}

const struct codec codec_zstd = {
	.name = "zstd",
	.what = "Zstandard: small, still fast to read",
	.id = CODEC_ZSTD,
	.format = 4,
	.level = 1,
	.state_new = zstd_state_new,
	.state_free = zstd_state_free,
	.state_trim = zstd_state_trim,
	.encode_memory = zstd_encode_memory,
	.encode = zstd_encode,
	.encode_cut = zstd_encode_cut,
	.append = zstd_append,
	.estimate = zstd_estimate_sample,
	.decode = zstd_decode,
	.has_front = zstd_has_front,
	.decode_front = zstd_decode_front,
	.dict_make = zstd_dict_make,
	.dict_set = zstd_dict_set,
	.digest_new = zstd_digest_new,
	.digest_free = zstd_digest_free,
};
