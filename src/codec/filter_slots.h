/*
 * The filters of a pipeline, of a chunk, or in the header of a frame, and the parameter of each:
 * `filter` and `meta` (FORMAT.md 5.1). What they say about the item size.
 */
#ifndef CODEC_FILTER_SLOTS_H
#define CODEC_FILTER_SLOTS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define FILTER_SLOTS 6

/* True: one of them is `id` (enum filter_id). */
static inline bool filters_have(const uint8_t filter[static FILTER_SLOTS], uint8_t id)
{
	return memchr(filter, id, FILTER_SLOTS) != NULL;
}

/* True: all slots are empty. */
static inline bool filters_are_none(const uint8_t filter[static FILTER_SLOTS])
{
	static const uint8_t none[FILTER_SLOTS];
	return memcmp(filter, none, sizeof none) == 0;
}

/*
 * True: undoing these filters needs the item size from the header of the super-chunk, so a chunk
 * that uses them may decode differently in another frame.
 */
bool filters_need_item(const uint8_t filter[static FILTER_SLOTS],
		       const uint8_t meta[static FILTER_SLOTS]);

/*
 * The header of a super-chunk has one item size, which has to be 1 if the file ends within an item
 * (FORMAT.md 18). So the true size is noted in the filter parameters of that header: of shuffle,
 * whose 0 means the same, and of bitshuffle and delta, which take none. Chunks are not encoded with
 * that `meta`.
 *
 * filters_note_item writes it. The reference's Python cannot read parameters above 127: these are
 * replaced, so an item size above 127 is not noted. filters_noted_item gets it back; 1: none was
 * noted.
 */
void filters_note_item(const uint8_t filter[static FILTER_SLOTS],
		       uint8_t meta[static FILTER_SLOTS], uint32_t item);
uint32_t filters_noted_item(const uint8_t filter[static FILTER_SLOTS],
			    const uint8_t meta[static FILTER_SLOTS]);

/*
 * Sets the parameter of shuffle back to 0 if it equals the typesize next to it: before C 2.15 the
 * reference took it for a number of additional shuffles (FORMAT.md 5.2).
 */
void filters_imply_item(const uint8_t filter[static FILTER_SLOTS],
			uint8_t meta[static FILTER_SLOTS], uint32_t item);

#endif
