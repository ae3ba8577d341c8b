#include "fs/background/checkpoint.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/waker.h"
#include "frame/durable.h"
#include "frame/era.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/*
 * A round lasts as long as ROUND_COMMITS background commits. A checkpoint is made after the first
 * round in which nothing was committed, since the kernel has written most by then; at the latest
 * after ROUNDS_MOST rounds.
 */
#define ROUND_COMMITS 6
#define ROUND_LEAST 0.25 /* seconds */
#define ROUNDS_MOST 10

/* If the kernel has more bytes than this to write, the mount ends without a checkpoint. */
#define LAST_MOST (1u << 30)

struct checkpoint {
	/*
	 * Its descriptor is our own: the kernel reports a failure once per descriptor opened before
	 * it.
	 */
	struct durable dir;
	const atomic_bool *failed;
	double round; /* seconds */
	bool started;
	pthread_t thread;
	struct waker waker;
	bool told; /* that the file system could not be synced; logged once */
};

struct checkpoint *checkpoint_open(const struct backing *backing, bool read_only,
				   const atomic_bool *failed)
{
	struct durable dir;

	if (!backing->numbers_last)
		return NULL;
	int fd = openat(backing->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	bool works = durable_init(&dir, fd);
	if (works) {
		durable_load_above(fd);
		durable_load(&dir);
	}
	struct checkpoint *c = works && !read_only ? mem_zalloc(sizeof *c) : NULL;
	if (!c) {
		close(fd);
		return NULL;
	}
	*c = (struct checkpoint){.dir = dir, .failed = failed};
	waker_init(&c->waker);
	return c;
}

static void make(struct checkpoint *c)
{
	if (atomic_load(c->failed))
		return;
	era_end();
	era_await();
	bool synced = syncfs(c->dir.fd) == 0;
	if (!synced) {
		if (!c->told)
			log_warn("the backing file system could not be synced: %m");
		c->told = true;
		era_spoil();
	}
	if (!synced || atomic_load(c->failed))
		return;
	era_synced(c->dir.mount);
	durable_store(&c->dir);
}

static void *checkpoint_main(void *arg)
{
	struct checkpoint *c = arg;
	uint64_t before = 0;
	unsigned rounds = 0;

	while (waker_sleep_for(&c->waker, c->round)) {
		uint64_t young = era_young();
		if (young && (young == before || rounds == ROUNDS_MOST)) {
			make(c);
			young = 0;
		}
		rounds = young ? rounds + 1 : 0;
		before = young;
	}
	return NULL;
}

int checkpoint_start(struct checkpoint *c, double commit)
{
	if (!c || commit <= 0)
		return 0;
	c->round = ROUND_COMMITS * commit;
	if (c->round < ROUND_LEAST)
		c->round = ROUND_LEAST;
	int rc = -pthread_create(&c->thread, NULL, checkpoint_main, c);
	c->started = rc == 0;
	return rc;
}

void checkpoint_stop(struct checkpoint *c)
{
	if (!c || !c->started)
		return;
	waker_stop(&c->waker);
	pthread_join(c->thread, NULL);
	c->started = false;
}

/* Bytes that the kernel has yet to write, to any disk. */
static uint64_t kernel_dirty(void)
{
	unsigned long long kb, sum = 0;
	unsigned found = 0;
	char line[80];

	FILE *in = fopen("/proc/meminfo", "re");
	while (in && fgets(line, sizeof line, in)) {
		if (sscanf(line, "Dirty: %llu kB", &kb) == 1 ||
		    sscanf(line, "Writeback: %llu kB", &kb) == 1) {
			sum += kb << 10;
			found++;
		}
	}
	if (in)
		fclose(in);
	return found == 2 ? sum : UINT64_MAX;
}

void checkpoint_close(struct checkpoint *c)
{
	if (!c)
		return;
	if (era_young() && kernel_dirty() <= LAST_MOST)
		make(c);
	waker_deinit(&c->waker);
	close(c->dir.fd);
	mem_free(c);
}
