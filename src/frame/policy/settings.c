#include "frame/policy/settings.h"

#include "codec/chunk.h"
#include "frame/policy/rules.h"

#include <stdio.h>
#include <string.h>

const struct option_row settings_rows[SETTINGS_ROWS] = {
#define WORD(field) offsetof(struct settings_words, field)
	{"codec", OPTION_TEXT, WORD(codec), 0, 0, "NAME",
	 "blosclz, lz4, lz4hc, zlib or zstd (zstd)"},
	{"level", OPTION_LEVEL, WORD(level), 0, 9, "N",
	 "0 stores, 1 is fast, 9 is small; for a mount also auto: as high as its workers can keep"
	 " up with (1)"},
	{"filter", OPTION_TEXT, WORD(filter), 0, 0, "NAME",
	 "none, shuffle, bitshuffle, delta, bytedelta, ... (cframe codecs lists them)"},
	{"typesize", OPTION_NUMBER, WORD(typesize), 1, 255, "N",
	 "item size in bytes, for the filters (1)"},
	{"pipeline", OPTION_TEXT, WORD(pipeline), 0, 0, "TEXT",
	 "filter, item size, codec and level in one: shuffle:4+zstd:3"},
	{"tune", OPTION_TEXT, WORD(tune), 0, 0, "AIM",
	 "how filters are chosen by looking at the data: balanced, size, speed or off (balanced)"},
	{"profile", OPTION_TEXT, WORD(profile), 0, 0, "NAME",
	 "random: blocks of 16K, for small random reads"},
	{"rules", OPTION_TEXT, WORD(rules), 0, 0, "FILE",
	 "pipelines by file name, in lines such as: *.fits shuffle:4+zstd:3"},
	{"chunksize", OPTION_SIZE, WORD(chunksize), SETTINGS_CHUNKSIZE_MIN, SETTINGS_CHUNKSIZE_MAX,
	 "SIZE", "unit of compression (1M)"},
	{"blocksize", OPTION_SIZE, WORD(blocksize), SETTINGS_BLOCKSIZE_MIN, SETTINGS_BLOCKSIZE_MAX,
	 "SIZE", "unit of decoding (64K)"},
#undef WORD
};

void settings_words_init(struct settings_words *w)
{
	*w = (struct settings_words){.level = SETTINGS_NO_LEVEL};
}

#define SPELT_MAX (PIPELINE_TEXT_MAX * 2)

/*
 * Spells the pipeline in its text form: that of `pipeline`, or from the other words except
 * typesize.
 */
static void spell_pipeline(const struct settings_words *w, char text[static SPELT_MAX])
{
	bool filtered = w->filter && strcmp(w->filter, "none") != 0;
	char level[8] = "";

	if (w->pipeline) {
		snprintf(text, SPELT_MAX, "%s", w->pipeline);
		return;
	}
	if (w->level <= PIPELINE_LEVEL_MAX)
		snprintf(level, sizeof level, ":%u", (unsigned)w->level);
	snprintf(text, SPELT_MAX, "%s%s%s%s", filtered ? w->filter : "", filtered ? "+" : "",
		 w->codec ? w->codec : "zstd", level);
}

/* Names the options from which spell_pipeline made the text, and their values as given. */
static int refuse(const struct settings_words *w, const char *text, const char *reason,
		  struct option_why *why)
{
	if (w->pipeline)
		return option_refuse(why, "option pipeline", text, reason);
	if (w->filter && w->codec)
		return option_refuse(why, "options filter and codec", text, reason);
	if (w->filter)
		return option_refuse(why, "option filter", w->filter, reason);
	return option_refuse(why, "option codec", w->codec ? w->codec : text, reason);
}

int settings_parse_pipeline(struct pipeline *p, const char *text, struct err_reason *why)
{
	TRY(pipeline_parse(p, text, why));
	if (p->typesize <= CHUNK_MAX_TYPESIZE)
		return 0;
	return err_refuse(why, "items have at most %u bytes", CHUNK_MAX_TYPESIZE);
}

static int judge_pipeline(struct settings *s, const struct settings_words *w,
			  struct option_why *why)
{
	bool has_level = w->level != SETTINGS_NO_LEVEL;
	struct err_reason reason;
	char text[SPELT_MAX];

