#include "fs/read/slow.h"

#include "base/clock.h"
#include "base/meter.h"
#include "fs/fs.h"
#include "fs/read/read.h"

#define SLOW_AFTER (CLOCK_SECOND / 5)
#define LOOK_NS (CLOCK_SECOND / 20) /* how often a read checks if it is wanted ...     */
#define NAP_NS (CLOCK_SECOND / 100) /* ... and whether it may go on                 */
#define GOING_SHARE 4               /* one in this many of the threads              */
#define WAITING_SHARE 4             /* one in this many of the relief threads       */

static bool wanted(struct slow *s)
{
	uint64_t now = meter_now();
	if (now - s->looked < LOOK_NS)
		return true;
	s->looked = now;
	return !s->q->gone(s->q->who);
}

static bool take_place(atomic_uint *n, unsigned most)
{
	if (atomic_fetch_add(n, 1) < most)
		return true;
	atomic_fetch_sub(n, 1);
	return false;
}

/* Waits until the read may go on, or is no longer wanted. */
static int wait_for_place(struct fs *fs, struct slow *s)
{
	unsigned most = (unsigned)max_u64(fs->threads / GOING_SHARE, 1);

	if (!take_place(&fs->slow.waiting, fs->relief.most / WAITING_SHARE))
		return -EAGAIN;
	while (!(s->going = take_place(&fs->slow.going, most)) && wanted(s))
		clock_sleep(NAP_NS);
	atomic_fetch_sub(&fs->slow.waiting, 1);
	return s->going ? 0 : -EINTR;
}

static int begin(struct fs *fs, struct slow *s)
{
	if (!relief_begin(&fs->relief))
		return -EINTR; /* the mount is ending */
	int rc = wait_for_place(fs, s);
	if (rc < 0)
		relief_end(&fs->relief, true);
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
	atomic_fetch_sub(&fs->slow.going, 1);
	relief_end(&fs->relief, true);
	s->going = false;
}
