/*
 * The trailer of a frame: variable-length metalayers, its own length, and a
 * fingerprint. FORMAT.md 9.5; 11 for early betas.
 */
#ifndef FRAME_FORMAT_TRAILER_H
#define FRAME_FORMAT_TRAILER_H

#include "base/buf.h"
#include "frame/format/meta.h"
#include "frame/frame.h"

#define TRAILER_LEAST 25 /* bytes of the shortest that the reference accepts */
#define TRAILER_EMPTY 35 /* bytes of one without metalayers                 */
#define TRAILER_END 23   /* its last bytes: length and fingerprint          */
#define TRAILER_PRINT 18 /* the fingerprint: marker, type, 16 bytes         */

/* The metalayer that we add to those of others, as the last one. root.h: what it is for. */
#define TRAILER_NOTE "cframefs"

#define TRAILER_TYPE_NONE 0
#define TRAILER_TYPE_64 2
#define TRAILER_TYPE_MOST 3

/* The fingerprint; root.h defines its meaning. */
struct fingerprint {
	uint8_t type;
	uint64_t hash, word;
};

/* Parses the last TRAILER_END bytes of a frame, and sets info->trailer_len. */
NODISCARD int trailer_parse_end(struct frame_info *info, struct view end);

/*
 * Parses the metalayers of a whole trailer of at least TRAILER_LEAST bytes, not of a beta frame. *m
 * borrows it.
 */
NODISCARD int trailer_parse(struct meta *m, struct view trailer);

/*
 * Appends a trailer with the metalayers of *m, except for a note among them, and with `note` as the
 * last one, unless that is empty. The fingerprint is left empty: type 0, zeros.
 */
NODISCARD int trailer_append(struct buf *out, const struct meta *m, struct view note);

/* The length of such a trailer with a note of `note` bytes; 0: without one. */
size_t trailer_length(const struct meta *m, size_t note);

/*
 * The fingerprint of a trailer, of which the last TRAILER_PRINT bytes suffice. False of the first:
 * it has none, not even one of type 0.
 */
bool trailer_has_fingerprint(struct view trailer);
struct fingerprint trailer_fingerprint(struct view trailer);
void trailer_set_fingerprint(struct span trailer, struct fingerprint fp);

#endif
