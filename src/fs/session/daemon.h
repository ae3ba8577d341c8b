/*
 * Without -f: the daemon is a child of the command, whose terminal it leaves when the mount
 * answers.
 */
#ifndef FS_SESSION_DAEMON_H
#define FS_SESSION_DAEMON_H

#include "fs/options.h"

/*
 * Calls `run` in a child process, which ends with it. Returns when the child has called
 * daemon_answer; or fails, when it has ended without that.
 */
NODISCARD int daemon_start(const struct options *o,
			   int (*run)(const struct options *o, int parent));

/* Tells the parent that the mount answers, and leaves its terminal. `parent`: what `run` got. */
void daemon_answer(int parent);

#endif
