/* Work on the parts of one thing, such as the chunks of a frame, that several threads share. */
#ifndef CREW_H
#define CREW_H

#include "base/pool.h"

#include <stdint.h>

/*
 * Calls `each` for the parts [first, first + n), on the calling thread and on the workers of the
 * pool as they become free; parts are taken in order. The caller may be a worker itself: it waits
 * only for parts that other threads are working on. Returns when all are done; or after a failure
 * the error of the first part that failed. That part is repeated on the calling thread, for the
 * note that `each` leaves there about the failure.
 */
NODISCARD int crew_each(struct pool *pool, uint32_t first, uint32_t n,
			int (*each)(void *arg, uint32_t i), void *arg);

#endif
