/* A hash that detects damage, not malice: XXH3-64. */
#ifndef BASE_SUM_H
#define BASE_SUM_H

#include "base/bytes.h"

uint64_t sum64(struct view v);

/* The same, except that 0 becomes 1: for fields in which 0 means that no hash is known. */
uint64_t sum64_not_0(struct view v);

/* The hash of a followed by b. */
uint64_t sum64_of_two(struct view a, struct view b);

/* For bytes that come piece by piece. NULL: out of memory. sum64_end frees the state. */
struct XXH3_state_s *sum64_begin(void);
void sum64_add(struct XXH3_state_s *state, struct view piece);
uint64_t sum64_so_far(const struct XXH3_state_s *state);
uint64_t sum64_end(struct XXH3_state_s *state);

#endif
