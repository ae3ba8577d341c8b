#include "fs/dirty/missing.h"

#include "base/bytes.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

/* The ranges from i on move by one place. */
static void open_gap(struct missing *m, uint32_t i)
{
	assert(m->n < MISSING_RANGES);
	memmove(&m->range[i + 1], &m->range[i], (m->n - i) * sizeof m->range[0]);
	m->n++;
}

static void close_gap(struct missing *m, uint32_t i, uint32_t end)
{
	memmove(&m->range[i], &m->range[end], (m->n - end) * sizeof m->range[0]);
	m->n -= end - i;
}

void missing_add(struct missing *m, uint64_t lo, uint64_t hi)
{
	uint32_t i = 0, end;

	while (i < m->n && m->range[i].hi < lo)
		i++;
	for (end = i; end < m->n && m->range[end].lo <= hi;)
		end++;
	if (end == i && m->n < MISSING_RANGES) {
		open_gap(m, i);
		m->range[i].lo = lo;
		m->range[i].hi = hi;
		return;
	}
	if (end == i && i == m->n)
		i--;
	else if (end == i)
		end++;
	m->range[i].lo = min_u64(m->range[i].lo, lo);
	m->range[i].hi = max_u64(m->range[end - 1].hi, hi);
	close_gap(m, i + 1, end);
}

void missing_mend(struct missing *m, uint64_t lo, uint64_t hi)
{
	for (uint32_t i = 0; i < m->n;) {
		bool apart = m->range[i].hi <= lo || m->range[i].lo >= hi;
		bool head = m->range[i].lo < lo, tail = m->range[i].hi > hi;
		if (apart || (head && tail && m->n == MISSING_RANGES)) {
			i++;
		} else if (head && tail) {
			open_gap(m, i);
			m->range[i].hi = lo;
			m->range[i + 1].lo = hi;
			i += 2;
		} else if (head) {
			m->range[i++].hi = lo;
		} else if (tail) {
			m->range[i++].lo = hi;
		} else {
			close_gap(m, i, i + 1);
		}
	}
}

uint64_t missing_first(const struct missing *m)
{
	return m->n ? m->range[0].lo : UINT64_MAX;
}
