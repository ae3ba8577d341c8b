#include "fs/room.h"

#include "base/clock.h"
#include "base/meter.h"
#include "fs/fs.h"

#include <errno.h>
#include <time.h>

#define SOON (5 * CLOCK_SECOND) /* after the removal */
#define PAUSES_MAX 90           /* others may go on removing files */
#define PAUSE_MIN (CLOCK_SECOND / 1000)
#define PAUSE_DOUBLES 6

bool room_soon(const struct fs *fs, struct room_wait *w, int rc)
{
	uint64_t when;

	if (rc != -ENOSPC && rc != -EDQUOT)
		return false;
	unsigned coming = inodes_nameless(fs->inodes, &when);
	if (when == 0 || meter_now() - when > SOON || w->pauses == PAUSES_MAX)
		return false;
	if (coming == 0) { /* perhaps since the try */
		bool again = !w->last;
		w->last = true;
		return again;
	}
	w->last = false;
	uint64_t pause = PAUSE_MIN << min_u64(w->pauses++, PAUSE_DOUBLES);
	nanosleep(&(struct timespec){.tv_nsec = (long)pause}, NULL);
	return true;
}
