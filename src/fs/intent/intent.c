#include "fs/intent/intent.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/meter.h"
#include "fs/stats.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

/*
 * Space is allocated in steps: an fsync within allocated space needs no commit of the backing file
 * system's journal.
 */
#define STEP (4u << 20)
#define SHARE 16    /* the log takes at most this part of the file system */
#define SPARE 4     /* this many times the log has to be free, so that the frames can catch up */
#define MAX_OWED 64

struct intent {
	const struct backing *backing;
	uint64_t max;
	void (*wake)(void *);
	void *ctx;

	pthread_mutex_t lock;      /* for all below */
	pthread_cond_t synced_more;
	int fd;                    /* -1: no file yet */
	ino_t inode;               /* of that file, as it is found by its name */
	uint64_t generation, sequence;
	uint64_t at, room;         /* in the file: the end of the records, and of allocated space */
	uint64_t appended, synced; /* bytes, over all generations */
	bool syncing;
	bool full, broken;         /* no space, or a failure of the disk: is_stuck */
	bool aside;                /* its file has a second name, by which it will be kept */
	bool told;                 /* it was logged that its file could not get one */
	unsigned needed;           /* files with records that are needed; among them ... */
	unsigned removed;          /* ... those whose removal has to be durable, and ... */
	atomic_uint stranded;      /* ... those for which the log's file needs a second name */
	int owed[MAX_OWED];        /* descriptors to be synced (intent_owe), one for each file */
	unsigned nowed;
	uint64_t last;             /* meter_now when the latest record came */
};

int intent_open(struct intent **out, const struct backing *backing, uint64_t max)
{
	struct statvfs vfs;

	*out = NULL;
	/* records name files by number: after a crash they would not be found, or others would */
	if (!backing->numbers_last)
		return 0;
	if (fstatvfs(backing->root, &vfs) == 0)
		max = min_u64(max, (uint64_t)vfs.f_blocks * vfs.f_frsize / SHARE);
	struct intent *log = mem_zalloc(sizeof *log);
	if (!log)
		return -ENOMEM;
	log->backing = backing;
	log->max = max;
	log->fd = -1;
	pthread_mutex_init(&log->lock, NULL);
	pthread_cond_init(&log->synced_more, NULL);
	*out = log;
	return 0;
}

void intent_on_work(struct intent *log, void (*wake)(void *), void *ctx)
{
	if (!log)
		return;
	log->wake = wake;
	log->ctx = ctx;
}

/*
 * True: the next mount will find the file, with everything that was appended. A user who tidies up
 * the backing directory, or restores an older state of it, may have removed or replaced it.
 */
