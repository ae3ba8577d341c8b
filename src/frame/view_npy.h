/*
 * An n-dimensional array as an .npy file: a NumPy header made from its metalayer, then the items in
 * C order, gathered from the blocks of the frame.
 */
#ifndef FRAME_VIEW_NPY_H
#define FRAME_VIEW_NPY_H

#include "frame/frame.h"
#include "frame/npy_header.h"

struct npy {
	struct ndarray array;
	uint8_t head[NPY_HEADER_MAX]; /* NumPy's header   */
	uint32_t head_len;
	uint64_t size;                 /* of the .npy file */
};

/*
 * True: the frame has the metalayer of an array, "b2nd" or, of its ancestor, "caterva". *content is
 * borrowed until frame_close.
 */
bool npy_meta(const struct frame *f, struct view *content);

/*
 * Reads the metalayer of an open frame and makes the header. -ENOTSUP also if the items of the
 * array are not in the frame.
 */
NODISCARD int npy_init(struct npy *v, const struct frame *f);

/*
 * The size in bytes of the .npy file of a frame, and the block size of the frame. Takes `io`, even
 * if it fails.
 */
NODISCARD int npy_probe_take(struct io *io, uint64_t *size, uint32_t *blocksize);

#endif
