#include "fs/checkpoint.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/waker.h"
#include "frame/era.h"
#include "frame/io/io.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

/*
 * A round is so many background commits; a checkpoint is made in the first one in which nothing was
 * committed, when the kernel has written most already. At the latest in the last of so many.
 */
#define ROUND_COMMITS 6
#define ROUND_LEAST 0.25 /* seconds */
#define ROUNDS_MOST 10

/* With more bytes that the kernel has to write, the mount ends without one. */
#define LAST_MOST (1u << 30)

#define VALUE_HEAD 16
#define VALUE_RANGE 16
#define VALUE_MOST (VALUE_HEAD + ERA_RANGES * VALUE_RANGE)

struct checkpoint {
	int fd; /* of the directory: a failure is told once to each that was opened before it */
	const atomic_bool *failed;
	uint64_t mount; /* io_mount of the backing directory */
	uint8_t head[VALUE_HEAD]; /* of the attribute */
	double round;   /* seconds */
	bool started;
	pthread_t thread;
	struct waker waker;
	bool told; /* that the file system could not be synced; logged once */
};

static bool put_head(int dir, uint8_t p[static VALUE_HEAD])
{
	struct stat st;
	uint64_t birth;

	if (backing_look(dir, &st, &birth) < 0 || !birth)
		return false;
	put_le64(p, st.st_ino);
	put_le64(p + 8, birth);
	return true;
}

/* What is no value of ours, or a copy of another directory's, says nothing. */
static void read_ranges(const struct checkpoint *c)
{
	uint8_t value[VALUE_MOST];
	struct era_range range[ERA_RANGES];
	unsigned nranges = 0;

	ssize_t n = fgetxattr(c->fd, CHECKPOINT_ATTRIBUTE, value, sizeof value);
	if (n < VALUE_HEAD || n % VALUE_RANGE || memcmp(value, c->head, VALUE_HEAD) != 0)
		return;
	for (const uint8_t *p = value + VALUE_HEAD; p < value + n; p += VALUE_RANGE)
		range[nranges++] = (struct era_range){get_le64(p), get_le64(p + 8)};
	era_load(c->mount, range, nranges);
}

/*
 * As many as there is room for: ext4 has one block for all attributes of a directory. What cannot
 * be stored, the next mount does not know. The value is as durable as other changes of directories,
 * and never before what it tells of.
 */
static void store_ranges(const struct checkpoint *c)
{
	uint8_t value[VALUE_MOST];
	struct era_range range[ERA_RANGES];
	unsigned n = era_ranges(range);
	int rc = -1;

	memcpy(value, c->head, VALUE_HEAD);
	for (unsigned first = 0; rc < 0 && first < n; first += (n - first + 1) / 2) {
		uint8_t *p = value + VALUE_HEAD;
		for (unsigned i = first; i < n; i++, p += VALUE_RANGE) {
			put_le64(p, range[i].from);
			put_le64(p + 8, range[i].to);
		}
		rc = fsetxattr(c->fd, CHECKPOINT_ATTRIBUTE, value, (size_t)(p - value), 0);
		if (rc < 0 && errno != ENOSPC)
			break;
	}
	if (rc < 0 && n)
		log_debug("checkpoint: %m");
}

static uint64_t mount_of(int fd)
{
	struct io *io;

	if (io_file_open(&io, fd) < 0)
		return 0;
	uint64_t mount = io_mount(io);
	io_close(io);
	return mount;
}

struct checkpoint *checkpoint_open(const struct backing *backing, bool read_only,
				   const atomic_bool *failed)
{
	struct checkpoint *c = backing->numbers_last ? mem_zalloc(sizeof *c) : NULL;
	if (!c)
		return NULL;
	*c = (struct checkpoint){.failed = failed};
	c->fd = openat(backing->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->fd >= 0)
		c->mount = mount_of(c->fd);
	bool works = c->mount && put_head(c->fd, c->head);
	if (works)
		read_ranges(c);
	if (!works || read_only) {
		if (c->fd >= 0)
			close(c->fd);
		mem_free(c);
		return NULL;
	}
	waker_init(&c->waker);
	return c;
}

static void make(struct checkpoint *c)
{
	if (atomic_load(c->failed))
		return;
	era_end();
	bool synced = syncfs(c->fd) == 0;
	if (!synced) {
		if (!c->told)
			log_warn("the backing file system could not be synced: %m");
		c->told = true;
		era_spoil();
	}
	if (!synced || atomic_load(c->failed))
		return;
	era_synced(c->mount);
	store_ranges(c);
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
			young = rounds = 0;
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
	close(c->fd);
	mem_free(c);
}
