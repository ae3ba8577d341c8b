/* From an embedded member, such as a link or a job, to the struct that contains it. */
#ifndef BASE_CONTAINER_H
#define BASE_CONTAINER_H

#include <stddef.h>

/* The `type` whose member `part` is *p; p must not be NULL. */
#define CONTAINER_OF(p, type, part) ((type *)(void *)((char *)(p) - offsetof(type, part)))

#endif
