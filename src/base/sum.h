/* A hash that finds damage, not malice: XXH3-64. */
#ifndef BASE_SUM_H
#define BASE_SUM_H

#include "base/bytes.h"

uint64_t sum64(struct view v);

/* Of both, one behind the other. */
uint64_t sum64_of_two(struct view a, struct view b);

#endif
