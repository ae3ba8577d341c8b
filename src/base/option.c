#include "base/option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int option_refuse(struct option_why *why, const char *what, const char *word, const char *reason)
{
	/* cut the word at the length of the longest path, to leave room for the reason */
	snprintf(why->text, sizeof why->text, "%s '%.*s': %s", what, PATH_MAX, word, reason);
	return -EINVAL;
}

const struct option_row *option_find(const struct option_row *rows, size_t n, struct view name)
{
	for (size_t i = 0; i < n; i++)
		if (view_is(name, rows[i].name))
			return &rows[i];
	return NULL;
}

int option_parse_size(const char *text, uint64_t *out)
{
	static const char units[] = "KMGT";
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	uint64_t n = strtoull(text, &end, 10);
	if (errno)
		return -EINVAL;
	if (*end) {
		char letter = (char)(*end & ~0x20); /* upper case */
		const char *unit = strchr(units, letter);
		if (!unit || !letter || mul_overflows(n, 1ull << (10 * (unit - units + 1)), &n))
			return -EINVAL;
		end++;
		if (strcmp(end, "iB") == 0 || strcmp(end, "B") == 0)
			end = "";
	}
	if (*end)
		return -EINVAL;
	*out = n;
	return 0;
}

int option_parse_seconds(const char *text, double max, double *out)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds >= 0) || seconds > max)
		return -EINVAL;
	*out = seconds;
	return 0;
}

void option_spell_size(uint64_t n, char out[static OPTION_SIZE_MAX])
{
	static const char *const units[] = {"", "K", "M", "G", "T"};
	unsigned unit = 0;

	for (; n && n % 1024 == 0 && unit < 4; n /= 1024)
		unit++;
	snprintf(out, OPTION_SIZE_MAX, "%llu%s", (unsigned long long)n, units[unit]);
}

static int refuse_range(const struct option_row *row, const char *value, struct option_why *why)
{
	char least[OPTION_SIZE_MAX], most[OPTION_SIZE_MAX], text[160];

	option_spell_size(row->min, least);
	option_spell_size(row->max, most);
	if (row->kind == OPTION_SECONDS)
		snprintf(text, sizeof text, "%.60s is no number of seconds from %llu to %llu",
			 value, (unsigned long long)row->min, (unsigned long long)row->max);
	else if (row->max == UINT64_MAX)
		snprintf(text, sizeof text, "%.60s is less than %s", value, least);
	else
		snprintf(text, sizeof text, "%.60s is not from %s to %s", value, least, most);
	return option_refuse(why, "option", row->name, text);
}

int option_read(const struct option_row *row, const char *value, void *to, struct option_why *why)
{
	static const char *const needs[] = {
		[OPTION_SIZE] = "needs a size such as 64K or 1M",
		[OPTION_NUMBER] = "needs a whole number",
		[OPTION_LEVEL] = "needs a whole number, or auto",
	};
	void *at = (char *)to + row->at;
	uint64_t number;
	int rc;

	if (row->kind == OPTION_TEXT) {
		*(const char **)at = value;
		return 0;
	}
	if (row->kind == OPTION_LEVEL && strcmp(value, "auto") == 0) {
		*(uint64_t *)at = OPTION_AUTO;
		return 0;
	}
	if (row->kind == OPTION_SECONDS) {
		rc = option_parse_seconds(value, (double)row->max, at);
		return rc < 0 ? refuse_range(row, value, why) : 0;
	}
	if (option_parse_size(value, &number) < 0)
		return option_refuse(why, "option", row->name, needs[row->kind]);
	if (number < row->min || number > row->max)
		return refuse_range(row, value, why);
	*(uint64_t *)at = number;
	return 0;
}

#define HELP_INDENT 25
#define HELP_COLUMNS 80

void option_help(const struct option_row *rows, size_t n, const char *dashes)
{
	for (const struct option_row *row = rows; row < rows + n; row++) {
		int at = printf("  %s%s=%s", dashes, row->name, row->arg);
		int gap = HELP_INDENT - at;
		for (const char *word = row->help; *word;) {
			int len = (int)strcspn(word, " ");
			if (at > HELP_INDENT && at + 1 + len > HELP_COLUMNS) {
				at = printf("\n%*s", HELP_INDENT, "") - 1;
				gap = 0;
			}
			at += printf("%*s%.*s", gap, "", len, word);
			gap = 1;
			word += len + (word[len] == ' ');
		}
		printf("\n");
	}
}
