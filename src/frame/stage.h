/*
 * A buffer, one per thread, for bytes on their way from the file to the decoder, so that a warm
 * thread allocates nothing for a read.
 */
#ifndef FRAME_STAGE_H
#define FRAME_STAGE_H

#include "base/bytes.h"
#include "base/err.h"

/* Makes room for n bytes, valid until this thread calls either function again. */
NODISCARD int stage_get(size_t n, struct span *out);

/* Frees what only a large chunk needed. */
void stage_trim(void);

#endif
