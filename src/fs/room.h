/*
 * Room that a full disk is about to have. Whoever removes a file may write at once and counts on
 * its room. But the kernel tells us only after that call has returned that the file is closed and
 * forgotten, and freeing a large file takes a while.
 */
#ifndef FS_ROOM_H
#define FS_ROOM_H

#include <stdbool.h>
#include <stdint.h>

struct fs;

/* One caller's wait; zeroed before the first try. */
struct room_wait {
	uint64_t since;  /* meter_now, when it began; 0: not yet               */
	unsigned pauses; /* so far: each is longer than the one before         */
	bool last;       /* no removed file is left to wait for: one more try  */
};

/*
 * After a try that ended with rc. True: it was for want of room, and more may have come meanwhile.
 * Waits for that, at most until five seconds after the last removal, and not longer than five
 * seconds in all. Called without locks, and not by a worker: the removed file's close may need one.
 */
bool room_soon(struct fs *fs, struct room_wait *w, int rc);

#endif
