/*
 * Counts what a warm scratch still asks of the C library while it encodes and decodes: every
 * allocation and every lock, those of the compression libraries included. Prints the first
 * pipeline that does either, or how many were tried.
 */
#include "codec/chunk.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define BYTES 300000u

static _Thread_local bool counting;
static unsigned long allocations, locks;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define CANNOT_COUNT
#else
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n)
{
	allocations += counting;
	return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	allocations += counting;
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	allocations += counting;
	return __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
	allocations += counting;
	return __libc_memalign(align, n);
}

int posix_memalign(void **p, size_t align, size_t n)
{
	allocations += counting;
	*p = __libc_memalign(align, n);
	return *p ? 0 : ENOMEM;
}

int pthread_mutex_lock(pthread_mutex_t *m)
{
	static int (*real)(pthread_mutex_t *);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_lock");
	locks += counting;
	return real(m);
}
#endif

/* A block by itself, and a part of it: what small reads do. */
static int decode_little(struct scratch *s, const struct chunk *c, struct view chunk,
			 struct span dst)
{
	struct extent e = chunk_extent(c, (struct run){1, 1});
	struct view stored = view_part(chunk, e.off, e.len);
	struct span block = {dst.p, chunk_run_bytes(c, (struct run){1, 1})};
	struct span part = {dst.p + block.n, 100};
	int rc = chunk_decode_checked(c, s, (struct run){1, 1}, stored, block);
	if (!rc && chunk_can_pack(c))
		rc = chunk_decode_packed(c, s, 1, stored, block);
	if (!rc && chunk_can_pack(c))
		rc = chunk_unpack(c, s, span_view(block), 1000, part);
	if (!rc && chunk_has_parts(c, s))
		rc = chunk_decode_part(c, s, (struct chunk_part){1, 1000}, stored, part);
	return rc < 0 ? rc : 0;
}

/* A pipeline on trial. */
struct trial {
	struct scratch *s;
	struct pipeline p;
	struct buf out;
	struct chunk c;
};

static void one_pass(struct trial *t, struct view src, struct span dst)
{
	bool was = counting;
	struct chunk *c = &t->c;
	if (chunk_encode(t->s, &t->p, src, &t->out) < 0)
		abort();
	counting = false; /* parsing allocates its tables, as chunk.h says */
	struct view stored = buf_view(&t->out);
	chunk_deinit(c);
	if (chunk_parse(c, stored, stored.n, 0))
		abort();
	struct run all = {0, c->nblocks};
	struct extent e = chunk_extent(c, all), ref = chunk_extent(c, (struct run){0, 1});
	/* Whoever reads blocks of delta loads their reference once. */
	if (chunk_wants_ref(c) && chunk_load_ref(c, t->s, view_part(stored, ref.off, ref.len)) < 0)
		abort();
	counting = was;
	if (c->nblocks > 1 && decode_little(t->s, c, stored, dst) < 0)
		abort();
	if (chunk_decode(c, t->s, all, view_part(stored, e.off, e.len), dst) < 0)
		abort();
	counting = false;
	if (memcmp(dst.p, src.p, src.n))
		abort();
}

static void try_pipeline(struct scratch *s, const char *text, struct view src, struct span dst)
{
	struct trial t = {.s = s};
	char why[200];
	pipeline_default(&t.p);
	if (pipeline_parse(&t.p, text, why, sizeof why) < 0)
		abort();
	one_pass(&t, src, dst);
	counting = true;
	one_pass(&t, src, dst);
	if (allocations || locks) {
		printf("%s: %lu allocations, %lu locks\n", text, allocations, locks);
		exit(1);
	}
	chunk_deinit(&t.c);
	buf_free(&t.out);
}

int main(void)
{
	static const char *const codec[] = {"blosclz", "lz4",    "lz4hc:5",
					    "zlib:5",  "zstd:1", "zstd:2", "zstd:5",
					    "lz4hc:9", "zlib:9", "zstd:9"};
	static const char *const filters[] = {"", "shuffle:4+", "bitshuffle:4+",
					      "shuffle:4+bytedelta+", "delta:4+shuffle+"};
	struct scratch *s;
	uint8_t *src = malloc(BYTES), *dst = malloc(BYTES);
	unsigned tried = 0;
#ifdef CANNOT_COUNT
	puts("cannot count in this build");
	return 77;
#endif
	if (!src || !dst || scratch_open(&s) < 0)
		return 2;
	counting = true; /* the measure itself: a new state must be seen */
	void *volatile seen = malloc(1);
	counting = false;
	if (allocations != 1)
		return 3;
	free(seen);
	allocations = 0;
	for (uint32_t i = 0; i < BYTES / 4; i++)
		put_le32(src + 4 * i, i * i / 1000);
	for (size_t i = 0; i < sizeof codec / sizeof codec[0]; i++)
		for (size_t k = 0; k < sizeof filters / sizeof filters[0]; k++, tried++) {
			char text[100];
			snprintf(text, sizeof text, "%s%s", filters[k], codec[i]);
			try_pipeline(s, text, view_of(src, BYTES), span_of(dst, BYTES));
		}
	scratch_close(s);
	free(src);
	free(dst);
	printf("%u pipelines, no allocation and no lock\n", tried);
	return 0;
}
