#include "fs/file/slow.h"

#include "base/clock.h"
#include "base/meter.h"
#include "fs/fs.h"

#include <time.h>

#define SLOW_AFTER (CLOCK_SECOND / 5)
#define LOOK_NS (CLOCK_SECOND / 20) /* how often who waits looks whether it is wanted */
#define GOING_SHARE 4               /* of the threads: one in so many              */
#define WAITING_SHARE 4             /* the same of the threads that can be relieved */

static bool wanted(struct slow *s)
{
	uint64_t now = meter_now();
	if (now - s->looked < LOOK_NS)
		return true;
	s->looked = now;
	return !s->q->gone(s->q->who);
}

/* Until there is a place, or the read is not wanted any more. Under the lock. */
static int wait_for_place(struct fs *fs, struct slow *s)
{
	struct slow_reads *all = &fs->slow;
	unsigned most = (unsigned)max_u64(fs->threads / GOING_SHARE, 1);

	if (all->waiting >= fs->relief.most / WAITING_SHARE)
		return -EAGAIN;
	all->waiting++;
	while (all->going >= most && wanted(s)) {
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		uint64_t ns = clock_ns(until) + LOOK_NS;
		until = (struct timespec){(time_t)(ns / CLOCK_SECOND), (long)(ns % CLOCK_SECOND)};
		pthread_cond_timedwait(&all->left, &all->lock, &until);
	}
	all->waiting--;
	return all->going < most ? 0 : -EINTR;
}

static int begin(struct fs *fs, struct slow *s)
{
	if (!relief_begin(&fs->relief))
		return -EINTR; /* the mount is ending */
	pthread_mutex_lock(&fs->slow.lock);
	int rc = wait_for_place(fs, s);
	s->going = rc == 0;
	fs->slow.going += s->going;
	pthread_mutex_unlock(&fs->slow.lock);
	if (rc < 0)
		relief_end(&fs->relief);
	return rc;
}

int slow_go_on(struct fs *fs, struct slow *s)
{
	if (!s->q || !s->q->gone)
		return 0;
	uint64_t now = meter_now();
	if (!s->began)
		s->began = now;
	if (now - s->began < SLOW_AFTER)
		return 0;
	if (!s->going)
		TRY(begin(fs, s));
	return wanted(s) ? 0 : -EINTR;
}

void slow_end(struct fs *fs, struct slow *s)
{
	if (!s->going)
		return;
	pthread_mutex_lock(&fs->slow.lock);
	fs->slow.going--;
	pthread_cond_signal(&fs->slow.left);
	pthread_mutex_unlock(&fs->slow.lock);
	relief_end(&fs->relief);
	s->going = false;
}
