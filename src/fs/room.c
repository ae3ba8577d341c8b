#include "fs/room.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/meter.h"
#include "fs/fs.h"

/* The limit, both since the last removal and in all: files may be removed all the time. */
#define SOON (5 * CLOCK_SECOND)
#define PAUSE_MIN CLOCK_MS
#define PAUSE_MAX (64 * PAUSE_MIN)
#define PAUSE_ALONE (4 * PAUSE_MIN) /* without an extra thread (relief.h) meanwhile */

/* Closing the removed file must not queue behind requests that wait for its space. */
static void pause_longer(struct fs *fs, uint64_t *pause)
{
	bool relieved = *pause > PAUSE_ALONE && relief_begin(&fs->relief);

	clock_nap(pause, PAUSE_MAX);
	relief_end(&fs->relief, relieved);
}

bool room_soon(struct fs *fs, struct room_wait *w, int rc)
{
	uint64_t when;

	if (!err_is_full(rc) || rc == -EFBIG) /* which is full of its own bytes */
		return false;
	unsigned coming = inodes_nameless(fs->inodes, &when);
	uint64_t now = meter_now(); /* not before `when` */
	if (!w->since)
		w->since = now;
	if (when == 0 || now - when > SOON || now - w->since > SOON)
		return false;
	if (coming == 0) { /* it may have been freed since the try */
		bool again = !w->last;
		w->last = true;
		return again;
	}
	w->last = false;
	if (!w->pause)
		w->pause = PAUSE_MIN;
	pause_longer(fs, &w->pause);
	return true;
}
