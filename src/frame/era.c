#include "frame/era.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/sum.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define EPOCHS_A_SECOND 16
#define NAP_MOST (CLOCK_SECOND / 10)

static struct {
	pthread_mutex_t lock; /* for all below */
	uint32_t epoch;       /* the present one; 0: not begun */
	uint32_t least;       /* of the first: behind those that others have ended */
	uint32_t first;       /* the first that no checkpoint has ended, and no failure spoiled */
	uint32_t end;         /* the first that the checkpoint under way does not end */
	bool ending;          /* it waits for the commits of epochs before that */
	unsigned entered[2];  /* commits under way in even and odd epochs */
	uint64_t young[2];    /* what they have written, by the same rule: era_young */
	struct era_range range[ERA_RANGES];
	unsigned n;
} era = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Atomic uint64_t boot_known;

/* If the boot has no name no two processes agree on one, and more is verified than necessary. */
static uint64_t boot_read(void)
{
	char text[64];
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text);
	if (fd >= 0)
		close(fd);
	if (n > 0)
		return sum64(view_of(text, (size_t)n)) | 1;
	return clock_read(CLOCK_REALTIME) | 1;
}

uint64_t era_boot(void)
{
	uint64_t boot = boot_known;
	if (!boot) {
		uint64_t none = 0;
		boot = boot_read();
		if (!atomic_compare_exchange_strong(&boot_known, &none, boot))
			boot = none;
	}
	return boot;
}

void era_boot_set(uint64_t boot)
{
	boot_known = boot;
}

/* A disk that was removed and came back has lost what it had not written. */
uint64_t era_word(uint64_t mount, uint32_t epoch)
{
	uint64_t names[] = {era_boot(), mount};
	return (sum64(view_of(names, sizeof names)) | 1) << 32 | epoch;
}

bool era_lasts(uint64_t mount, uint64_t word)
{
	return word >> 32 == era_word(mount, 0) >> 32;
}

/* Neighbours differ in their lowest bit: `entered`. */
static void begin_epoch(void)
{
	uint64_t now = clock_read(CLOCK_BOOTTIME) / (CLOCK_SECOND / EPOCHS_A_SECOND);
	uint32_t next = (uint32_t)max_u64(max_u64(now, era.least), era.epoch + 1);
	if (era.epoch == 0)
		era.first = next;
	else if ((next ^ era.epoch) % 2 == 0)
		next++;
	era.epoch = next;
}

uint32_t era_enter(void)
{
	pthread_mutex_lock(&era.lock);
	if (era.epoch == 0)
		begin_epoch();
	uint32_t epoch = era.epoch;
	era.entered[epoch % 2]++;
	pthread_mutex_unlock(&era.lock);
	return epoch;
}

void era_leave(uint32_t epoch, bool young)
{
	pthread_mutex_lock(&era.lock);
	assert(era.entered[epoch % 2]);
	era.entered[epoch % 2]--;
	era.young[epoch % 2] += young;
	pthread_mutex_unlock(&era.lock);
}

void era_spoil(void)
{
	pthread_mutex_lock(&era.lock);
	if (era.epoch)
		era.first = era.epoch + 1;
	pthread_mutex_unlock(&era.lock);
}

bool era_is_durable(uint64_t word)
{
	bool found = false;
	pthread_mutex_lock(&era.lock);
	for (unsigned i = 0; i < era.n && !found; i++)
		found = word >= era.range[i].from && word < era.range[i].to;
	pthread_mutex_unlock(&era.lock);
	return found;
}

static void add(struct era_range r)
{
	if (era.n && era.range[era.n - 1].to == r.from) {
		era.range[era.n - 1].to = r.to;
		return;
	}
	if (era.n == ERA_RANGES)
		memmove(era.range, era.range + 1, --era.n * sizeof *era.range);
	era.range[era.n++] = r;
}

void era_load(uint64_t mount, const struct era_range *r, unsigned n)
{
	pthread_mutex_lock(&era.lock);
	for (unsigned i = 0; i < n; i++) {
		add(r[i]);
		if (era_lasts(mount, r[i].to))
			era.least = (uint32_t)max_u64(era.least, (uint32_t)r[i].to);
	}
	pthread_mutex_unlock(&era.lock);
}

unsigned era_ranges(struct era_range out[static ERA_RANGES])
{
	pthread_mutex_lock(&era.lock);
	unsigned n = era.n;
	memcpy(out, era.range, n * sizeof *out);
	pthread_mutex_unlock(&era.lock);
	return n;
}

uint64_t era_young(void)
{
	pthread_mutex_lock(&era.lock);
	uint64_t young = era.young[0] + era.young[1];
	pthread_mutex_unlock(&era.lock);
	return young;
}

/* Where the last checkpoint has given up waiting, this one is about the same epochs. */
int era_end(uint64_t patience)
{
	uint64_t until = clock_read(CLOCK_MONOTONIC) + patience, pause = CLOCK_SECOND / 1000;
	pthread_mutex_lock(&era.lock);
	if (!era.ending) {
		begin_epoch();
		era.end = era.epoch;
	}
	const unsigned *entered = &era.entered[(era.end - 1) % 2];
	while (*entered && clock_read(CLOCK_MONOTONIC) < until) {
		pthread_mutex_unlock(&era.lock);
		clock_nap(&pause, NAP_MOST);
		pthread_mutex_lock(&era.lock);
	}
	era.ending = *entered;
	int rc = era.ending ? -EAGAIN : 0;
	pthread_mutex_unlock(&era.lock);
	return rc;
}

void era_synced(uint64_t mount)
{
	pthread_mutex_lock(&era.lock);
	if (era.first < era.end) {
		add((struct era_range){era_word(mount, era.first), era_word(mount, era.end)});
		era.first = era.end;
	}
	era.young[(era.end - 1) % 2] = 0;
	pthread_mutex_unlock(&era.lock);
}
