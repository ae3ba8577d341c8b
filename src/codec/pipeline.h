/*
 * How the bytes of a chunk become its stored form: filters, then a codec. Options are validated
 * here, once; the encoder relies on pipeline_check.
 *
 * Text form: "shuffle:4+zstd:3", "bitshuffle:2+lz4", "zstd:1", "store".
 * FILTER[:TYPESIZE][+FILTER...]+CODEC[:LEVEL]; see pipeline_parse.
 */
#ifndef CODEC_PIPELINE_H
#define CODEC_PIPELINE_H

#include "base/bytes.h"
#include "base/err.h"
#include "codec/filter_slots.h"

#define PIPELINE_LEVEL_MAX 9

/* FORMAT.md 1.5; the values are those of the reference library's interface. */
enum split_mode { SPLIT_ALWAYS = 1, SPLIT_NEVER = 2, SPLIT_AUTO = 3, SPLIT_FORWARD = 4 };

struct pipeline {
	uint8_t codec;                /* FORMAT.md 1.3, the compcode number space        */
	uint8_t level;                /* 0 store, 1 fast ... 9 small                     */
	uint8_t filter[FILTER_SLOTS]; /* FORMAT.md 1.4; applied in slot order; 0 empty   */
	uint8_t meta[FILTER_SLOTS];   /* parameter of the filter in the same slot        */
	uint8_t split_mode;           /* enum split_mode                                 */
	bool use_dict;                /* zstd, lz4, lz4hc: a dictionary per chunk        */
	bool no_sums;                 /* no checksums of blocks: the chunk has one as a whole
					 elsewhere, or is not kept */
	uint32_t typesize;            /* bytes per item, >= 1; above 255 acts as 1       */
	uint32_t blocksize;           /* bytes, a multiple of typesize; 0: automatic     */
};

#define PIPELINE_TEXT_MAX 128

/* Sets zstd level 1, no filter, typesize 1, automatic blocks. */
void pipeline_default(struct pipeline *p);

/* Empties all slots of filters. */
void pipeline_drop_filters(struct pipeline *p);

/*
 * Validates a pipeline: codec and filters are known and built in, the level is 0..9, the parameters
 * of the filters suit the typesize, and blocksize is a multiple of typesize within the limit of the
 * format. Returns 0, or -EINVAL with the reason in *why, a sentence for the user, unless that is
 * NULL.
 */
NODISCARD int pipeline_check(const struct pipeline *p, struct err_reason *why);

/*
 * Sets codec, level, filters and typesize of *p as `text` says, and checks the result as
 * pipeline_check does. If several filters name a typesize, it must be the same; if none does,
 * p->typesize stays.
 */
NODISCARD int pipeline_parse(struct pipeline *p, const char *text, struct err_reason *why);

/* Writes the text form, at most PIPELINE_TEXT_MAX bytes including the NUL. */
void pipeline_format(const struct pipeline *p, char out[static PIPELINE_TEXT_MAX]);

#endif
