/* Bytes out of frames and other files. */
#ifndef UNPACK_H
#define UNPACK_H

#include "frame/frame.h"

/* The bytes of an open frame, or of its array as an .npy file, into an empty file. */
NODISCARD int unpack_frame(struct frame *f, bool array, struct scratch *s, int out);

/* The bytes of a file, without its holes. */
NODISCARD int unpack_plain(int in, int out);

#endif
