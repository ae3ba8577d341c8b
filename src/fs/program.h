/* Other programs of the system: running them, and what /proc tells of a process. */
#ifndef FS_PROGRAM_H
#define FS_PROGRAM_H

#include "base/err.h"

#include <sys/types.h>

/*
 * Runs a system program, silently and without our descriptors. -ENOENT: there is no program of that
 * name. -EBUSY: it failed. -EAGAIN: no process could be made.
 */
NODISCARD int program_run(char *const argv[]);

/* A set of bits in /proc/PID/status, by its name with a colon; 0: it cannot be read. */
uint64_t program_bits(pid_t pid, const char *name);

#endif
