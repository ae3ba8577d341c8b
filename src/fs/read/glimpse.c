#include "fs/read/glimpse.h"

#define WHOLE 1024 /* shares are fractions of this                     */
#define LATELY 32  /* about how many reads a running share covers */

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

/* Counts one more read, for which `did` holds or not, in a running share. Returns the share. */
static int share_of(atomic_int *share, bool did)
{
	int now = atomic_load_explicit(share, memory_order_relaxed);

	now += ((did ? WHOLE : 0) - now) / LATELY;
	atomic_store_explicit(share, now, memory_order_relaxed);
	return now;
}

bool glimpse_is_enough(struct glimpses *g, uint64_t owner, uint32_t block, bool cached)
{
	bool back = cached || note(g, owner, block);

	return share_of(&g->back, back) < WHOLE / 4 && !back;
}

bool glimpse_came_back(struct glimpses *g, bool cached)
{
	return share_of(&g->cached, cached) > WHOLE / 3 && cached;
}
