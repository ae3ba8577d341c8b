/* From a part that is embedded in a struct, such as a link or a job, to the whole. */
#ifndef BASE_CONTAINER_H
#define BASE_CONTAINER_H

#include <stddef.h>

/* The `type` whose field `part` is what `p`, which is not NULL, points at. */
#define CONTAINER_OF(p, type, part) ((type *)(void *)((char *)(p) - offsetof(type, part)))

#endif
