/*
 * A pool of chunk-sized buffers. Getting fresh pages from the kernel for every chunk took a sixth
 * of the daemon's time when writing. Any thread.
 */
#ifndef FS_DIRTY_SPARE_H
#define FS_DIRTY_SPARE_H

#include "base/buf.h"

struct spare;

/* Makes an empty pool, which will keep at most max_bytes. */
NODISCARD int spare_open(struct spare **s, uint64_t max_bytes);
void spare_close(struct spare *s); /* NULL is fine */

/*
 * Returns a buffer with room for at least `cap` bytes, which is the caller's now; an empty one, if
 * the pool has none of that size.
 */
struct buf spare_take(struct spare *s, size_t cap);

/* Takes the buffer into the pool, or frees it; *b is empty afterwards. */
void spare_give(struct spare *s, struct buf *b);

/* Frees the buffers that were not needed since the last call. */
void spare_trim(struct spare *s);

#endif
