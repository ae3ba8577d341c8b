/*
 * The words behind a subcommand, as getopt_long(3) takes them: options may stand between the other
 * words, up to "--".
 */
#ifndef ARGS_H
#define ARGS_H

#include <getopt.h>

enum { ARGS_END = -1, ARGS_WRONG = '?' };

/*
 * The next option: its letter, or the `val` of its name; `optarg` is its value. ARGS_WRONG: it is
 * unknown, or its value is missing, which is said. ARGS_END: the other words begin at argv[optind].
 * `names` ends with zeros; NULL: none.
 */
int args_next(int argc, char **argv, const char *letters, const struct option *names);

#endif
