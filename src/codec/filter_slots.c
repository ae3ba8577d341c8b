#include "codec/filter_slots.h"

#include "codec/filter.h"

/*
 * The reference's Python reads filter parameters as signed bytes, and cannot open frames with
 * larger ones.
 */
#define NOTED_MAX INT8_MAX

/* True: the filter ignores its parameter. */
static bool is_free(uint8_t filter)
{
	return filter == FILTER_BITSHUFFLE || filter == FILTER_DELTA;
}

void filters_note_item(const uint8_t filter[static FILTER_SLOTS],
		       uint8_t meta[static FILTER_SLOTS], uint32_t item)
{
	for (unsigned i = 0; i < FILTER_SLOTS; i++) {
		bool is_shuffle = filter[i] == FILTER_SHUFFLE;
		if (is_free(filter[i]) || (is_shuffle && !meta[i]))
			meta[i] = item <= NOTED_MAX ? (uint8_t)item : 0;
		else if (is_shuffle && meta[i] > NOTED_MAX)
			meta[i] = 0;
		else if (filter[i] == FILTER_BYTEDELTA && meta[i] > NOTED_MAX)
			meta[i] = 1; /* 0 would need the item size again: filters_need_item */
	}
}

void filters_imply_item(const uint8_t filter[static FILTER_SLOTS],
			uint8_t meta[static FILTER_SLOTS], uint32_t item)
{
	for (unsigned i = 0; i < FILTER_SLOTS; i++)
		if (filter[i] == FILTER_SHUFFLE && meta[i] == item)
			meta[i] = 0;
}

uint32_t filters_noted_item(const uint8_t filter[static FILTER_SLOTS],
			    const uint8_t meta[static FILTER_SLOTS])
{
	for (unsigned i = 0; i < FILTER_SLOTS; i++)
		if ((is_free(filter[i]) || filter[i] == FILTER_SHUFFLE) && meta[i])
			return meta[i];
	return 1;
}

bool filters_need_item(const uint8_t filter[static FILTER_SLOTS],
		       const uint8_t meta[static FILTER_SLOTS])
{
	for (unsigned i = 0; i < FILTER_SLOTS; i++)
		if ((filter[i] == FILTER_BYTEDELTA || filter[i] == FILTER_BYTEDELTA_OLD) &&
		    meta[i] == 0)
			return true; /* 0 channels: as many as bytes in an item */
	return false;
}
