/* What read.c and npy.c share. The file's lock is held. */
#ifndef FS_READ_IMPL_H
#define FS_READ_IMPL_H

#include "fs/read/fetch.h"
#include "fs/read/read.h"

/* Adds bytes [lo, lo + len) of chunk n to the reply, in their newest version. */
NODISCARD int file_read_piece(struct fetch *x, uint32_t n, uint32_t lo, uint32_t len);

/* Adds bytes [at, at + size) of the .npy file of an array to the reply; all are inside it. */
NODISCARD int file_read_npy(struct fetch *x, uint64_t at, size_t size);

#endif
