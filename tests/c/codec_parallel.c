/*
 * Encoding and decoding the blocks of a chunk on a pool gives the same bytes as one thread does,
 * and the same error for a broken block, whether other threads or workers of the pool ask for it.
 *
 *   codec_parallel ROUNDS SEED
 */
#include "codec/parallel.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#define CALLERS 3
#define WORKERS 3

#define CHECK(x)                                                                          \
	do {                                                                              \
		if (!(x)) {                                                               \
			fprintf(stderr, "line %d, seed %llu: %s\n", __LINE__,             \
				(unsigned long long)seed, #x);                            \
			exit(1);                                                          \
		}                                                                         \
	} while (0)

static _Thread_local struct scratch *mine;
static pthread_key_t mine_key; /* closes it when the thread ends */
static unsigned long long seed;

static void close_scratch(void *s)
{
	scratch_close(s);
}

static struct scratch *scratch_of_thread(void)
{
	if (!mine) {
		if (scratch_open(&mine) < 0)
			return NULL;
		pthread_setspecific(mine_key, mine);
	}
	return mine;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state * 0x2545F4914F6CDD1Du >> 16;
}

static void fill(uint64_t *rng, uint8_t *p, size_t n)
{
	size_t i = 0;
	while (i < n) {
		size_t part = next_random(rng) % 6000 + 1, kind = next_random(rng) % 4;
		for (; part && i < n; part--, i++)
			p[i] = kind == 0   ? 0
			       : kind == 1 ? (uint8_t)(i / 3)
			       : kind == 2 ? (uint8_t)next_random(rng)
					   : (uint8_t)"a line of text, "[i % 16];
	}
}

/* Noise, except for so few bytes that the codec hardly saves more than the block tables take. */
static void fill_with_noise(uint64_t *rng, uint8_t *p, size_t n)
{
	size_t run = next_random(rng) % 300, at = next_random(rng) % n;

	for (size_t i = 0; i < n; i++)
		p[i] = i >= at && i - at < run ? 7 : (uint8_t)next_random(rng);
}

static struct pipeline some_pipeline(uint64_t *rng)
{
	static const char *const text[] = {
		"zstd:1",
		"lz4",
		"shuffle:4+lz4",
		"shuffle:8+zstd:1",
		"bitshuffle:4+blosclz",
		"shuffle:8+bytedelta+blosclz:5",
		"delta:4+shuffle+lz4",
		"shuffle:3+zlib:1",
		"lz4hc:2",
	};
	struct pipeline p;
	pipeline_default(&p);
	CHECK(!pipeline_parse(&p, text[next_random(rng) % 9], NULL));
	p.blocksize = p.typesize * (uint32_t)(next_random(rng) % 3000 + 8);
	p.use_dict = p.codec == 5 && next_random(rng) % 8 == 0;
	return p;
}

/* Some ranges of blocks, and all of them with one byte changed: the same result as one thread's. */
static void check_decode(struct parallel *par, struct buf *chunk, struct view src, uint64_t *rng)
{
	struct chunk c = {0};
	CHECK(!chunk_parse(&c, buf_view(chunk), chunk->n, 0));
	uint8_t *dst = malloc(src.n), *single = malloc(src.n);
	struct run run = {0, c.nblocks};
	struct extent e = chunk_extent(&c, run);
	struct view stored = view_of(chunk->p + e.off, e.len);
	CHECK(!parallel_decode(par, &c, run, stored, span_of(dst, src.n)));
	CHECK(!memcmp(dst, src.p, src.n));
	run.first = (uint32_t)(next_random(rng) % c.nblocks);
	run.n = (uint32_t)(next_random(rng) % (c.nblocks - run.first)) + 1;
	if (chunk_wants_ref(&c)) {
		struct extent first = chunk_extent(&c, (struct run){0, 1});
		CHECK(!chunk_load_ref(&c, mine, view_of(chunk->p + first.off, first.len)));
	}
	struct extent part = chunk_extent(&c, run);
	uint32_t n = chunk_run_bytes(&c, run), off = chunk_block_bytes(&c, run.first).off;
	CHECK(!parallel_decode(par, &c, run, view_of(chunk->p + part.off, part.len),
			       span_of(dst, n)));
	CHECK(!memcmp(dst, src.p + off, n));
	/* With delta, the reference block was loaded before the damage. */
	if (e.len && !chunk_wants_ref(&c)) {
		chunk->p[e.off + next_random(rng) % e.len] ^= 0x55;
		run = (struct run){0, c.nblocks};
		int rc = parallel_decode(par, &c, run, stored, span_of(dst, src.n));
		CHECK(rc == chunk_decode(&c, mine, run, stored, span_of(single, src.n)));
		CHECK(rc || !memcmp(dst, single, src.n));
	}
	chunk_deinit(&c);
	free(dst);
	free(single);
}

static void one_round(struct parallel *par, uint64_t *rng)
{
	struct pipeline p = some_pipeline(rng);
	size_t n = next_random(rng) % 300000 + 1;
	uint8_t *src = malloc(n);
	struct buf a = {0}, b = {0};
	if (next_random(rng) % 4 == 0) {
		/* sizes that plain blocks may have, too */
		p.blocksize = 64u << (next_random(rng) % 2 * 2 + 8);
		fill_with_noise(rng, src, n);
	} else {
		fill(rng, src, n);
	}
	CHECK(!parallel_encode(par, &p, view_of(src, n), &a));
	CHECK(!chunk_encode(scratch_of_thread(), &p, view_of(src, n), &b));
	CHECK(a.n == b.n && !memcmp(a.p, b.p, a.n));
	check_decode(par, &a, view_of(src, n), rng);
	buf_free(&a);
	buf_free(&b);
	free(src);
}

struct caller {
	struct pool_job job; /* first: some callers are workers themselves */
	struct pool *pool;
	uint64_t rng;
	int rounds;
	struct parallel *par;
	sem_t done;
};

static void call(struct caller *c)
{
	CHECK(!parallel_open(&c->par, c->pool, scratch_of_thread));
	for (int i = 0; i < c->rounds; i++)
		one_round(c->par, &c->rng);
	/* Closing waits for the pool, which a worker may not do: main does. */
	sem_post(&c->done);
}

static void call_in_pool(struct pool_job *job)
{
	call((struct caller *)job);
}

static void *call_in_thread(void *arg)
{
	call(arg);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	int rounds = atoi(argv[1]);
	seed = strtoull(argv[2], NULL, 10) * 2 + 1;
	struct pool *pool;
	pthread_key_create(&mine_key, close_scratch);
	CHECK(!pool_open(&pool, WORKERS));
	static struct caller caller[CALLERS + WORKERS];
	pthread_t thread[CALLERS];
	for (unsigned i = 0; i < CALLERS + WORKERS; i++) {
		struct caller *c = &caller[i];
		*c = (struct caller){{call_in_pool, NULL}, .pool = pool, .rng = seed * 31 + 2 * i,
				     .rounds = rounds};
		sem_init(&c->done, 0, 0);
		if (i < CALLERS)
			CHECK(!pthread_create(&thread[i], NULL, call_in_thread, c));
		else
			pool_submit(pool, &c->job, POOL_LATER);
	}
	for (unsigned i = 0; i < CALLERS + WORKERS; i++) {
		sem_wait(&caller[i].done);
		if (i < CALLERS)
			pthread_join(thread[i], NULL);
		parallel_close(caller[i].par);
	}
	pool_close(pool);
	printf("%d rounds of %d callers\n", rounds, CALLERS + WORKERS);
	return 0;
}
