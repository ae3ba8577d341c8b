/*
 * Buffers of whole chunks, kept for the next chunk: getting fresh pages from the kernel
 * for each took a sixth of the daemon's time when writing.
 */
#ifndef FS_SPARE_H
#define FS_SPARE_H

#include "base/buf.h"

struct spare;

/* Keeps at most max_bytes. */
NODISCARD int spare_open(struct spare **s, uint64_t max_bytes);
void spare_close(struct spare *s);

/* An empty buffer of at least `cap` bytes if one is there, else an unallocated one. */
struct buf spare_take(struct spare *s, size_t cap);

/* Keeps the buffer or frees it. */
void spare_give(struct spare *s, struct buf *b);

/* Frees what nobody needed since the last call. */
void spare_trim(struct spare *s);

#endif
