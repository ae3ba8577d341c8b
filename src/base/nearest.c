#include "base/nearest.h"

#include <ctype.h>
#include <string.h>

#define LONGEST 31 /* letters; longer words are near to none */

static bool is_same(struct view a, size_t i, struct view b, size_t j)
{
	return tolower(a.p[i]) == tolower(b.p[j]);
}

/* How many letters to insert, remove or replace, or neighbours to swap. */
static size_t count_changes(struct view a, struct view b)
{
	size_t d[LONGEST + 1][LONGEST + 1]; /* of the first i and j letters */

	for (size_t i = 0; i <= a.n; i++)
		for (size_t j = 0; j <= b.n; j++) {
			if (!i || !j) {
				d[i][j] = i + j;
				continue;
			}
			size_t least = d[i - 1][j - 1] + !is_same(a, i - 1, b, j - 1);
			least = min_u64(least, min_u64(d[i - 1][j], d[i][j - 1]) + 1);
			if (i > 1 && j > 1 && is_same(a, i - 1, b, j - 2) &&
			    is_same(a, i - 2, b, j - 1))
				least = min_u64(least, d[i - 2][j - 2] + 1);
			d[i][j] = least;
		}
	return d[a.n][b.n];
}

struct nearest nearest_to(struct view typed)
{
	return (struct nearest){.typed = typed, .changes = LONGEST};
}

void nearest_offer(struct nearest *n, const char *word, const char *meant)
{
	struct view other = view_of(word, strlen(word));

	if (n->typed.n > LONGEST || other.n > LONGEST)
		return;
	size_t changes = count_changes(n->typed, other);
	bool near = !changes || 3 * changes + 2 <= max_u64(n->typed.n, other.n);
	if (!near || changes >= n->changes)
		return;
	n->changes = changes;
	n->meant = meant;
}
