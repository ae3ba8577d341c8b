#include "fs/dirty/lists.h"

#include "base/buf.h"

#include <stdatomic.h>

static _Atomic size_t held; /* by lists that are not short */

static size_t counted(size_t bytes)
{
	return bytes > LISTS_SHORT ? bytes : 0;
}

void *lists_grow(void *list, size_t old, size_t bytes)
{
	size_t more = counted(bytes) - counted(old);
	size_t now = atomic_fetch_add(&held, more) + more;
	void *grown = NULL;

	if (now <= LISTS_MOST || !more)
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
