#include "codec/filter.h"

#define FILTER(name) extern const struct filter filter_##name;
#include "codec/filter_list.h"
#undef FILTER

static const struct filter *const rows[] = {
#define FILTER(name) &filter_##name,
#include "codec/filter_list.h"
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
		if (strlen(rows[i]->name) == name.n && !memcmp(rows[i]->name, name.p, name.n))
			return rows[i];
	return NULL;
}

int filter_refuse(unsigned id)
{
	if (id < 32)
		return CORRUPT("undefined filter", id);
	if (id == 32)
		return UNSUPPORTED("filter ndcell", id);
	if (id == 33)
		return UNSUPPORTED("filter ndmean", id);
	return UNSUPPORTED(id < 160 ? "unassigned filter" : "filter of a user", id);
}
