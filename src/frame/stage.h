/*
 * A buffer of the calling thread for bytes on their way from the file to the
 * decoder, so that a read allocates nothing once the thread is warm.
 */
#ifndef FRAME_STAGE_H
#define FRAME_STAGE_H

#include "base/bytes.h"
#include "base/err.h"

/* Room for n bytes, valid until this thread asks again or trims. */
NODISCARD int stage_get(size_t n, struct span *out);

/* Gives back what only a large chunk needed. */
void stage_trim(void);

#endif
