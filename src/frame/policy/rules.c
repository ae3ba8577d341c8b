#include "frame/policy/rules.h"

#include "base/buf.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>

struct rule {
	struct rule *next;
	struct wish wish;
	char pattern[];
};

struct rules {
	struct rule *first, **last;
};

struct place {
	const char *file;
	unsigned line;
	struct option_why *why;
};

static int complain(const struct place *at, const char *word, const char *reason)
{
	struct option_why *why = at->why;
	snprintf(why->text, sizeof why->text, "rules %s:%u: '%.60s': %s", at->file, at->line, word,
		 reason);
	return -EINVAL;
}

/* "chunksize=4M", or a pipeline. */
static int read_word(struct wish *w, char *word, const struct place *at)
{
	struct err_reason why;
	char *equals = strchr(word, '=');
	bool had_pipeline = w->has_pipeline;

	if (equals)
		*equals = 0;
	const char *name = equals ? word : "pipeline", *value = equals ? equals + 1 : word;
	bool is_pipeline = strcmp(name, "pipeline") == 0;
	int rc = wish_set(w, name, value, &why);
	if (equals)
		*equals = '=';
	if (rc < 0)
		return complain(at, word, why.text);
	if (had_pipeline && is_pipeline)
		return complain(at, word, "is the second pipeline of this line");
	return w->has_pipeline && w->has_tune && w->tune != SETTINGS_TUNE_OFF
		       ? complain(at, word, "a pipeline leaves nothing to tune")
		       : 0;
}

static int read_line(struct rules *r, char *line, const struct place *at)
{
	static const char blanks[] = " \t\r\n";
	char *rest, *pattern = strtok_r(line, blanks, &rest), *word;
	unsigned nwords = 0;

	if (!pattern || *pattern == '#')
		return 0;
	if (strchr(pattern, '/'))
		return complain(at, pattern, "matches no name, since names contain no /");
	struct rule *rule = mem_zalloc(sizeof *rule + strlen(pattern) + 1);
	if (!rule)
		return -ENOMEM;
	strcpy(rule->pattern, pattern);
	*r->last = rule;
	r->last = &rule->next;
	for (; (word = strtok_r(NULL, blanks, &rest)) && *word != '#'; nwords++)
		TRY(read_word(&rule->wish, word, at));
	return nwords ? 0 : complain(at, pattern, "says nothing: expected PATTERN PIPELINE");
}

/* Some editors begin a file with a byte order mark. */
static int read_text(struct rules *r, char *line, size_t n, const struct place *at)
{
	static const char mark[] = "\xef\xbb\xbf";
	bool marked = at->line == 1 && strncmp(line, mark, sizeof mark - 1) == 0;

	if (strlen(line) != n)
		return complain(at, line, "is followed by a zero byte: this is not a text file");
	return read_line(r, line + (marked ? sizeof mark - 1 : 0), at);
}

static int cannot_read(const char *file, int rc, struct option_why *why)
{
	(void)option_refuse(why, "rules", file, strerror(-rc));
	return rc;
}

#define MOST (1u << 20) /* bytes: a device might never end */

static int read_lines(struct rules *r, FILE *in, const char *file, struct option_why *why)
{
	struct place at = {.file = file, .why = why};
	struct buf all = {0};

	TRY(buf_reserve(&all, MOST + 1));
	char *line = (char *)all.p, *end = line + fread(line, 1, MOST + 1, in);
	int rc = ferror(in) ? cannot_read(file, errno ? -errno : -EIO, why) : 0;
	if (rc >= 0 && end - line > MOST)
		rc = option_refuse(why, "rules", file, "is longer than 1M");
	for (char *next; rc >= 0 && line < end; line = next + 1) {
		next = memchr(line, '\n', (size_t)(end - line));
		next = next ? next : end;
		*next = 0;
		at.line++;
		rc = read_text(r, line, (size_t)(next - line), &at);
	}
	buf_free(&all);
	return rc;
}

int rules_read(struct rules **out, const char *file, struct option_why *why)
{
	FILE *in = fopen(file, "re");

	if (!in)
		return cannot_read(file, -errno, why);
	struct rules *r = mem_zalloc(sizeof *r);
	int rc = r ? 0 : -ENOMEM;
	if (r) {
		r->last = &r->first;
		rc = read_lines(r, in, file, why);
	}
	fclose(in);
	if (rc >= 0)
		*out = r;
	else
		rules_free(r);
	return rc;
}

void rules_free(struct rules *r)
{
	while (r && r->first) {
		struct rule *next = r->first->next;
		mem_free(r->first);
		r->first = next;
	}
	mem_free(r);
}

void rules_match(const struct rules *r, const char *name, struct wish *w)
{
	for (const struct rule *one = r ? r->first : NULL; one; one = one->next)
		if (fnmatch(one->pattern, name, 0) == 0) {
			*w = one->wish;
			return;
		}
}
