/*
 * The arguments of a subcommand, parsed as getopt_long(3) does: options may stand between the
 * others, up to "--".
 */
#ifndef ARGS_H
#define ARGS_H

#include <getopt.h>

enum { ARGS_END = -1, ARGS_WRONG = '?' };

/*
 * Returns the next option: its letter, or the `val` of its long name; its value is in `optarg`.
 * ARGS_WRONG: it is unknown or lacks its value, which has been reported. ARGS_END: the other
 * arguments begin at argv[optind]. `names` ends with a zeroed row; NULL: no long names.
 */
int args_next(int argc, char **argv, const char *letters, const struct option *names);

#endif
