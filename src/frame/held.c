#include "frame/held.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

static _Atomic uint64_t bytes_held, bound = UINT64_MAX;
static atomic_bool refused;
static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;

void held_bound(uint64_t most)
{
	bound = most;
}

bool held_take(uint64_t bytes, bool must)
{
	uint64_t now = bytes_held;

	/* Not by adding first and checking afterwards: others would be refused meanwhile. */
	do
		if (!must && (now > bound || bytes > bound - now)) {
			refused = true;
			return false;
		}
	while (!atomic_compare_exchange_weak(&bytes_held, &now, now + bytes));
	return true;
}

bool held_has_refused(void)
{
	return atomic_exchange(&refused, false);
}

void held_give(uint64_t bytes)
{
	uint64_t before = atomic_fetch_sub(&bytes_held, bytes);

	assert(before >= bytes);
	(void)before;
}

uint64_t held_bytes(void)
{
	return bytes_held;
}

uint64_t held_most(void)
{
	return bound;
}

void held_enter(uint64_t bytes)
{
	if (bytes > HELD_FREE)
		pthread_mutex_lock(&alone);
}

void held_leave(uint64_t bytes)
{
	if (bytes > HELD_FREE)
		pthread_mutex_unlock(&alone);
}
