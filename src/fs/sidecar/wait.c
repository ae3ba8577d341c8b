/*
 * Waiting for the lock: how long another program has had it, by our tries; how long a thread goes
 * on trying; and what is logged.
 */
#include "fs/sidecar/impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/meter.h"
#include "fs/relief.h"
#include "fs/sidecar/name.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Waits for the lock end this long after the first failed try of a row (sidecar_busy) ... */
#define PATIENCE_NS (30 * CLOCK_SECOND)
/* ... provided that tries have come in close succession for this long, ... */
#define WATCH_NS (2 * CLOCK_SECOND)
/* ... which tries further apart than this do not: the lock may have been free in between. */
#define SELDOM_NS CLOCK_SECOND
/* Each thread waits this long even then, and never longer while it holds locks of ours. */
#define GRACE_NS (50 * CLOCK_MS)
/* The longest pause between two tries. */
#define NAP_MAX_NS (5 * CLOCK_MS)

void sidecar_know(struct sidecar *s, const struct sidecar_busy *busy)
{
	s->busy_shared = s->busy_alone = *busy;
}

static struct sidecar_busy *busy(struct sidecar *s, int op)
{
	return op == LOCK_EX ? &s->busy_alone : &s->busy_shared;
}

/* Notes a try that has found the lock held. */
static void find_held(struct sidecar_busy *b, uint64_t now)
{
	uint64_t pause = now - b->seen;

	if (!b->since || pause > PATIENCE_NS)
		b->since = now;
	if (b->since == now || pause > SELDOM_NS)
		b->watched = now;
	b->seen = now;
}

/*
 * Not a blocking flock, which could not be interrupted: the program that holds the lock may itself
 * be waiting for a reply of ours.
 */
bool sidecar_try_lock(struct sidecar *s, int op)
{
	uint64_t now = meter_now();
	int rc;

	while ((rc = flock(s->fd, op | LOCK_NB)) < 0 && errno == EINTR)
		;
	bool held = rc < 0 && errno == EWOULDBLOCK; /* not every file system has locks */
	if (held) {
		find_held(&s->busy_alone, now);
	} else if (op == LOCK_EX) { /* no other program has it, shared or not */
		s->busy_alone.since = 0;
		*s->told = false;
	}
	if (held && op == LOCK_SH)
		find_held(&s->busy_shared, now);
	else if (!held)
		s->busy_shared.since = 0;
	return !held;
}

static struct sidecar_busy look(struct sidecar *s, int op, uint64_t *now)
{
	pthread_mutex_lock(&s->lock);
	struct sidecar_busy b = *busy(s, op);
	*now = meter_now(); /* under the lock: not earlier than what other threads have noted */
	pthread_mutex_unlock(&s->lock);
	return b;
}

static bool is_over(const struct sidecar_busy *b, uint64_t now)
{
	return b->since && now - b->since > PATIENCE_NS && now - b->watched > WATCH_NS;
}

bool sidecar_is_over(struct sidecar *s)
{
	uint64_t now;
	struct sidecar_busy b = look(s, LOCK_SH, &now);
	return is_over(&b, now);
}

/* Begins a wait after its first try; later calls do nothing. */
static void begin(struct rest *r, uint64_t now)
{
	if (!r->grace) {
		r->grace = now + GRACE_NS;
		r->nap = CLOCK_NAP;
	}
}

/*
 * All waits count from the time when the lock was first found held; otherwise consecutive ones
 * would take half a minute each.
 */
bool sidecar_rest(struct sidecar *s, int op, struct rest *r)
{
	uint64_t now;
	struct sidecar_busy b = look(s, op, &now);

	begin(r, now);
	if (now > r->grace && (is_over(&b, now) || (r->end && now > r->end)))
		return false;
	if (now > r->grace && !r->relieved)
		r->relieved = relief_begin(s->relief);
	clock_nap(&r->nap, NAP_MAX_NS);
	return true;
}

void sidecar_end_rest(struct sidecar *s, struct rest *r)
{
	relief_end(s->relief, r->relieved);
}

bool sidecar_rest_briefly(struct sidecar *s, int op, struct rest *r)
{
	uint64_t now;
	struct sidecar_busy b = look(s, op, &now);

	begin(r, now);
	if (now > r->grace || (b.since && now - b.watched > GRACE_NS))
		return false;
	clock_nap(&r->nap, NAP_MAX_NS);
	return true;
}

/* The process ID of a holder of the lock; 0: not known. */
static long find_holder(int fd)
{
	FILE *in = fopen("/proc/locks", "re");
	unsigned long long ino;
	unsigned maj, min;
	struct stat st;
	char line[128];
	long pid, found = 0;

	if (fstat(fd, &st) < 0)
		st = (struct stat){0};
	while (in && !found && fgets(line, sizeof line, in))
		if (sscanf(line, "%*d: FLOCK %*s %*s %ld %x:%x:%llu", &pid, &maj, &min,
			   &ino) == 4 &&
		    ino == st.st_ino && makedev(maj, min) == st.st_dev && pid != getpid())
			found = pid > 0 ? pid : 0;
	if (in)
		fclose(in);
	return found;
}

/* What follows if the lock does not become free in time: for the log line. */
static const char *const outcome[] = {
	[SIDECAR_READ] = "reading without it",
	[SIDECAR_STORE] = "storing has to wait",
	[SIDECAR_COMMIT] = "a commit has to wait",
};

void sidecar_warn(struct sidecar *s, enum sidecar_for what)
{
	char name[NAME_MAX + 1], by[32] = "";

	if (atomic_exchange(s->told, true))
		return;
	pthread_rwlock_rdlock(&s->entered);
	long pid = s->fd < 0 ? 0 : find_holder(s->fd);
	sidecar_present_name(s->fd, name);
	pthread_rwlock_unlock(&s->entered);
	if (pid)
		snprintf(by, sizeof by, " (process %ld)", pid);
	log_warn("%s: held by another program%s for too long: %s", name, by, outcome[what]);
}

/*
 * Takes the lock and releases it; for a commit first shared, then exclusively, so that both
 * `busy_*` stay right.
 */
static int touch(struct sidecar *s, enum sidecar_for what)
{
	int how = sidecar_try_enter_store(s);

	sidecar_leave(s, how);
	if (how >= 0 && what == SIDECAR_COMMIT) {
		how = sidecar_try_enter_alone(s);
		sidecar_leave(s, how);
	}
	return how < 0 ? how : 0;
}

/* Waits until the lock is free, or until `end`, unless that is 0. */
static int wait_until(struct sidecar *s, enum sidecar_for what, uint64_t end)
{
	struct rest r = {.end = end};
	int rc;

	do
		rc = touch(s, what);
	while (rc < 0 && sidecar_rest(s, what == SIDECAR_COMMIT ? LOCK_EX : LOCK_SH, &r));
	sidecar_end_rest(s, &r);
	return rc;
}

void sidecar_wait_some(struct sidecar *s, enum sidecar_for what, uint64_t ns)
{
	IGNORE(wait_until(s, what, meter_now() + ns));
}

void sidecar_tell_if_long(struct sidecar *s)
{
	uint64_t now;
	struct sidecar_busy b = look(s, LOCK_EX, &now);

	if (b.since && now - b.since > PATIENCE_NS)
		sidecar_warn(s, SIDECAR_COMMIT);
}

bool sidecar_wait(struct sidecar *s, enum sidecar_for what)
{
	int rc = wait_until(s, what, 0);

	if (rc < 0)
		sidecar_warn(s, what);
	return rc >= 0;
}
