/* A dictionary for one chunk, made from samples of what its streams will hold. */
#ifndef CODEC_DICT_H
#define CODEC_DICT_H

#include "codec/encoder.h"

/* Leaves dict empty where the chunk, or a block, is too small to gain from one. */
NODISCARD int dict_make(const struct encoder *e, struct buf *dict);

#endif
