/*
 * The trailer of a frame: variable-length metalayers, its own length, and a
 * fingerprint. FORMAT.md 9.5; 11 for early betas.
 */
#ifndef FRAME_FORMAT_TRAILER_H
#define FRAME_FORMAT_TRAILER_H

#include "base/buf.h"
#include "frame/format/meta.h"
#include "frame/frame.h"

#define TRAILER_LEAST 25 /* length of the shortest that the reference accepts */
#define TRAILER_EMPTY 35 /* length of one without metalayers                */
#define TRAILER_END 23   /* its last bytes: length and fingerprint          */
#define TRAILER_PRINT 18 /* the fingerprint: marker, type, 16 bytes         */

/* The name of the note, the metalayer that we add after those of others: root.h. */
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
 * Parses the metalayers of a whole trailer of at least TRAILER_LEAST bytes, of a frame that is not
 * a beta. *m borrows it.
 */
NODISCARD int trailer_parse(struct meta *m, struct view trailer);

/*
 * Appends a trailer with the metalayers of *m except any note, then `note` unless it is empty. The
 * fingerprint is left empty: type 0, zeros.
 */
NODISCARD int trailer_append(struct buf *out, const struct meta *m, struct view note);

/* How many metalayers there are beside a note. */
uint32_t trailer_others(const struct meta *m);

/* The length of such a trailer with a note of `note` bytes; 0: without a note. */
size_t trailer_length(const struct meta *m, size_t note);

/*
 * The fingerprint of a trailer, given at least its last TRAILER_PRINT bytes.
 * trailer_has_fingerprint is false if there is none, not even one of type 0.
 */
bool trailer_has_fingerprint(struct view trailer);
struct fingerprint trailer_fingerprint(struct view trailer);
void trailer_set_fingerprint(struct span trailer, struct fingerprint fp);

#endif
