/*
 * Memory for lists of ranges (touched.h, missing.h). Each file has a few, usually short. Longer
 * ones share one bound for all files together: a list that may not grow names more than it has to.
 */
#ifndef FS_DIRTY_LISTS_H
#define FS_DIRTY_LISTS_H

#include <stddef.h>

/* Bytes of a list that may always grow, and of all longer ones together. */
#define LISTS_SHORT 1024u
#define LISTS_MOST (16u << 20)

/* Moves a list of `old` bytes to more memory. NULL: there is none, and it stays as it is. */
void *lists_grow(void *list, size_t old, size_t bytes);

/* `bytes`: what it has been grown to. */
void lists_free(void *list, size_t bytes);

#endif
