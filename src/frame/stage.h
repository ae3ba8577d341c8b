/*
 * A buffer, one per thread, for bytes on their way from the file to the decoder or to a hash, so
 * that a warm thread allocates nothing for a read.
 */
#ifndef FRAME_STAGE_H
#define FRAME_STAGE_H

#include "base/sum.h"
#include "frame/io/io.h"

/* A good step for what goes through bytes: they stay in the cache of a core from use to use. */
#define STAGE_STEP (128u << 10)

/* Makes room for n bytes, valid until this thread calls one of these functions again. */
NODISCARD int stage_get(size_t n, struct span *out);

/* Adds bytes [at, at + len) of a file to a hash that sum64_begin has begun, piece by piece. */
NODISCARD int stage_hash_add(struct XXH3_state_s *state, struct io *io, uint64_t at, uint64_t len);

/* XXH3-64 of bytes [at, at + len) of a file. */
NODISCARD int stage_hash(struct io *io, uint64_t at, uint64_t len, uint64_t *hash);

/* Frees what only a large chunk needed. */
void stage_trim(void);

#endif
