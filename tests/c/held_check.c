/*
 * A request for memory beyond the bound is refused, and does not cause others to be refused
 * meanwhile.
 */
#include "frame/held.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define BOUND (1u << 20)

static atomic_bool stop;

static void *ask_too_much(void *arg)
{
	while (!stop)
		*(bool *)arg |= held_take(2 * BOUND, false);
	return NULL;
}

int main(void)
{
	unsigned long refused = 0;
	bool granted = false;
	pthread_t other;

	held_bound(BOUND);
	if (pthread_create(&other, NULL, ask_too_much, &granted))
		return 2;
	for (unsigned i = 0; i < 1000000; i++) {
		if (held_take(100, false))
			held_give(100);
		else
			refused++;
	}
	stop = true;
	pthread_join(other, NULL);
	if (refused || granted || held_bytes())
		fprintf(stderr, "refused %lu times; held %lu\n", refused,
			(unsigned long)held_bytes());
	return refused || granted || held_bytes();
}
