/*
 * A frame that gets longer: its blocks stay, and what is appended becomes one more, which is stored
 * as it is. Encoding all of it again takes a hundred times as long.
 */
#ifndef CODEC_ZSTD_APPEND_H
#define CODEC_ZSTD_APPEND_H

#include "base/bytes.h"

#include <sys/types.h>

/* As append in codec.h. 0 as well for frames of other kinds than ours: with a checksum, say. */
ssize_t zstd_append(struct view frame, struct view more, struct span dst);

#endif
