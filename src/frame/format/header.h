/*
 * The header of a frame: bytes <-> struct. FORMAT.md 9.1, and 11 for early betas.
 *
 * The reference reads these bytes by position and looks at no marker but the
 * magic; so do we, since a file that it opens must open here.
 */
#ifndef FRAME_FORMAT_HEADER_H
#define FRAME_FORMAT_HEADER_H

#include "frame/frame.h"

#define HEADER_FIXED 87      /* bytes that a commit rewrites, in one write */
#define HEADER_EMPTY 97      /* a whole header without metalayers          */
#define HEADER_META 0x5b     /* where the map of metalayers starts         */
#define HEADER_BETA_FIXED 82
#define HEADER_BETA_META 0x56

/* What a commit changes. */
struct header_root {
	uint64_t frame_len, nbytes, cbytes;
	uint32_t type_size, chunk_size;
};

/*
 * Judges the first bytes (HEADER_FIXED of them; a beta frame may be shorter) against the
 * length of the file. All of *info is set but trailer_len.
 */
NODISCARD int header_parse(struct frame_info *info, struct view fixed, uint64_t file_len);

/* How long the frame says that it is; 0: too short to say so. Not judged. */
uint64_t header_frame_len(struct view fixed);

/* A header without metalayers, of a frame without data. */
void header_build(uint8_t out[static HEADER_EMPTY], const struct pipeline *p, uint32_t chunk_size);

void header_set_root(uint8_t fixed[static HEADER_FIXED], const struct header_root *root);

/* Whether there are variable-length metalayers; informational. */
void header_set_vlmeta(uint8_t fixed[static HEADER_FIXED], bool any);

/* The header of the same frame without data. */
void header_make_empty(uint8_t fixed[static HEADER_FIXED], uint64_t frame_len, bool vlmeta);

/*
 * Codec, level, filters, split mode, dictionary and block size; not type_size. A filter
 * parameter that stands for the item size is spelled out, since type_size may change.
 */
void header_set_pipeline(uint8_t fixed[static HEADER_FIXED], const struct pipeline *p);

/* The filter parameters as they stand in a header. */
const uint8_t *header_filter_meta(const uint8_t fixed[static HEADER_FIXED]);

#endif