	pipeline_default(&s->pipeline);
	if (w->pipeline && (w->codec || w->filter || has_level || w->typesize))
		return option_refuse(why, "option", "pipeline",
				     "already says codec, level, filter and typesize");
	spell_pipeline(w, text);
	if (strlen(text) == sizeof text - 1) /* there may have been more */
		return refuse(w, text, "is too long", why);
	/*
	 * typesize is not in the text: after the name of a filter that rounds, a number means bits
	 */
	if (w->typesize)
		s->pipeline.typesize = (uint32_t)w->typesize;
	if (settings_parse_pipeline(&s->pipeline, text, &reason) < 0)
		return refuse(w, text, reason.text, why);
	if (w->typesize && s->pipeline.typesize != w->typesize)
		return refuse(w, text, "says another item size than typesize", why);
	s->level_auto = w->level == OPTION_AUTO;
	s->free_level = !has_level && !w->pipeline;
	s->free_blocksize =
		!w->blocksize && !w->profile && s->chunksize >= SETTINGS_CHUNKSIZE_FREE;
	return 0;
}

int settings_parse_tune(const char *text, enum settings_tune *out)
{
	static const char *const aims[] = {
		[SETTINGS_TUNE_OFF] = "off", [SETTINGS_TUNE_BALANCED] = "balanced",
		[SETTINGS_TUNE_SIZE] = "size", [SETTINGS_TUNE_SPEED] = "speed",
	};

	for (size_t i = 0; i < sizeof aims / sizeof *aims; i++)
		if (strcmp(text, aims[i]) == 0) {
			*out = (enum settings_tune)i;
			return 0;
		}
	return -EINVAL;
}

/* Naming a filter or an item size leaves nothing to be chosen, and level 0 only stores. */
static int judge_tune(struct settings *s, const struct settings_words *w, struct option_why *why)
{
	bool named = w->filter || w->typesize || w->pipeline;

	if (!w->tune) {
		s->tune = named || !s->pipeline.level ? SETTINGS_TUNE_OFF : SETTINGS_TUNE_BALANCED;
		return 0;
	}
	if (settings_parse_tune(w->tune, &s->tune) < 0)
		return option_refuse(why, "option tune", w->tune,
				     "is none of balanced, size, speed, off");
	if (named && s->tune)
		return option_refuse(why, "option", "tune",
				     "filter, typesize and pipeline say it already");
	if (!s->pipeline.level)
		s->tune = SETTINGS_TUNE_OFF;
	return 0;
}

#define BLOCKSIZE_RANDOM (16 << 10) /* of profile=random */

/* Block and chunk sizes: a block is whole items, and no larger than the chunk. */
static int judge_sizes(struct settings *s, const struct settings_words *w, struct option_why *why)
{
	uint64_t item = s->pipeline.typesize;
	uint64_t usual = w->profile ? BLOCKSIZE_RANDOM : SETTINGS_BLOCKSIZE;
	uint64_t block = w->blocksize ? w->blocksize : min_u64(usual, s->chunksize);
	struct err_reason reason;

	if (w->profile && strcmp(w->profile, "random") != 0)
		return option_refuse(why, "option profile", w->profile, "is none of: random");
	if (w->blocksize > s->chunksize)
		return option_refuse(why, "option", "blocksize", "is larger than the chunk");
	s->pipeline.blocksize = (uint32_t)(block - block % item);
	if (pipeline_check(&s->pipeline, &reason) < 0)
		return option_refuse(why, "option", "pipeline", reason.text);
	return 0;
}

int settings_judge(struct settings *s, const struct settings_words *w, struct option_why *why)
{
	*s = (struct settings){
		.chunksize = w->chunksize ? w->chunksize : SETTINGS_CHUNKSIZE,
		.chunksize_most = SETTINGS_CHUNKSIZE_MAX,
		.blocksize_most = SETTINGS_BLOCKSIZE_MAX,
	};
	TRY(judge_pipeline(s, w, why));
	TRY(judge_tune(s, w, why));
	TRY(judge_sizes(s, w, why));
	return w->rules ? rules_read(&s->rules, w->rules, why) : 0;
}

void settings_deinit(struct settings *s)
{
	rules_free(s->rules);
	*s = (struct settings){0};
}
