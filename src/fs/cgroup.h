/* Limits from the control groups of this process, for example those of a container. */
#ifndef FS_CGROUP_H
#define FS_CGROUP_H

#include <stdint.h>

/*
 * The lowest memory limit, in bytes, of this process's group and of the groups above it.
 * UINT64_MAX: no limit is known.
 */
uint64_t cgroup_memory(void);

#endif
