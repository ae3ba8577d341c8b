/*
 * The two sides that are measured: our codec layer, linked in, and the reference's C library,
 * loaded at run time with its own copies of the codecs. Both are called in the same process with
 * the same source and destination. What a caller sets up once (contexts, scratch, pool) is set up
 * before the clock runs, as a program that moves many chunks would do.
 */
#ifndef BENCH_CODEC_SIDES_H
#define BENCH_CODEC_SIDES_H

#include "codec/parallel.h"

/* A type of the reference, whose own header only codec_sides.c includes. */
typedef struct blosc2_context_s blosc2_context;

enum side_id { OURS, REFERENCE, SIDES };

struct cell {
	uint8_t codec; /* FORMAT.md 1.3, the same numbers on both sides */
	uint8_t level;
	uint8_t filters[2], nfilters;
	uint8_t typesize;
	int threads;
};

/* One cell, ready to run on both sides. */
struct bench {
	struct cell cell;
	struct pipeline pipeline;
	struct scratch *scratch;
	struct pool *pool;
	struct parallel *parallel; /* NULL: one thread */
	blosc2_context *cctx, *dctx;
	struct view src;
	struct buf chunk[SIDES];
	struct buf back;
};

/* Opens the library; its functions are then in `ref`. */
void reference_open(const char *path);

extern struct reference {
	void (*init)(void);
	int (*compress)(blosc2_context *, const void *src, int32_t n, void *dst, int32_t room);
	int (*decompress)(blosc2_context *, const void *src, int32_t n, void *dst, int32_t room);
	int (*getitem)(blosc2_context *, const void *src, int32_t n, int first, int nitems,
		       void *dst, int32_t room);
	void (*free_ctx)(blosc2_context *);
	int32_t (*kernel[4])(int32_t typesize, int32_t n, const uint8_t *src, uint8_t *dst);
	const char *(*zstd_version)(void), *(*lz4_version)(void), *(*zlib_version)(void);
	size_t (*zstd_encode)(void *, void *, size_t, const void *, size_t, int);
	size_t (*zstd_decode)(void *, void *, size_t, const void *, size_t);
	void *(*zstd_cctx)(void), *(*zstd_dctx)(void);
	int (*lz4_encode)(void *, const char *, char *, int, int, int);
	int (*lz4hc_encode)(void *, const char *, char *, int, int, int);
	int (*lz4_decode)(const char *, char *, int, int);
	int (*zlib_encode)(uint8_t *, size_t *, const uint8_t *, size_t, int);
	int (*zlib_decode)(uint8_t *, size_t *, const uint8_t *, size_t);
	int (*lz4_state)(void), (*lz4hc_state)(void);
} ref;

/*
 * The reference chooses the block size, and ours uses the same, so both make one trade of size for
 * speed.
 */
void bench_open(struct bench *b, const struct cell *cell, struct view src, struct scratch *s,
		struct pool *pool);
void bench_close(struct bench *b);
void bench_encode(struct bench *b, enum side_id side); /* fills chunk[side] */
void bench_decode(struct bench *b, enum side_id side); /* fills back         */

/* The bare codec of a side, on one stream. Returns the length; 0: not smaller. */
size_t bare_encode(struct bench *b, enum side_id side, struct view src, struct span dst);
void bare_decode(struct bench *b, enum side_id side, struct view src, struct span dst);
bool bare_exists(const struct bench *b, enum side_id side);

_Noreturn void die(const char *what);

#endif
