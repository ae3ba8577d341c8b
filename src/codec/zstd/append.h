/*
 * Appends to a frame: its blocks stay, and what is appended becomes another, raw block. Encoding
 * everything again would take a hundred times as long.
 */
#ifndef CODEC_ZSTD_APPEND_H
#define CODEC_ZSTD_APPEND_H

#include "base/bytes.h"

#include <sys/types.h>

/* As append in codec.h. Also returns 0 for frames unlike ours: with a checksum, say. */
ssize_t zstd_append(struct view frame, struct view more, struct span dst);

#endif
