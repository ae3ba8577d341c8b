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
	struct buf text;  /* NumPy's header, then the dtype; counted: held.h */
	struct view head; /* that header                                       */
	uint64_t size;    /* of the .npy file                                  */
};

/*
 * True: the frame has the metalayer of an array: "b2nd" or that of its ancestor, "caterva".
 * *content is borrowed until frame_close.
 */
bool npy_meta(const struct frame *f, struct view *content);

/*
 * Reads the metalayer of an open frame, which may be closed afterwards, and makes the header. *v
 * must be zeroed; call npy_deinit on it even if this fails. -ENOTSUP also if the frame does not
 * hold the items of the array.
 */
NODISCARD int npy_init(struct npy *v, const struct frame *f);
void npy_deinit(struct npy *v);

/*
 * The size in bytes of a frame's .npy file, and the frame's block size. Takes `io`, even if it
 * fails.
 */
NODISCARD int npy_probe_take(struct io *io, uint64_t *size, uint32_t *blocksize);

#endif
