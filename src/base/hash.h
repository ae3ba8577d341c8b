/*
 * uthash with our memory functions, and without exit(3) when memory runs out: after a failed add,
 * hh.tbl is NULL.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/buf.h"

#define HASH_NONFATAL_OOM 1
#define uthash_malloc(size) mem_zalloc(size)
#define uthash_free(p, size) mem_free(p)

#include <uthash.h>

#endif
