/*
 * A chunk stored in a file: fetches the bytes that codec/chunk.h asks for. Thread-safe, given a
 * scratch for each thread.
 */
#ifndef FRAME_STORED_H
#define FRAME_STORED_H

#include "codec/chunk.h"
#include "frame/chunk_sum.h"
#include "frame/io/io.h"

struct stored {
	struct io *io;
	uint64_t at;   /* offset of the chunk's first byte                */
	uint64_t room; /* bytes from there on that may belong to the chunk */
	uint32_t item; /* typesize of the super-chunk; 0: stands alone    */
	uint64_t sum;  /* checksum from the root (chunk_sum.h), or 0      */
};

/*
 * Reads what is needed before blocks can be read: header, block offsets, dictionary, and block 0
 * for delta. `guess`: the probable length of header and offsets; 0: no idea. A good guess saves a
 * read. *c must be zeroed; call chunk_deinit on it even if this fails.
 *
 * Here and below, everything with a checksum is verified: a head by the root, a block by the head.
 * -EBADMSG: it does not match. -E2BIG: it needs more memory than the scratch allows.
 */
NODISCARD int stored_load(const struct stored *st, uint32_t guess, struct scratch *s,
			  struct chunk *c);

/* The same without block 0, for callers that decode nothing. */
NODISCARD int stored_load_head(const struct stored *st, uint32_t guess, struct scratch *s,
			       struct chunk *c);

/* The memory in bytes needed to read a run in that form, besides its destination. */
uint64_t stored_memory(const struct chunk *c, struct run run, enum block_form form);

/* Decodes a run of blocks of a loaded chunk. dst.n must be chunk_run_bytes of the run. */
NODISCARD int stored_read(const struct stored *st, const struct chunk *c, struct run run,
			  struct scratch *s, struct span dst);

/*
 * Reads all blocks of a loaded chunk with block checksums and verifies them, a step at a time
 * (IO_STEP), since a block may have half a gigabyte.
 */
NODISCARD int stored_check_blocks(const struct stored *st, const struct chunk *c,
				  struct scratch *s);

/* Reads one block as chunk_decode_packed does. */
NODISCARD int stored_read_packed(const struct stored *st, const struct chunk *c, uint32_t block,
				 struct scratch *s, struct span dst);

/* Reads bytes of one block as chunk_decode_part does. CHUNK_NO_PART: it has to be read whole. */
NODISCARD int stored_read_part(const struct stored *st, const struct chunk *c,
			       struct chunk_part part, struct scratch *s, struct span dst);

/* The stored length of the chunk by its header, checked against `room`. Nothing else is checked. */
NODISCARD int stored_length(const struct stored *st, uint32_t *len);

/* Compares the hash of all `len` bytes with st->sum, which must be of the whole chunk. */
NODISCARD int stored_check(const struct stored *st, uint32_t len);

#endif
