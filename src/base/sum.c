#include "base/sum.h"

#define XXH_STATIC_LINKING_ONLY /* for the definition of XXH3_state_t */

#ifdef HAVE_XXH_DISPATCH
/* Uses the widest registers available: three times as fast as the library's default. */
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

uint64_t sum64(struct view v)
{
	return XXH3_64bits(v.p, v.n);
}

uint64_t sum64_not_0(struct view v)
{
	uint64_t sum = sum64(v);
	return sum ? sum : 1;
}

uint64_t sum64_of_two(struct view a, struct view b)
{
	XXH3_state_t state;
#ifdef XXH3_INITSTATE
	XXH3_INITSTATE(&state);
#endif
	XXH3_64bits_reset(&state);
	XXH3_64bits_update(&state, a.p, a.n);
	XXH3_64bits_update(&state, b.p, b.n);
	return XXH3_64bits_digest(&state);
}

XXH3_state_t *sum64_begin(void)
{
	XXH3_state_t *state = XXH3_createState();
	if (state)
		XXH3_64bits_reset(state);
	return state;
}

void sum64_add(XXH3_state_t *state, struct view piece)
{
	XXH3_64bits_update(state, piece.p, piece.n);
}

uint64_t sum64_so_far(const XXH3_state_t *state)
{
	return XXH3_64bits_digest(state);
}

uint64_t sum64_end(XXH3_state_t *state)
{
	uint64_t sum = XXH3_64bits_digest(state);
	XXH3_freeState(state);
	return sum;
}
