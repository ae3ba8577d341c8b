#include "frame/policy/wish.h"

#include "base/bytes.h"
#include "base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

static const char prefix[] = WISH_PREFIX;
static const char *const words[] = {"pipeline", "chunksize", "blocksize", "tune"};

#define NWORDS (sizeof words / sizeof *words)
#define VALUE_MAX PIPELINE_TEXT_MAX

const char *wish_word(const char *attribute)
{
	size_t n = sizeof prefix - 1;

	if (strncmp(attribute, prefix, n) != 0)
		return NULL;
	for (size_t i = 0; i < NWORDS; i++)
		if (strcmp(attribute + n, words[i]) == 0)
			return words[i];
	return NULL;
}

static int set_pipeline(struct wish *w, const char *value, struct err_reason *why)
{
	struct pipeline p;

	pipeline_default(&p);
	TRY(settings_parse_pipeline(&p, value, why));
	w->pipeline = p;
	w->has_pipeline = true;
	return 0;
}

static int set_tune(struct wish *w, const char *value, struct err_reason *why)
{
	if (settings_parse_tune(value, &w->tune) < 0)
		return err_refuse(why, "is none of balanced, size, speed, off");
	w->has_tune = true;
	return 0;
}

static int set_size(uint64_t *at, const char *value, uint64_t least, uint64_t most,
		    struct err_reason *why)
{
	char from[OPTION_SIZE_MAX], to[OPTION_SIZE_MAX];
	uint64_t n;

	if (option_parse_size(value, &n) < 0 || n < least || n > most) {
		option_spell_size(least, from);
		option_spell_size(most, to);
		return err_refuse(why, "needs a size from %s to %s", from, to);
	}
	*at = n;
	return 0;
}

int wish_set(struct wish *w, const char *word, const char *value, struct err_reason *why)
{
	if (strcmp(word, "pipeline") == 0)
		return set_pipeline(w, value, why);
	if (strcmp(word, "tune") == 0)
		return set_tune(w, value, why);
	if (strcmp(word, "chunksize") == 0)
		return set_size(&w->chunksize, value, SETTINGS_CHUNKSIZE_MIN,
				SETTINGS_CHUNKSIZE_MAX, why);
	if (strcmp(word, "blocksize") == 0)
		return set_size(&w->blocksize, value, SETTINGS_BLOCKSIZE_MIN,
				SETTINGS_BLOCKSIZE_MAX, why);
	return err_refuse(why, "unknown word; known: pipeline, chunksize, blocksize, tune");
}

/* Gets the attribute as a string; false: there is none, or it is too long. */
static bool get_value(int fd, const char *word, char value[static VALUE_MAX + 1])
{
	char name[40];

	snprintf(name, sizeof name, "%s%s", prefix, word);
	ssize_t n = fd_getxattr(fd, name, span_of(value, VALUE_MAX));
	if (n < 0)
		return false;
	value[n] = 0;
	return true;
}

/*
 * Most files have no attributes at all, which takes one call to find out. By path that takes four
 * times as long.
 */
static bool has_none(int fd)
{
	char path[FD_PATH_MAX];

	ssize_t n = flistxattr(fd, NULL, 0);
	if (n < 0 && errno == EBADF) { /* O_PATH */
		fd_proc_path(fd, path);
		n = listxattr(path, NULL, 0);
	}
	return n <= 0;
}

void wish_load(struct wish *w, int fd)
{
	char value[VALUE_MAX + 1];

	if (has_none(fd))
		return;
	/* An attribute `tune` overrides the pipeline of a rule, and vice versa. */
	struct wish before = *w;
	w->has_pipeline = w->has_tune = false;
	w->blocksize = 0;
	for (size_t i = 0; i < NWORDS; i++)
		if (get_value(fd, words[i], value))
			w->own |= wish_set(w, words[i], value, NULL) >= 0;
	w->own_pipeline = w->has_pipeline || w->has_tune;
	w->own_blocksize = w->blocksize;
	if (!w->own_blocksize)
		w->blocksize = before.blocksize;
	if (w->own_pipeline)
		return;
	w->has_pipeline = before.has_pipeline;
	w->pipeline = before.pipeline;
	w->has_tune = before.has_tune;
	w->tune = before.tune;
}

/* Sets the attribute of a new file. If that fails, the file has no such wish. */
static void give(const char *to, const char *word, const char *value)
{
	struct stat st;
	char name[40];

	snprintf(name, sizeof name, "%s%s", prefix, word);
	if (setxattr(to, name, value, strlen(value), 0) == 0 || errno != EACCES ||
	    stat(to, &st) < 0)
		return;
	/* Its mode may deny write even to its creator, and setxattr obeys the mode. */
	if (chmod(to, (st.st_mode & 07777) | S_IWUSR) == 0) {
		(void)!setxattr(to, name, value, strlen(value), 0);
		(void)!chmod(to, st.st_mode & 07777);
	}
}

void wish_inherit(int from, int to)
{
	char value[VALUE_MAX + 1], path[FD_PATH_MAX];

	fd_proc_path(to, path);
	for (size_t i = 0; i < NWORDS; i++)
		if (get_value(from, words[i], value))
			give(path, words[i], value);
}

/* Makes block and chunk size fit each other and the items. */
static void settle_sizes(struct settings *s)
{
	uint64_t most = min_u64(s->chunksize, s->blocksize_most), item = s->pipeline.typesize;
	uint64_t block = min_u64(s->pipeline.blocksize, most);

	s->pipeline.blocksize = (uint32_t)max_u64(block - block % item, item);
	s->free_blocksize &= s->chunksize >= SETTINGS_CHUNKSIZE_FREE;
}

struct settings wish_apply(const struct settings *all, const struct wish *w)
{
	struct settings s = *all;

	if (w->chunksize)
		s.chunksize = w->chunksize;
	/* dirty_max may be smaller than when the option was checked, in a container */
	s.chunksize = min_u64(s.chunksize, all->chunksize_most);
	if (w->has_pipeline) {
		s.pipeline = w->pipeline;
		s.pipeline.blocksize = all->pipeline.blocksize;
		s.tune = SETTINGS_TUNE_OFF;
		s.level_auto = false;
	} else if (w->has_tune) {
		s.tune = w->tune;
		if (s.tune != SETTINGS_TUNE_OFF) {
			pipeline_drop_filters(&s.pipeline);
			s.pipeline.typesize = 1;
			if (s.pipeline.level == 0) /* only stores, and leaves nothing to choose */
				s.pipeline.level = 1;
		}
	}
	if (w->blocksize) {
		s.pipeline.blocksize = (uint32_t)w->blocksize;
		s.free_blocksize = false;
	}
	s.insist = w->own_pipeline;
	s.insist_pipeline = w->own_pipeline && w->has_pipeline;
	s.insist_blocksize = w->own_blocksize;
	settle_sizes(&s);
	return s;
}
