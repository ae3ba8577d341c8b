/* Running other programs of the system. */
#ifndef FS_SESSION_PROGRAM_H
#define FS_SESSION_PROGRAM_H

#include "base/err.h"

/*
 * Runs a system program, silently and without our descriptors. -ENOENT: there is no program of that
 * name. -EBUSY: it failed. -EAGAIN: no process could be created.
 */
NODISCARD int program_run(char *const argv[]);

#endif
