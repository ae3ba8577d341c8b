#include "fs/dirty/lists.h"

#include "base/buf.h"

static _Atomic size_t held; /* by lists that are not short */

static size_t counted(size_t bytes)
{
	return bytes > LISTS_SHORT ? bytes : 0;
}

void *lists_grow(void *list, size_t old, size_t bytes)
{
	size_t more = counted(bytes) - counted(old);
	void *grown = NULL;

	if ((held += more) <= LISTS_MOST || !more)
		grown = mem_realloc(list, bytes);
	if (!grown)
		held -= more;
	return grown;
}

void lists_free(void *list, size_t bytes)
{
	held -= counted(bytes);
	mem_free(list);
}
