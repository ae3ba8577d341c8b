#include "fs/file/glimpse.h"

#define WHOLE 1024 /* a share of all reads                   */
#define LATELY 32  /* so many reads decide about the next one */

static bool note(struct glimpses *g, uint64_t owner, uint32_t block)
{
	uint64_t hash = (owner * 0x9e3779b97f4a7c15u + block) * 0xc2b2ae3d27d4eb4fu;
	atomic_uint *at = &g->note[(hash >> 20) % GLIMPSES];
	unsigned mark = (unsigned)(hash >> 32) | 1;
	bool there = atomic_load_explicit(at, memory_order_relaxed) == mark;

	if (!there)
		atomic_store_explicit(at, mark, memory_order_relaxed);
	return there;
}

bool glimpse(struct glimpses *g, uint64_t owner, uint32_t block, bool cached)
{
	bool back = cached || note(g, owner, block);
	int share = atomic_load_explicit(&g->back, memory_order_relaxed);

	share += ((back ? WHOLE : 0) - share) / LATELY;
	atomic_store_explicit(&g->back, share, memory_order_relaxed);
	return !back && share < WHOLE / 4;
}
