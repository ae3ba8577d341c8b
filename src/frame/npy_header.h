/* The header of an .npy file (NEP 1): a Python dictionary as text, which NumPy evaluates. */
#ifndef FRAME_NPY_HEADER_H
#define FRAME_NPY_HEADER_H

#include "frame/ndarray.h"

#define NPY_HEADER_MAX (NDARRAY_MAX_DTYPE + 1024)

/*
 * Writes a header of format 1.0, or 3.0 if field names are not ASCII, padded with spaces to a
 * multiple of 64 bytes. Returns its length. -ENOTSUP: a dtype that NumPy could not read back.
 */
NODISCARD int npy_header(const struct ndarray *a, uint8_t out[static NPY_HEADER_MAX]);

#endif
