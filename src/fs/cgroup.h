/* What this process's control groups, such as those of a container, leave it. */
#ifndef FS_CGROUP_H
#define FS_CGROUP_H

#include <stdint.h>

/* The least memory limit of its group and of those above it; UINT64_MAX: none that is known. */
uint64_t cgroup_memory(void);

#endif