static bool is_in_place(const struct intent *log)
{
	struct stat st;

	return fstatat(log->backing->root, NAMES_INTENT, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_ino == log->inode && S_ISREG(st.st_mode) && (uint64_t)st.st_size >= log->at;
}

static void drop_file(struct intent *log)
{
	struct stat st;

	if (log->fd < 0)
		return;
	close(log->fd);
	log->fd = -1;
	if (fstatat(log->backing->root, NAMES_INTENT, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_ino != log->inode)
		return; /* not ours */
	if (unlinkat(log->backing->root, NAMES_INTENT, 0) < 0 && errno != ENOENT)
		log_warn(NAMES_INTENT ": cannot be removed: %m");
}

void intent_close(struct intent *log)
{
	if (!log)
		return;
	intent_retry_aside(log);
	for (unsigned i = 0; i < log->nowed; i++)
		close(log->owed[i]);
	if (log->needed && log->fd >= 0)
		close(log->fd); /* for the next mount */
	else
		drop_file(log);
	pthread_cond_destroy(&log->synced_more);
	pthread_mutex_destroy(&log->lock);
	mem_free(log);
}

/* Sets its mode, and makes its name durable, too. */
static int settle_file(struct intent *log)
{
	struct stat st;

	/* this thread may have the umask of a user for whom it has created a file (caller.h) */
	if (fchmod(log->fd, 0600) < 0 ||
	    fstatat(log->backing->root, NAMES_INTENT, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	log->inode = st.st_ino;
	if (log->backing->lock >= 0 && fsync(log->backing->lock) < 0 && errno != EINVAL)
		return -errno;
	return 0;
}

/* After a failure there is no file, so the next attempt starts from the beginning. */
static int make_file(struct intent *log)
{
	log->fd = openat(log->backing->root, NAMES_INTENT,
			 O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (log->fd < 0)
		return -errno;
	log->room = 0;
	int rc = settle_file(log);
	if (rc < 0) {
		close(log->fd);
		log->fd = -1;
		IGNORE(unlinkat(log->backing->root, NAMES_INTENT, 0)); /* else the next try fails */
	}
	return rc;
}

/* No record is needed: the next one is the first of a new generation. The lock is held. */
static void start_over(struct intent *log)
{
	static const uint8_t nothing[8];

	while (log->syncing)
		pthread_cond_wait(&log->synced_more, &log->lock);
	if (log->needed)
		return;
	if (log->broken || log->aside)
		drop_file(log);
	else if (log->fd >= 0 && log->at)
		/* may not reach the disk: old records are recognised anyway */
		IGNORE(pwrite(log->fd, nothing, sizeof nothing, 0));
	log->generation = max_u64(log->generation + 1, clock_read(CLOCK_REALTIME));
	log->sequence = log->at = 0;
	log->synced = log->appended; /* all of it is safe elsewhere */
	log->full = log->broken = log->aside = log->told = false;
}

/*
 * On a disk that is nearly full an fsync should find that out itself, and not promise what no
 * commit can keep.
 */
static bool is_roomy(const struct intent *log)
{
	struct statvfs vfs;
	return fstatvfs(log->backing->root, &vfs) == 0 &&
	       (uint64_t)vfs.f_bavail * vfs.f_frsize / SPARE >= log->max;
}

static int make_room(struct intent *log, uint64_t end)
{
	if (end > log->max || !is_roomy(log))
		return -ENOSPC;
	if (end <= log->room)
		return 0;
	uint64_t room = min_u64(ceil_div(end, STEP) * STEP, log->max);
	if (fallocate(log->fd, 0, (off_t)log->room, (off_t)(room - log->room)) < 0 &&
	    errno != EOPNOTSUPP)
		return -errno;
	log->room = room;
	return 0;
}

/* True: the log takes no records until none is needed. */
static bool is_stuck(const struct intent *log)
{
	return log->full || log->broken || log->aside || log->stranded;
}

static int append(struct intent *log, struct span record)
{
	if (!log->needed)
		start_over(log);
	if (is_stuck(log))
		return -ENOSPC;
	bool had = log->fd >= 0, gone = had && !is_in_place(log);
	if (gone)
		log_warn(NAMES_INTENT ": was taken away or replaced: all is committed instead");
	int rc = gone ? -ENOENT : had ? 0 : make_file(log);
	if (rc >= 0)
		rc = make_room(log, log->at + record.n);
	if (rc >= 0) {
		intent_record_number(record, log->generation, log->sequence);
		rc = fd_pwrite(log->fd, log->at, span_view(record));
		stats_add(STATS_LOG_RECORDS, 1);
		stats_add(STATS_LOG_BYTES, record.n);
	}
	if (err_is_full(rc))
		log->full = true;
	else if (rc < 0)
		log->broken = true;
	return rc;
}

int intent_append(struct intent *log, struct span record, struct intent_mark *mark)
{
	pthread_mutex_lock(&log->lock);
	bool first = !log->needed;
	int rc = append(log, record);
	if (rc >= 0) {
		log->at += record.n;
		log->sequence++;
		log->appended += record.n;
		mark->end = log->appended;
		log->needed += !mark->logged;
		mark->logged = true;
		log->last = meter_now();
	}
	bool wake = log->wake && log->needed && (first || rc < 0);
	pthread_mutex_unlock(&log->lock);
	if (wake)
		log->wake(log->ctx);
	return rc;
}

int intent_sync(struct intent *log, uint64_t end)
{
	pthread_mutex_lock(&log->lock);
	while (log->synced < end && !log->broken) {
		if (log->syncing) {
			pthread_cond_wait(&log->synced_more, &log->lock);
			continue;
		}
		uint64_t all = log->appended;
		log->syncing = true;
		pthread_mutex_unlock(&log->lock);
		int rc = fdatasync(log->fd);
		stats_add(STATS_LOG_SYNCS, 1);
		pthread_mutex_lock(&log->lock);
		log->syncing = false;
		if (rc < 0)
			/* what the disk has of it is not known, and another try would not tell */
			log->broken = true;
		else
			log->synced = all;
		pthread_cond_broadcast(&log->synced_more);
	}
	int rc = log->synced >= end ? 0 : -EIO;
	pthread_mutex_unlock(&log->lock);
	return rc;
}

bool intent_has(struct intent *log, const struct intent_mark *mark)
{
	if (!log)
		return false;
	pthread_mutex_lock(&log->lock);
	bool has = mark->logged;
	pthread_mutex_unlock(&log->lock);
	return has;
}

/*
 * 1 if the log has records of the file that are needed: from now on its mark does not say so, and
 * the caller counts the file. The lock is held.
 */
static unsigned take(struct intent_mark *mark)
{
	bool was = mark->logged;

	mark->logged = false;
	return was;
}

/*
 * The records of `files` files are no longer needed. The lock is held, but may be released
 * meanwhile.
 */
static void forget(struct intent *log, unsigned files)
{
	assert(files <= log->needed);
	log->needed -= files;
	if (files && !log->needed)
		start_over(log);
}

void intent_done(struct intent *log, struct intent_mark *mark)
{
	if (!log)
		return;
	pthread_mutex_lock(&log->lock);
	forget(log, take(mark));
	pthread_mutex_unlock(&log->lock);
}

bool intent_owe(struct intent *log, struct intent_mark *mark, int fd)
{
	pthread_mutex_lock(&log->lock);
	int copy = mark->logged && log->nowed < MAX_OWED ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
	if (copy >= 0)
		log->owed[log->nowed++] = copy;
	bool taken = copy >= 0 ? take(mark) : !mark->logged;
	pthread_mutex_unlock(&log->lock);
	return taken;
}

void intent_aside_name(unsigned number, char out[static INTENT_ASIDE_SIZE])
{
	snprintf(out, INTENT_ASIDE_SIZE, INTENT_ASIDE "%u", number);
}

/*
 * Makes a hard link, so that the next mount still finds the records of the other files, as long as
 * these are needed.
 */
static void give_second_name(struct intent *log)
{
	char name[INTENT_ASIDE_SIZE];

	for (unsigned i = 1; !log->aside && i <= INTENT_ASIDE_MOST; i++) {
		intent_aside_name(i, name);
		if (linkat(log->backing->root, NAMES_INTENT, log->backing->root, name, 0) == 0) {
			log->aside = true;
			log_err("%s: keeps what was synced and is not in its file", name);
		} else if (errno != EEXIST) {
			if (!log->told)
				log_err(NAMES_INTENT ": cannot be kept as %s: %m", name);
			log->told = true;
			return;
		}
	}
}

/* The lock is held, but may be released meanwhile. What stays stranded is tried again later. */
static void settle_stranded(struct intent *log)
{
	if (log->stranded)
		give_second_name(log);
	if (log->aside) {
		unsigned files = log->stranded;
		log->stranded = 0;
		forget(log, files);
	}
}

void intent_retry_aside(struct intent *log)
{
	if (!log || !atomic_load(&log->stranded))
		return;
	pthread_mutex_lock(&log->lock);
	settle_stranded(log);
	pthread_mutex_unlock(&log->lock);
}

void intent_keep_aside(struct intent *log, struct intent_mark *mark)
{
	if (!log)
		return;
	pthread_mutex_lock(&log->lock);
	log->stranded += take(mark);
	settle_stranded(log);
	pthread_mutex_unlock(&log->lock);
}

void intent_link_aside(struct intent *log, struct intent_mark *mark)
{
	if (!log)
		return;
	pthread_mutex_lock(&log->lock);
	if (mark->logged)
		give_second_name(log);
	if (!log->aside)
		log->stranded += take(mark);
	pthread_mutex_unlock(&log->lock);
}

void intent_removed(struct intent *log, struct intent_mark *mark)
{
	if (!log)
		return;
	pthread_mutex_lock(&log->lock);
	log->removed += take(mark);
	pthread_mutex_unlock(&log->lock);
}

/* If the name came back after a power cut, it would be that of a file without what was synced. */
static void settle_removed(struct intent *log, unsigned n)
{
	bool safe = !n || syncfs(log->backing->lock) == 0;

	pthread_mutex_lock(&log->lock);
	if (safe)
		forget(log, n);
	else
		log->removed += n; /* until the next time */
	pthread_mutex_unlock(&log->lock);
}

static void settle_owed(struct intent *log, bool safe)
{
	pthread_mutex_lock(&log->lock);
	if (safe)
		forget(log, 1);
	else
		log->stranded++;
	settle_stranded(log);
	pthread_mutex_unlock(&log->lock);
}

void intent_settle(struct intent *log, atomic_bool *failed)
{
	int fds[MAX_OWED];

	if (!log)
		return;
	pthread_mutex_lock(&log->lock);
	unsigned n = log->nowed;
	memcpy(fds, log->owed, n * sizeof *fds);
	log->nowed = 0;
	unsigned removed = log->removed;
	log->removed = 0;
	pthread_mutex_unlock(&log->lock);
	intent_retry_aside(log);
	settle_removed(log, removed);
	for (unsigned i = 0; i < n; i++) {
		bool safe = fdatasync(fds[i]) == 0;
		if (!safe)
			*failed = true; /* before the other syncs, which may take long */
		settle_owed(log, safe);
		close(fds[i]);
	}
}

bool intent_waits(struct intent *log, uint64_t quiet)
{
	if (!log)
		return false;
	pthread_mutex_lock(&log->lock);
	bool waits = log->needed && (is_stuck(log) || meter_now() - log->last >= quiet);
	pthread_mutex_unlock(&log->lock);
	return waits;
}
