/*
 * A chunk that lies in a file: fetches the bytes that codec/chunk.h asks for.
 * Any number of threads, each with its scratch.
 */
#ifndef FRAME_STORED_H
#define FRAME_STORED_H

#include "codec/chunk.h"
#include "frame/chunk_sum.h"
#include "frame/io/io.h"

struct stored {
	struct io *io;
	uint64_t at;   /* of the chunk's first byte                       */
	uint64_t room; /* bytes from there that may belong to the chunk   */
	uint32_t item; /* typesize of the super-chunk, 0: stands alone    */
	uint64_t sum;  /* what the root knows (chunk_sum.h), or 0         */
};

/*
 * Reads what is needed before blocks can be: header, block offsets, dictionary,
 * block 0 for delta. `guess`: how long header and offsets probably are, 0: no idea; a
 * good guess saves a read. What has a checksum is held against it, here and below: a head by the
 * root, a block by the head. *c must be zeroed; chunk_deinit it whatever comes back. -E2BIG, here
 * and below: it takes more memory than the scratch allows.
 */
NODISCARD int stored_load(const struct stored *st, uint32_t guess, struct scratch *s,
			  struct chunk *c);

/* Memory that reading a run takes beside where it goes. `packed`: as chunk_decode_packed does. */
uint64_t stored_memory(const struct chunk *c, struct run run, bool packed);

/* Decodes a run of blocks of a loaded chunk; dst.n is chunk_run_bytes. */
NODISCARD int stored_read(const struct stored *st, const struct chunk *c, struct run run,
			  struct scratch *s, struct span dst);

/* One block, as chunk_decode_packed does. */
NODISCARD int stored_read_packed(const struct stored *st, const struct chunk *c, uint32_t block,
				 struct scratch *s, struct span dst);

/* Bytes of one block, as chunk_decode_part does; CHUNK_NO_PART: it has to be read whole. */
NODISCARD int stored_read_part(const struct stored *st, const struct chunk *c,
			       struct chunk_part part, struct scratch *s, struct span dst);

/* All bytes of the chunk, by its header, which ends inside the room. Nothing else is judged. */
NODISCARD int stored_length(const struct stored *st, uint32_t *len);

/* Copies its first `len` bytes to `at` in a file, piece by piece. */
NODISCARD int stored_copy(const struct stored *st, struct io *to, uint64_t at, uint32_t len);

/* XXH3-64 of bytes [at, at + len) of the chunk, which are read piece by piece. */
NODISCARD int stored_hash(const struct stored *st, uint32_t at, uint32_t len, uint64_t *hash);

/* The same of all `len` bytes, held against st->sum, which is of the whole chunk. */
NODISCARD int stored_check(const struct stored *st, uint32_t len);

#endif
