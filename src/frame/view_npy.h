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
	struct buf text;  /* NumPy's header, then the dtype; it counts: held.h */
	struct view head; /* that header                                       */
	uint64_t size;    /* of the .npy file                                  */
};

/*
 * True: the frame has the metalayer of an array, "b2nd" or, of its ancestor, "caterva". *content is
 * borrowed until frame_close.
 */
bool npy_meta(const struct frame *f, struct view *content);

/*
 * Reads the metalayer of an open frame, which may be closed then, and makes the header. *v is
 * zeroed; npy_deinit follows, also after a failure. -ENOTSUP also if the items of the array are not
 * in the frame.
 */
NODISCARD int npy_init(struct npy *v, const struct frame *f);
void npy_deinit(struct npy *v);

/*
 * The size in bytes of the .npy file of a frame, and the block size of the frame. Takes `io`, even
 * if it fails.
 */
NODISCARD int npy_probe_take(struct io *io, uint64_t *size, uint32_t *blocksize);

#endif
