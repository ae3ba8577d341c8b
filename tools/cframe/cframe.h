/* The pieces that subcommands of cframe share. */
#ifndef CFRAME_H
#define CFRAME_H

#include "frame/frame.h"

#include <string.h>

struct subcommand {
	const char *name;
	const char *usage; /* arguments, for the help */
	const char *what;
	int (*run)(int argc, char **argv); /* argv[0]: the subcommand; the exit code comes back */
	const char *options; /* lines, for the help; NULL: it has none */
};

int cat_main(int argc, char **argv);
int codecs_main(int argc, char **argv);
int compress_main(int argc, char **argv);
void compress_help(void); /* those of its options that are a mount's */
int extract_main(int argc, char **argv);
int ls_main(int argc, char **argv);
int verify_main(int argc, char **argv);
int info_main(int argc, char **argv);
int stat_main(int argc, char **argv);
int tune_main(int argc, char **argv);

/* Control characters become '?': a name may have any, for a terminal to obey. */
static inline char tool_printable(char c)
{
	return (unsigned char)c < ' ' || c == 127 ? '?' : c;
}

/* "cframe: ", the text, and the end of the line on stderr, by any thread. One line in any case. */
void tool_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "cframe: FILE: why" on stderr. Returns the exit code of a failure. */
int tool_fail(const char *file, int rc);

/* The same for a file of another kind, of which nothing more is to be said. */
int tool_no_frame(const char *file);

/* The same for one that never stood still (again.h). */
int tool_busy(const char *file);

/* A word that begins with '-' and is no option of the command, or lacks its value. Likewise. */
int tool_unknown(const char *cmd, const char *word);

/* True: the word is the option, by one of its two names. */
static inline bool tool_is(const char *word, const char *letter, const char *name)
{
	return strcmp(word, letter) == 0 || strcmp(word, name) == 0;
}

/* "1.2 GB", "45.6 kB", "512 B". */
void tool_bytes_text(double v, char out[static 16]);

/* "cframe: usage: ..." on stderr, and the exit code. */
int tool_usage(const struct subcommand *cmd);
const struct subcommand *subcommand_find(const char *name);

/*
 * A file by its content: a contiguous frame, a directory that is a sparse one (*frame is set), or
 * something else, perhaps a chunk that stands alone (*frame is NULL and *io set, the caller's).
 * -EISDIR: a directory that is none.
 */
NODISCARD int tool_open(const char *file, struct frame **frame, struct io **io);

/* True: a directory that is a sparse frame, by its content. */
bool tool_is_sparse(const char *directory);

#endif
