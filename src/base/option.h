/*
 * Options by name and value, in a table that is their help as well: how to read a value, where it
 * goes, and what to say of one that is wrong.
 */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include "base/err.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

/* OPTION_LEVEL: a number, or "auto", which is OPTION_AUTO. */
enum option_kind { OPTION_TEXT, OPTION_SIZE, OPTION_NUMBER, OPTION_LEVEL, OPTION_SECONDS };

#define OPTION_AUTO UINT64_MAX

struct option_row {
	const char *name;
	enum option_kind kind;
	size_t at; /* of its field: const char *, uint64_t, or double for seconds */
	uint64_t min, max;
	const char *arg, *help;
};

/* One line for the user: "option 'level': 10 is not from 0 to 9". "": nothing was said. */
struct option_why {
	char text[PATH_MAX + 256];
};

/* Says "what 'word': reason". Returns -EINVAL. */
int option_refuse(struct option_why *why, const char *what, const char *word, const char *reason);

/* The row of that name, which need not end with a 0; NULL: there is none. */
const struct option_row *option_find(const struct option_row *rows, size_t n, const char *name,
				     size_t len);

/* Reads a value into the field at `row->at` of *to. A text is borrowed. */
NODISCARD int option_read(const struct option_row *row, const char *value, void *to,
			  struct option_why *why);

/* Their help, in lines of a terminal's width; `dashes` stand before the names. */
void option_help(const struct option_row *rows, size_t n, const char *dashes);

/* "64K", "1MiB"; "0.5". -EINVAL, silently. */
NODISCARD int option_parse_size(const char *text, uint64_t *out);
NODISCARD int option_parse_seconds(const char *text, double max, double *out);

/* 65536 as "64K". */
#define OPTION_SIZE_MAX 24
void option_spell_size(uint64_t n, char out[static OPTION_SIZE_MAX]);

#endif
