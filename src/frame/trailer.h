/*
 * The trailer of a frame: variable-length metalayers, its own length, and a
 * fingerprint. FORMAT.md 9.5; 11 for early betas.
 */
#ifndef FRAME_TRAILER_H
#define FRAME_TRAILER_H

#include "frame/frame.h"
#include "frame/meta.h"

#define TRAILER_EMPTY 35 /* bytes of one without metalayers                 */
#define TRAILER_END 23   /* its last bytes: length and fingerprint          */

/* Judges the last TRAILER_END bytes of a frame and sets info->trailer_len. */
NODISCARD int trailer_parse_end(struct frame_info *info, struct view end);

/* The metalayers of a whole trailer, which *m borrows. A beta trailer has none. */
NODISCARD int trailer_parse(struct meta *m, struct view trailer, bool beta);

void trailer_build(uint8_t out[static TRAILER_EMPTY]);

/* Type 0 and zeros, as the reference does when it writes: the old one is stale. */
void trailer_clear_fingerprint(struct span trailer);

#endif
