/*
 * The header of a frame: bytes <-> struct. FORMAT.md 9.1, and 11 for early betas.
 *
 * The reference reads these bytes by position and checks no markers; nor do we, since whatever it
 * opens must open here. We only require the magic, which it ignores.
 */
#ifndef FRAME_FORMAT_HEADER_H
#define FRAME_FORMAT_HEADER_H

#include "frame/frame.h"

#define HEADER_FIXED 87      /* bytes that a commit rewrites, in one pwrite */
#define HEADER_EMPTY 97      /* a whole header without metalayers          */
#define HEADER_META 0x5b     /* where the map of metalayers starts         */
#define HEADER_BETA_FIXED 82
#define HEADER_BETA_META 0x56

/* The fields that every commit changes. */
struct header_root {
	uint64_t frame_len, nbytes, cbytes;
	uint32_t type_size, chunk_size;
};

/*
 * Parses the first bytes (HEADER_FIXED of them; a beta frame may be shorter) and checks them
 * against the length of the file. Sets all of *info but trailer_len.
 */
NODISCARD int header_parse(struct frame_info *info, struct view fixed, uint64_t file_len);

/* The length of the frame according to its header, unchecked; 0: `fixed` is too short to say. */
uint64_t header_frame_len(struct view fixed);

/* Writes the header of a frame without data and without metalayers. */
void header_build(uint8_t out[static HEADER_EMPTY], const struct pipeline *p, uint32_t chunk_size);

void header_set_root(uint8_t fixed[static HEADER_FIXED], const struct header_root *root);

/* Sets the flag for variable-length metalayers, which is informational. */
void header_set_vlmeta(uint8_t fixed[static HEADER_FIXED], bool any);

/* Changes a header into that of the same frame without data. */
void header_make_empty(uint8_t fixed[static HEADER_FIXED], uint64_t frame_len, bool vlmeta);

/*
 * Sets codec, level, filters, split mode, dictionary and block size, but not type_size. A filter
 * parameter of 0 that stands for the item size is written out, since type_size may change.
 */
void header_set_pipeline(uint8_t fixed[static HEADER_FIXED], const struct pipeline *p);

void header_set_block_size(uint8_t fixed[static HEADER_FIXED], uint32_t size);

/* Zeroes the defaults for encoding new chunks, and informational fields. */
void header_clear_defaults(uint8_t fixed[static HEADER_FIXED]);

/* Notes an item size other than type_size in the filter parameters, if they have a place for it. */
void header_note_item(uint8_t fixed[static HEADER_FIXED], uint32_t size);

/* Removes it from them where type_size says the same. */
void header_imply_item(uint8_t fixed[static HEADER_FIXED], uint32_t size);

/* The chunk size and the filter parameters in a header that is not a beta's. */
uint32_t header_chunk_size(const uint8_t fixed[static HEADER_FIXED]);
const uint8_t *header_filter_meta(const uint8_t fixed[static HEADER_FIXED]);

#endif
