#include "frame/era.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/sum.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define EPOCH_NS (CLOCK_SECOND / 16)

static struct {
	pthread_mutex_t lock; /* for all below */
	uint32_t last;        /* the last epoch used; they never go back */
	uint32_t sound;       /* the first of this process, or since a sync failed; 0: none yet */
	uint32_t done;        /* the first epoch after those that checkpoints have ended */
	uint32_t end;         /* the first epoch that the checkpoint under way does not end */
	uint64_t young, ended; /* era_young; and how many of those this checkpoint covers */
	struct era_range range[ERA_RANGES];
	unsigned n;
} era = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Atomic uint64_t boot_known;

/*
 * If there is no boot_id, processes do not agree on a number, and more is verified than necessary.
 */
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

/* The mount counts, too: a disk that was removed and came back has lost what it had not written. */
uint64_t era_word(uint64_t mount, uint32_t epoch)
{
	uint64_t names[] = {era_boot(), mount};
	return (sum64(view_of(names, sizeof names)) | 1) << 32 | epoch;
}

bool era_lasts(uint64_t mount, uint64_t word)
{
	return word >> 32 == era_word(mount, 0) >> 32;
}

static uint32_t name_epoch(void)
{
	uint64_t now = clock_read(CLOCK_BOOTTIME) / EPOCH_NS;
	uint64_t epoch = max_u64(max_u64(now, era.last), 1);
	era.last = (uint32_t)min_u64(epoch, UINT32_MAX);
	if (!era.sound)
		era.sound = era.last;
	return era.last;
}

/* An epoch not used before. When the numbers run out there is none, and no more checkpoints. */
static uint32_t begin_epoch(void)
{
	uint32_t before = era.last;
	if (name_epoch() == before && before < UINT32_MAX)
		era.last++;
	return era.last;
}

uint32_t era_now(void)
{
	pthread_mutex_lock(&era.lock);
	uint32_t epoch = name_epoch();
	pthread_mutex_unlock(&era.lock);
	return epoch;
}

uint32_t era_root(uint32_t since)
{
	pthread_mutex_lock(&era.lock);
	uint32_t epoch = name_epoch();
	if (since < era.sound)
		epoch = 0;
	else
		era.young++;
	pthread_mutex_unlock(&era.lock);
	return epoch;
}

void era_spoil(void)
{
	pthread_mutex_lock(&era.lock);
	era.sound = begin_epoch();
	pthread_mutex_unlock(&era.lock);
}

static bool is_known(uint64_t first, uint64_t last)
{
	for (unsigned i = 0; i < era.n; i++)
		if (first >= era.range[i].from && last < era.range[i].to)
			return true;
	return false;
}

bool era_is_durable(uint64_t word)
{
	pthread_mutex_lock(&era.lock);
	bool found = is_known(word, word);
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

/*
 * A range across eras would include whatever was written in those between, which nobody has synced.
 */
static bool makes_sense(struct era_range r)
{
	return r.from >> 32 == r.to >> 32 && (uint32_t)r.from;
}

void era_load(uint64_t mount, const struct era_range *r, unsigned n)
{
	pthread_mutex_lock(&era.lock);
	for (unsigned i = 0; i < n; i++) {
		if (!makes_sense(r[i]))
			continue;
		if (!is_known(r[i].from, r[i].to - 1)) /* two directories may have the same range */
			add(r[i]);
		if (era_lasts(mount, r[i].to))
			era.last = (uint32_t)max_u64(era.last, (uint32_t)r[i].to);
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
	uint64_t young = era.young;
	pthread_mutex_unlock(&era.lock);
	return young;
}

void era_end(void)
{
	pthread_mutex_lock(&era.lock);
	era.end = begin_epoch();
	era.ended = era.young;
	pthread_mutex_unlock(&era.lock);
}

void era_await(void)
{
	uint64_t now = clock_read(CLOCK_BOOTTIME);
	pthread_mutex_lock(&era.lock);
	bool early = era.end > now / EPOCH_NS;
	pthread_mutex_unlock(&era.lock);
	if (!early)
		return;
	clock_sleep(EPOCH_NS - now % EPOCH_NS);
	now = clock_read(CLOCK_BOOTTIME);
	pthread_mutex_lock(&era.lock);
	era.end = (uint32_t)min_u64(era.end, now / EPOCH_NS);
	pthread_mutex_unlock(&era.lock);
}

void era_synced(uint64_t mount)
{
	pthread_mutex_lock(&era.lock);
	uint32_t from = era.sound > era.done ? era.sound : era.done;
	if (from < era.end) {
		add((struct era_range){era_word(mount, from), era_word(mount, era.end)});
		era.done = era.end;
	}
	era.young -= era.ended;
	era.ended = 0;
	pthread_mutex_unlock(&era.lock);
}
