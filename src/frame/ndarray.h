/*
 * The b2nd metalayer (FORMAT.md 14): where the items of an n-dimensional array
 * lie among the decoded bytes of its frame. Pure arithmetic, no I/O.
 */
#ifndef FRAME_NDARRAY_H
#define FRAME_NDARRAY_H

#include "base/bytes.h"
#include "base/err.h"

#define NDARRAY_MAX_DIM 16
#define NDARRAY_MAX_DTYPE 16384 /* in bytes: enough for a thousand named fields */

struct ndarray {
	int ndim;
	uint32_t item;                        /* bytes per item: type_size of the frame  */
	uint64_t shape[NDARRAY_MAX_DIM];      /* items along each dimension              */
	uint32_t chunkshape[NDARRAY_MAX_DIM]; /* of a chunk                              */
	uint32_t blockshape[NDARRAY_MAX_DIM]; /* of a block                              */
	uint64_t nbytes;                      /* of the array without padding */
	uint32_t block_nbytes, chunk_nbytes;  /* chunk: padding included                 */
	uint64_t nchunks;
	struct view dtype;                    /* text without NUL; empty if absent       */
};

/*
 * Parses the content of a b2nd metalayer, and checks it against the frame: its item size, its
 * chunk_size and its decoded size; a->dtype is a part of it, borrowed. -EBADMSG: it is damaged, or
 * does not fit. -ENOTSUP: its dtype is longer than NDARRAY_MAX_DTYPE.
 */
NODISCARD int ndarray_parse(struct ndarray *a, struct view meta, uint32_t item,
			    uint32_t chunk_size, uint64_t frame_nbytes);

/*
 * Where byte `at` < nbytes of the array lies (C order): at byte `in_block` of block `block` of
 * chunk `chunk`. The next `len` bytes of the array follow there without a gap; the longest such
 * run.
 */
struct ndarray_piece {
	uint32_t chunk, block, in_block, len;
};
struct ndarray_piece ndarray_locate(const struct ndarray *a, uint64_t at);

/*
 * The inverse: which bytes of the array lie in the bytes [lo, hi) of one chunk, padding left out.
 * In each run, the `len` bytes from `in_chunk` on belong at byte `at` of the array.
 *
 *   struct ndarray_runs r = ndarray_runs_of(a, chunk, lo, hi);
 *   struct ndarray_run run;
 *   while (ndarray_runs_next(&r, &run))
 *           ...
 */
struct ndarray_run {
	uint64_t at;
	uint32_t in_chunk, len;
};
struct ndarray_runs {
	const struct ndarray *a;
	uint32_t chunk, lo, hi, block;
	uint64_t next;                   /* block to look at next: those before it are padding  */
	uint64_t start[NDARRAY_MAX_DIM]; /* of the block's first item in the array              */
	uint32_t n[NDARRAY_MAX_DIM];     /* items of the array in the block; 0: all is padding  */
	uint32_t pos[NDARRAY_MAX_DIM];   /* of the next run in the block                        */
	int outer;                       /* dimensions outside a run                            */
	uint32_t len;                    /* bytes of a run                                      */
	bool in_block;                   /* there is a next run in this block                   */
};
struct ndarray_runs ndarray_runs_of(const struct ndarray *a, uint32_t chunk, uint32_t lo,
				    uint32_t hi);
bool ndarray_runs_next(struct ndarray_runs *r, struct ndarray_run *run);

#endif
