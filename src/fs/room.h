/*
 * Room on a full disk that is on its way. Who removes a file may write at once, and counts on its
 * room; but that the file is closed, and forgotten, the kernel tells us only after the call has
 * returned, and a large file is not freed in no time either.
 */
#ifndef FS_ROOM_H
#define FS_ROOM_H

#include <stdbool.h>

struct fs;

/* Zeroed before the first try. */
struct room_wait {
	unsigned pauses;
	bool last;
};

/*
 * After a try that ended with rc. True: it was for want of room, and more may have come meanwhile.
 * Waits for that, at most until five seconds after the last removal. Called without locks.
 */
bool room_soon(const struct fs *fs, struct room_wait *w, int rc);

#endif
