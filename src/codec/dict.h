/* A dictionary for one chunk, made from samples of its streams. */
#ifndef CODEC_DICT_H
#define CODEC_DICT_H

#include "codec/encoder.h"

/*
 * Replaces *dict by a dictionary of at most DICT_MAX_WRITE bytes for the codec of e->plan, which
 * must have dict_make. Leaves it empty if the chunk, or a block, is too small to gain from one, or
 * if nothing was learnt. Uses the blocks and `trial` of the scratch. Fails with -ENOMEM only.
 */
NODISCARD int dict_make(const struct encoder *e, struct buf *dict);

#endif
