/*
 * How files are stored, by the options of a mount or of `cframe compress`, which are checked once.
 * Wishes for a single file take precedence over them (wish.h). What they leave open is chosen by
 * looking at the data (policy.h).
 */
#ifndef FRAME_POLICY_SETTINGS_H
#define FRAME_POLICY_SETTINGS_H

#include "base/option.h"
#include "codec/pipeline.h"

#include <stdbool.h>

#define SETTINGS_CHUNKSIZE_MIN 4096
#define SETTINGS_CHUNKSIZE_MAX (1 << 30)
#define SETTINGS_CHUNKSIZE (1 << 20) /* where none is given */
#define SETTINGS_BLOCKSIZE_MIN 64
#define SETTINGS_BLOCKSIZE_MAX (64 << 20)
#define SETTINGS_BLOCKSIZE (64 << 10) /* where none is given */

/* With smaller chunks the tuner leaves the block size alone. */
#define SETTINGS_CHUNKSIZE_FREE (1 << 20)

/* How the pipeline of a file is found when no filter is named. */
enum settings_tune {
	SETTINGS_TUNE_OFF,
	SETTINGS_TUNE_BALANCED,
	SETTINGS_TUNE_SIZE,
	SETTINGS_TUNE_SPEED
};

struct settings {
	struct pipeline pipeline; /* of new files and rewritten chunks         */
	bool free_level, free_blocksize; /* not given: the tuner may choose    */
	bool level_auto;          /* the level follows the load                */
	enum settings_tune tune;  /* off when filter, typesize or pipeline is given */
	uint64_t chunksize;       /* at least pipeline.blocksize               */
	uint64_t chunksize_most, blocksize_most; /* limits for wishes          */
	struct rules *rules;      /* rules.h; NULL: none                       */
	/* set by wish_apply: what of the file's own wishes applies even if it has data */
	bool insist, insist_pipeline, insist_blocksize;
};

/* The options as they were given, in any order; texts are borrowed. */
struct settings_words {
	const char *codec, *filter, *pipeline, *tune, *rules, *profile; /* NULL: not given */
	uint64_t typesize, chunksize, blocksize;                        /* 0: not given    */
	uint64_t level; /* OPTION_AUTO, or SETTINGS_NO_LEVEL */
};

#define SETTINGS_NO_LEVEL (UINT64_MAX - 1)

/* Their table, for option_find, for option_read into struct settings_words, and for the help. */
#define SETTINGS_ROWS 10
extern const struct option_row settings_rows[SETTINGS_ROWS];

/* Sets *w to no options given. */
void settings_words_init(struct settings_words *w);

/*
 * Checks them together, and reads the rules. On failure, except -ENOMEM, `why` is a sentence for
 * the user. Call settings_deinit even if this fails.
 */
NODISCARD int settings_judge(struct settings *s, const struct settings_words *w,
			     struct option_why *why);
void settings_deinit(struct settings *s);

/*
 * pipeline_parse, for user input: also -EINVAL if items are so long that they would be treated as
 * bytes, and filters would do nothing.
 */
NODISCARD int settings_parse_pipeline(struct pipeline *p, const char *text, struct err_reason *why);

/* "balanced". -EINVAL, silently. */
NODISCARD int settings_parse_tune(const char *text, enum settings_tune *out);

#endif
