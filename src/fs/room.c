#include "fs/room.h"

#include "base/clock.h"
#include "base/meter.h"
#include "fs/fs.h"

#include <errno.h>
#include <time.h>

/* The limit, both since the last removal and in all: others may go on removing files. */
#define SOON (5 * CLOCK_SECOND)
#define PAUSE_MIN (CLOCK_SECOND / 1000)
#define PAUSE_DOUBLES 6
#define PAUSE_ALONE (4 * PAUSE_MIN) /* no other thread is asked to serve meanwhile */

/* The thread that closes the removed file must not queue behind those that wait for its room. */
static void pause_for(struct fs *fs, uint64_t ns)
{
	bool relieved = ns > PAUSE_ALONE && relief_begin(&fs->relief);

	nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
	if (relieved)
		relief_end(&fs->relief);
}

bool room_soon(struct fs *fs, struct room_wait *w, int rc)
{
	uint64_t when;

	if (rc != -ENOSPC && rc != -EDQUOT)
		return false;
	unsigned coming = inodes_nameless(fs->inodes, &when);
	uint64_t now = meter_now(); /* not before `when` */
	if (!w->since)
		w->since = now;
	if (when == 0 || now - when > SOON || now - w->since > SOON)
		return false;
	if (coming == 0) { /* perhaps since the try */
		bool again = !w->last;
		w->last = true;
		return again;
	}
	w->last = false;
	pause_for(fs, PAUSE_MIN << min_u64(w->pauses++, PAUSE_DOUBLES));
	return true;
}
