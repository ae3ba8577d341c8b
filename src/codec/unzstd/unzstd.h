/*
 * A fast reader of Zstandard frames (RFC 8878), for those that mounts contain.
 *
 * The streams in a mount are short and have several blocks, each with tables of its own, and no
 * branch in their sequences is predictable. This reader copies without branching on lengths,
 * chooses offsets without branches, and builds its tables in fewer steps than the library does. It
 * reports no errors: everything that is not plain, or wrong, is left to the library, whose verdict
 * counts.
 */
#ifndef CODEC_UNZSTD_UNZSTD_H
#define CODEC_UNZSTD_UNZSTD_H

#include "base/bytes.h"

struct unzstd;

/*
 * True: dst has the bytes that the library would give. False: not known; dst has any bytes.
 * Only what it is sure of: one frame, without dictionary and checksum, whose window is its
 * content, of dst.n bytes. *u: NULL at first, then a thread's memory, for mem_free.
 *
 * want: so many first bytes of dst are enough. With fewer than all of them the rest of the frame is
 * not looked at, and the rest of dst may have any bytes.
 *
 * It is built for AVX2 and BMI2 only (kernels.h: get_zstd), without which it is no faster.
 */
bool unzstd(struct unzstd **u, struct view src, struct span dst, size_t want);

#endif
