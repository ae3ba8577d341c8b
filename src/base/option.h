/*
 * Options with a name and a value, in a table that also has their help text: how to parse a value,
 * where to store it, and how to report a wrong one.
 */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include "base/bytes.h"
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
	size_t at; /* offset of its field: const char *, uint64_t, or double for seconds */
	uint64_t min, max;
	const char *arg, *help;
};

/* One line for the user: "option 'level': 10 is not from 0 to 9". "": no error was reported. */
struct option_why {
	char text[PATH_MAX + 256];
};

/* Writes "what 'word': reason" to *why. Returns -EINVAL. */
int option_refuse(struct option_why *why, const char *what, const char *word, const char *reason);

/* The row with that name; NULL: there is none. */
const struct option_row *option_find(const struct option_row *rows, size_t n, struct view name);

/*
 * Parses a value, and stores it in the field at `row->at` of *to. Text is borrowed. -EINVAL, with
 * *why.
 */
NODISCARD int option_read(const struct option_row *row, const char *value, void *to,
			  struct option_why *why);

/* Prints their help, wrapped to the width of a terminal; `dashes` precede the names. */
void option_help(const struct option_row *rows, size_t n, const char *dashes);

/* Parse "64K" or "1MiB" in bytes, and "0.5" in seconds. -EINVAL, without a message. */
NODISCARD int option_parse_size(const char *text, uint64_t *out);
NODISCARD int option_parse_seconds(const char *text, double max, double *out);

/* 65536 as "64K". */
#define OPTION_SIZE_MAX 24
void option_spell_size(uint64_t n, char out[static OPTION_SIZE_MAX]);

#endif
