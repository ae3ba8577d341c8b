#include "workbench.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>

static pthread_key_t key;

/*
 * A file takes two descriptors, its own and its source's, and one more briefly, and may be the last
 * user of its directory's. A level of the tree takes two. In addition there are the standard ones,
 * those of the source, the target and its folder, and a few that are open briefly, as when a
 * directory is listed.
 */
#define FILE_FDS 4
#define LEVEL_FDS 2
#define OTHER_FDS 12

unsigned workbench_files(unsigned depth)
{
	struct rlimit lim = {0};
	uint64_t taken = OTHER_FDS + (uint64_t)depth * LEVEL_FDS;

	(void)getrlimit(RLIMIT_NOFILE, &lim);
	if (lim.rlim_cur < taken + FILE_FDS)
		return 1;
	return (unsigned)min_u64(FILES_MAX, (lim.rlim_cur - taken) / FILE_FDS);
}

static void workbench_free(void *p)
{
	struct workbench *b = p;

	if (!b)
		return;
	parallel_close(b->parallel);
	scratch_close(b->s);
	buf_free(&b->b);
	mem_free(b);
}

#define OTHER_SPACE (32u << 20) /* for the program, and for whatever else it does */

/*
 * Where the address space is limited (ulimit -v, as in batch systems): malloc would take 64 MiB of
 * it for each thread, and there may be many processors.
 */
static unsigned fit_space(unsigned n, uint64_t each)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_AS, &lim) < 0 || lim.rlim_cur == RLIM_INFINITY)
		return n;
	(void)mallopt(M_ARENA_MAX, 1);
	pool_small_stacks();
	uint64_t all = max_u64(lim.rlim_cur, OTHER_SPACE) - OTHER_SPACE;
	return (unsigned)min_u64(n, max_u64(all / each, 1));
}

int workbenches_open(struct pool **pool, unsigned n, uint64_t each)
{
	int rc;

	n = fit_space(n, each);
	TRY(-pthread_key_create(&key, workbench_free));
	while ((rc = pool_open(pool, n)) == -EAGAIN && n)
		n /= 2;
	if (rc < 0)
		(void)pthread_key_delete(key);
	return rc;
}

void workbenches_close(struct pool *pool)
{
	if (!pool)
		return;
	pool_close(pool);
	workbench_free(pthread_getspecific(key)); /* this thread's, if it did the work */
	(void)pthread_key_delete(key);
}

struct workbench *workbench_get(void)
{
	struct workbench *b = pthread_getspecific(key);

	if (b)
		return b;
	b = mem_zalloc(sizeof *b);
	if (b && (scratch_open(&b->s) < 0 || pthread_setspecific(key, b) != 0)) {
		workbench_free(b);
		return NULL;
	}
	return b;
}

void workbench_trim(void)
{
	struct workbench *b = pthread_getspecific(key);

	if (b)
		scratch_trim(b->s);
}

static struct scratch *own_scratch(void)
{
	struct workbench *b = workbench_get();
	return b ? b->s : NULL;
}

int workbench_encode(struct workbench *b, struct pool *pool, const struct pipeline *p,
		     struct view plain)
{
	bool shared = pool && plain.n >= PARALLEL_MIN && pool_is_idle(pool);

	if (shared && !b->parallel)
		shared = parallel_open(&b->parallel, pool, own_scratch) == 0;
	return shared ? parallel_encode(b->parallel, p, plain, &b->b)
		      : chunk_encode(b->s, p, plain, &b->b);
}
