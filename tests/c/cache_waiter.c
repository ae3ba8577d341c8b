/*
 * A thread that waits for another one to fill the cache is told if that fails, and why.
 */
#include "frame/cache.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct cache_key key = {1, 1};
static struct cache *cache;

/* Fails as soon as the other thread is waiting. */
static int fail(void *ctx, struct cache_value *out)
{
	struct cache_counts counts;

	(void)ctx;
	do {
		usleep(1000);
		cache_counts(cache, &counts);
	} while (counts.hits == 0);
	TRY(cache_alloc(cache, 64, out));
	cache_unalloc(cache, out);
	return CORRUPT("the cause", 7);
}

static void *fill(void *arg)
{
	struct cache_entry *e;

	*(int *)arg = cache_get(cache, key, CACHE_USE, (struct cache_fill){fail, NULL}, &e);
	return NULL;
}

int main(void)
{
	struct cache_counts counts;
	struct cache_entry *e;
	char text[ERR_TEXT_MAX];
	pthread_t other;
	int first, rc = cache_open(&cache, 1 << 20);

	if (rc < 0 || pthread_create(&other, NULL, fill, &first))
		return 2;
	do {
		usleep(1000);
		cache_counts(cache, &counts);
	} while (counts.misses == 0);
	rc = cache_get(cache, key, CACHE_USE, (struct cache_fill){fail, NULL}, &e);
	pthread_join(other, NULL);
	cache_close(cache);
	err_text(rc, text);
	bool told = first == -EBADMSG && rc == -EBADMSG && strstr(text, "the cause (7)");
	if (!told)
		fprintf(stderr, "%d, %d: %s\n", first, rc, text);
	return !told;
}
