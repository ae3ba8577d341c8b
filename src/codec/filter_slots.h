/*
 * The filters of a pipeline, of a chunk, or in the header of a frame, and the parameter of each:
 * `filter` and `meta` (FORMAT.md 5.1). What they say of the item size is here.
 */
#ifndef CODEC_FILTER_SLOTS_H
#define CODEC_FILTER_SLOTS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define FILTER_SLOTS 6

/* True: one of them is this one (enum filter_id). */
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
 * The header of a super-chunk has one item size, and that of a file which ends within an item says
 * 1 there (FORMAT.md 18). So the true one is noted in the filter parameters of that header: of
 * shuffle, whose 0 means the same, of bitshuffle and of delta, which take none. Only there: `meta`
 * is not what chunks are encoded with.
 *
 * filters_note_item writes it. A parameter above 127, which the reference's Python cannot read,
 * becomes one that it can; so an item size above 127 is not noted. filters_noted_item finds it
 * again; 1: there is none.
 */
void filters_note_item(const uint8_t filter[static FILTER_SLOTS],
		       uint8_t meta[static FILTER_SLOTS], uint32_t item);
uint32_t filters_noted_item(const uint8_t filter[static FILTER_SLOTS],
			    const uint8_t meta[static FILTER_SLOTS]);

/*
 * Takes it out of the parameter of shuffle, where the typesize beside it says the same: 0, since to
 * the reference before C 2.15 the parameter is a number of further shuffles (FORMAT.md 5.2).
 */
void filters_imply_item(const uint8_t filter[static FILTER_SLOTS],
			uint8_t meta[static FILTER_SLOTS], uint32_t item);

#endif
