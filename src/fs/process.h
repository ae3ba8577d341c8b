/* What /proc tells of a process. */
#ifndef FS_PROCESS_H
#define FS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A set of bits in /proc/PID/status, by its name with the colon; 0 also if it cannot be read. */
uint64_t process_bits(pid_t pid, const char *name);

/* True: there is a process with that number, and it runs a program of that name. */
bool process_is_named(pid_t pid, const char *program);

#endif
