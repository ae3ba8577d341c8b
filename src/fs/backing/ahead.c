#include "fs/backing/ahead.h"

#include "fs/inode/inode.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define THREADS 8      /* at a time, including the caller                          */
#define THREAD_NAMES 4 /* names per thread: starting one takes as long as some reads */
#define THREAD_FDS 512 /* per thread, of the daemon's limit, as it uses two or three */

unsigned ahead_threads(const struct finder *f)
{
	return (unsigned)min_u64(THREADS, inodes_limit(f->inodes) / THREAD_FDS);
}

void ahead_open(struct ahead *a, const struct finder *finder, int dirfd)
{
	*a = (struct ahead){.finder = *finder, .dirfd = dirfd};
	a->finder.ahead = true;
	pthread_mutex_init(&a->lock, NULL);
}

void ahead_close(struct ahead *a)
{
	pthread_mutex_destroy(&a->lock);
	buf_free(&a->names);
}

int ahead_add(struct ahead *a, const struct dirent *d)
{
	mode_t type = d->d_type == DT_UNKNOWN ? S_IFREG : (mode_t)DTTOIF(d->d_type);

	if (names_may_be(d->d_name, type) == NODE_PLAIN)
		return 0;
	TRY(buf_append(&a->names, (struct view){(const uint8_t *)d->d_name,
						strlen(d->d_name) + 1}));
	a->n++;
	return 0;
}

uint64_t ahead_waits(void)
{
	struct rusage used;
	return getrusage(RUSAGE_THREAD, &used) < 0 ? 0 : (uint64_t)used.ru_nvcsw;
}

/* NULL: there are no more. */
static const char *next_name(struct ahead *a)
{
	const char *name = NULL;

	pthread_mutex_lock(&a->lock);
	if (a->next < a->names.n) {
		name = (const char *)a->names.p + a->next;
		a->next += strlen(name) + 1;
	}
	pthread_mutex_unlock(&a->lock);
	return name;
}

/* What fails here will fail again for the listing, which reports it. */
static void *read_headers(void *arg)
{
	struct ahead *a = arg;
	uint64_t before = ahead_waits();
	struct entry e;
	const char *name;

	while ((name = next_name(a)))
		if (entry_show(&a->finder, a->dirfd, name, &e) >= 0)
			close(e.fd);

	pthread_mutex_lock(&a->lock);
	a->waits += ahead_waits() - before;
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

uint64_t ahead_run(struct ahead *a)
{
	pthread_t thread[THREADS - 1];
	unsigned started = 0, most = ahead_threads(&a->finder);

	while (started + 1 < most && (started + 1) * THREAD_NAMES < a->n &&
	       pthread_create(&thread[started], NULL, read_headers, a) == 0)
		started++;
	read_headers(a);
	for (unsigned i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	return a->waits;
}
