/* The hash of bytes of a file, read a step at a time. */
#ifndef FRAME_IO_HASH_H
#define FRAME_IO_HASH_H

#include "base/sum.h"
#include "frame/io/io.h"

/* A good step for passing over bytes: they stay in the core's cache between uses. */
#define IO_STEP (128u << 10)

/* Adds bytes [at, at + len) to a hash started by sum64_begin. */
NODISCARD int io_hash_add(struct XXH3_state_s *state, struct io *io, uint64_t at, uint64_t len);

/* XXH3-64 of bytes [at, at + len). */
NODISCARD int io_hash(struct io *io, uint64_t at, uint64_t len, uint64_t *hash);

#endif
