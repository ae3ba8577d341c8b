/* What /proc tells of a process. */
#ifndef FS_PROCESS_H
#define FS_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

/* A set of bits in /proc/PID/status, by its name with the colon; 0 also if it cannot be read. */
uint64_t process_bits(pid_t pid, const char *name);

#endif
