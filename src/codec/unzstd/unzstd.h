/*
 * A fast decoder of Zstandard frames (RFC 8878), for the kind that mounts contain.
 *
 * The streams in a mount are short and have several blocks, each with tables of its own, and no
 * branch in their sequences is predictable. This decoder copies without branching on lengths,
 * selects offsets without branches, and builds its tables in fewer steps than the library does. It
 * reports no errors: everything unusual or invalid is left to the library, whose verdict counts.
 */
#ifndef CODEC_UNZSTD_UNZSTD_H
#define CODEC_UNZSTD_UNZSTD_H

#include "base/bytes.h"

struct unzstd;

/*
 * True: dst has the bytes that the library would produce. False: undecided; dst is undefined.
 * Decodes only a single frame without dictionary and checksum whose window is its whole content, of
 * dst.n bytes. *u: NULL at first, then the thread's workspace, to be freed by mem_free.
 *
 * want: the caller needs only this many first bytes of dst. If that is not all, the rest of the
 * frame is not looked at, and the rest of dst is undefined.
 *
 * Built for AVX2 and BMI2 only (kernels.h: get_zstd), without which it is no faster.
 */
bool unzstd(struct unzstd **u, struct view src, struct span dst, size_t want);

#endif
