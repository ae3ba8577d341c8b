/*
 * A scratch that has been used before neither allocates nor locks while it encodes and decodes, and
 * neither do the compression libraries. Prints the first pipeline that does, or how many there are.
 *
 *   codec_warm poor
 *
 * makes one allocation after the other fail instead, while a chunk of giant blocks is encoded and
 * patched, and checks how much memory the scratch keeps afterwards.
 */
#include "codec/chunk.h"
#include "codec/scratch_impl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define BYTES 300000u

/* volatile, since compilers assume that malloc changes no variable of ours. */
static _Thread_local volatile bool counting;
static volatile unsigned long allocations, locks;
static volatile unsigned long fail_in; /* this one of the next allocations fails; 0: none does */

/* Called for each allocation; returns whether it shall fail. */
static inline bool no_memory(void)
{
	allocations += counting;
	if (!fail_in)
		return false;
	fail_in = fail_in - 1;
	return !fail_in;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define CANNOT_COUNT
#else
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n)
{
	return no_memory() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return no_memory() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return no_memory() ? NULL : __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
	return no_memory() ? NULL : __libc_memalign(align, n);
}

int posix_memalign(void **p, size_t align, size_t n)
{
	*p = no_memory() ? NULL : __libc_memalign(align, n);
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

/* Decodes one block, and a part of it, as small reads do. */
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
	/* Readers of blocks with delta load the reference block once. */
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
	pipeline_default(&t.p);
	if (pipeline_parse(&t.p, text, NULL) < 0)
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

#define GIANT (3u << 19) /* bytes a block: more than a scratch keeps */
#define KEPT_MOST (1u << 20)

/* What can run out of memory: the chunk is encoded, or its last block replaced. */
struct poor {
	struct pipeline p;
	struct view src, stored; /* stored: NULL, or what src became */
	const struct chunk *c;   /* of `stored` */
};

static int poor_call(const struct poor *t, struct scratch *s)
{
	struct buf out = {0};
	struct chunk_edit edit = {{1, 1}, view_part(t->src, 0, GIANT)};
	struct chunk_patch patch = {t->c, t->stored, &t->p, &edit, 1, 2 * GIANT,
				    false};
	int rc = t->stored.p ? chunk_patch(s, &patch, &out) : chunk_encode(s, &t->p, t->src, &out);
	buf_free(&out);
	return rc;
}

/* Returns how many allocations were made to fail. */
static unsigned poor_calls(const struct poor *t)
{
	for (unsigned n = 1;; n++) {
		struct scratch *s;
		if (scratch_open(&s) < 0)
			abort();
		fail_in = n;
		int rc = poor_call(t, s);
		fail_in = 0;
		size_t kept = s->work[0].cap > s->work[1].cap ? s->work[0].cap : s->work[1].cap;
		if (kept > KEPT_MOST) {
			printf("%s, allocation %u: %d, and keeps %zu bytes\n",
			       t->stored.p ? "patch" : "encode", n, rc, kept);
			exit(1);
		}
		scratch_close(s);
		if (rc != -ENOMEM)
			return rc ? 0 : n - 1;
	}
}

static int poor_main(void)
{
	struct poor t = {.src = view_of(calloc(2, GIANT), 2 * (size_t)GIANT)};
	struct scratch *s;
	struct buf stored = {0};
	struct chunk c = {0};
	pipeline_default(&t.p);
	if (!t.src.p || scratch_open(&s) < 0 ||
	    pipeline_parse(&t.p, "shuffle:4+bytedelta+zstd:1", NULL) < 0)
		return 2;
	t.p.blocksize = GIANT;
	for (uint32_t i = 0; i < 2 * GIANT / 4; i++)
		put_le32((uint8_t *)t.src.p + 4 * (size_t)i, i * i / 1000);
	unsigned failed = poor_calls(&t);
	if (!failed || chunk_encode(s, &t.p, t.src, &stored) < 0 ||
	    chunk_parse(&c, buf_view(&stored), stored.n, 0) || c.nblocks != 2)
		return 2;
	t.stored = buf_view(&stored);
	t.c = &c;
	unsigned again = poor_calls(&t);
	chunk_deinit(&c);
	buf_free(&stored);
	scratch_close(s);
	free((uint8_t *)t.src.p);
	printf("%u and %u allocations failed\n", failed, again);
	return again ? 0 : 2;
}

int main(int argc, char **argv)
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
	if (argc > 1 && !strcmp(argv[1], "poor"))
		return poor_main();
	if (!src || !dst || scratch_open(&s) < 0)
		return 2;
	counting = true; /* checks the counting itself: creating a state has to be noticed */
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
