/*
 * The b2nd metalayer (FORMAT.md 14): where the items of an n-dimensional array
 * lie among the decoded bytes of its frame. Pure arithmetic, no I/O.
 */
#ifndef FRAME_NDARRAY_H
#define FRAME_NDARRAY_H

#include "base/bytes.h"
#include "base/err.h"

#define NDARRAY_MAX_DIM 16
#define NDARRAY_MAX_DTYPE 4096

struct ndarray {
	int ndim;
	uint32_t item;                        /* bytes an item, of the frame's type_size */
	uint64_t shape[NDARRAY_MAX_DIM];      /* items along each dimension              */
	uint32_t chunkshape[NDARRAY_MAX_DIM]; /* of a chunk                              */
	uint32_t blockshape[NDARRAY_MAX_DIM]; /* of a block                              */
	uint64_t nbytes;                      /* of the array in C order, no padding     */
	uint32_t blocks_in_chunk;
	uint32_t block_nbytes, chunk_nbytes;  /* chunk: padding included                 */
	uint64_t nchunks;
	char dtype[NDARRAY_MAX_DTYPE];        /* NUL-ended; "" when absent               */
};

/* Judges a metalayer against the frame: item size, chunk_size and number of chunks. */
NODISCARD int ndarray_parse(struct ndarray *a, struct view meta, uint32_t item,
			    uint32_t chunk_size, uint64_t frame_nbytes);

/*
 * The longest run of array bytes (C order) from `at` that lies in one block of one
 * chunk without a gap: `len` bytes from byte `in_block` of block `block` of chunk `chunk`.
 * at < nbytes.
 */
struct ndarray_piece {
	uint32_t chunk, block, in_block, len;
};
struct ndarray_piece ndarray_locate(const struct ndarray *a, uint64_t at);

/*
 * The header of an .npy file of this array, format 1.0 or 2.0 by length,
 * padded with spaces so that its length is a multiple of 64 (NEP 1). `out`
 * must hold NDARRAY_NPY_MAX bytes. Returns its length; -ENOTSUP for a dtype
 * that NumPy could not read back.
 */
#define NDARRAY_NPY_MAX 8192
NODISCARD int ndarray_npy_header(const struct ndarray *a, uint8_t out[static NDARRAY_NPY_MAX]);

#endif
