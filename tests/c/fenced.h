/* Memory between two pages that are not accessible: reading or writing past an end is fatal. */
#ifndef TESTS_FENCED_H
#define TESTS_FENCED_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* `n` must be whole pages. */
static inline uint8_t *fenced(size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *p = mmap(NULL, n + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	if (p == MAP_FAILED || mprotect(p, page, PROT_NONE) ||
	    mprotect(p + page + n, page, PROT_NONE)) {
		perror("fenced");
		exit(2);
	}
	return p + page;
}

#endif
