#include "codec/filter.h"

#define FILTER(name) extern const struct filter filter_##name;
#include "codec/filters/list.h"
#undef FILTER

static const struct filter *const rows[] = {
#define FILTER(name) &filter_##name,
#include "codec/filters/list.h"
#undef FILTER
};

#define NROWS (sizeof rows / sizeof rows[0])

const struct filter *filter_at(size_t i)
{
	return i < NROWS ? rows[i] : NULL;
}

const struct filter *filter_by_id(unsigned id)
{
	for (size_t i = 0; i < NROWS; i++)
		if (rows[i]->id == id)
			return rows[i];
	return NULL;
}

const struct filter *filter_by_name(struct view name)
{
	for (size_t i = 0; i < NROWS; i++)
		if (view_is(name, rows[i]->name))
			return rows[i];
	return NULL;
}

/* FORMAT.md 1.4: numbers of the library's plug-ins, and the first number for users. */
enum { FILTER_NDCELL = 32, FILTER_NDMEAN = 33, FILTER_USER_FIRST = 160 };

int filter_refuse(unsigned id)
{
	if (id < FILTER_NDCELL)
		return CORRUPT("undefined filter", id);
	if (id == FILTER_NDCELL)
		return UNSUPPORTED("filter ndcell", id);
	if (id == FILTER_NDMEAN)
		return UNSUPPORTED("filter ndmean", id);
	return UNSUPPORTED(id < FILTER_USER_FIRST ? "unassigned filter" : "filter of a user", id);
}
