/* Which of some words was meant by one that is mistyped: the one that takes the fewest changes. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include "base/bytes.h"

struct nearest {
	struct view typed;
	const char *meant; /* NULL: none is near */
	size_t changes;
};

/* Borrows the word, in which letters may be of either case. */
struct nearest nearest_to(struct view typed);

/*
 * A word that may have been meant, and what to call it in the message; both are borrowed. It is
 * near if less than a third of the letters has to change (below five letters, none but their
 * case); of equally near ones, the first counts.
 */
void nearest_offer(struct nearest *n, const char *word, const char *meant);

#endif
