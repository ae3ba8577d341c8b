/*
 * Space that is about to become free on a full disk. A program that has removed a file may write at
 * once and count on its space. But the kernel tells us only after the unlink has returned that the
 * file is closed and forgotten, and freeing a large file takes a while.
 */
#ifndef FS_ROOM_H
#define FS_ROOM_H

#include <stdbool.h>
#include <stdint.h>

struct fs;

/* One caller's wait; zeroed before the first try. */
struct room_wait {
	uint64_t since; /* meter_now, when it began; 0: not yet              */
	uint64_t pause; /* the next one, in ns; 0: there was none so far     */
	bool last;      /* no removed file is left to wait for: the last try */
};

/*
 * Call after a try that returned rc. True: try again; there was no space, and some may have become
 * free meanwhile. It waits for that until five seconds after the last removal, and no longer than
 * five seconds in all. Call it without locks, and not from a worker: closing the removed file may
 * need one.
 */
bool room_soon(struct fs *fs, struct room_wait *w, int rc);

#endif
