/*
 * The dtype of an array as an .npy file has it.
 *
 * The text comes from a frame and goes to a program that evaluates it. So it is parsed, not
 * trusted: it must be a string such as '<f8', or the list or dictionary of fields that NumPy prints
 * for a structured type.
 */
#ifndef FRAME_NPY_DTYPE_H
#define FRAME_NPY_DTYPE_H

#include "base/bytes.h"

/*
 * Writes what stands for `dtype`, which is not empty, and the item size of that. False: NumPy could
 * not read it back, or it does not fit into `room` bytes.
 */
bool npy_dtype(struct view dtype, char *out, size_t room, uint64_t *size);

#endif
