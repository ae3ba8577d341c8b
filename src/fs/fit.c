#include "fs/fit.h"

#include "base/log.h"
#include "base/pool.h"
#include "fs/cgroup.h"
#include "fs/large.h"

#include <sys/resource.h>

/* Lowers cache and dirty_max to these bounds. False: both are already within them. */
static bool lower(struct options *o, uint64_t cache, uint64_t dirty_max)
{
	if (o->cache <= cache && o->dirty_max <= dirty_max)
		return false;
	o->cache = min_u64(o->cache, cache);
	o->dirty_max = min_u64(o->dirty_max, dirty_max);
	options_set_sizes_most(o);
	return true;
}

static void tell(const struct options *o, const char *what, uint64_t limit)
{
	log_info("%s is limited to %llu MiB: cache %llu, dirty_max %llu", what,
		 (unsigned long long)limit >> 20, (unsigned long long)o->cache >> 20,
		 (unsigned long long)o->dirty_max >> 20);
}

/* Shares of a memory limit: a quarter for the cache, half of that for dirty data. */
#define MEMORY_SHARE 4
/*
 * What the daemon takes in addition to both, and to indexes of up to the cache's size:
 * docs/LIMITS.md, "Memory".
 */
#define MEMORY_THREADS (64u << 20)
#define MEMORY_BESIDE (MEMORY_THREADS + LARGE_BEYOND)

/* No option lowers what threads take. */
static void tell_too_little(const struct options *o, uint64_t limit)
{
	uint64_t most = o->cache + o->dirty_max + MEMORY_THREADS;

	if (limit < most)
		log_warn("up to %llu MiB of memory may be needed, and the limit is %llu: with many "
			 "requests at once the daemon may be killed",
			 (unsigned long long)most >> 20, (unsigned long long)limit >> 20);
}

void fit_memory(struct options *o)
{
	uint64_t limit = cgroup_memory(), share = max_u64(limit / MEMORY_SHARE, 2 << 20);

	if (o->cache <= limit && o->dirty_max <= limit - o->cache &&
	    limit - o->cache - o->dirty_max >= o->cache + MEMORY_BESIDE)
		return;
	if (lower(o, share, share / 2))
		tell(o, "memory", limit);
	tell_too_little(o, limit);
}

/* Shares of a limited address space: an eighth each for cache, dirty data and threads. */
#define SPACE_SHARE 8
#define THREAD_SPACE (2u << 20) /* stack, and the buffers for its requests */
#define THREADS_MIN 4

unsigned fit_space(struct options *o, unsigned threads)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_AS, &lim) < 0)
		lim.rlim_cur = RLIM_INFINITY;
	uint64_t limit = min_u64(lim.rlim_cur, SIZE_MAX); /* 32-bit pointers are a limit, too */
	if (limit == RLIM_INFINITY)
		return threads;
	uint64_t share = max_u64(limit / SPACE_SHARE, 1 << 20);
	if (lower(o, share, share))
		tell(o, "address space", limit);
	pool_small_stacks();
	/* only half of the share: workers and their buffers take the other half */
	return (unsigned)max_u64(min_u64(threads, share / (2 * THREAD_SPACE)), THREADS_MIN);
}
