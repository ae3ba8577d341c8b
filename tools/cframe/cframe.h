/* The subcommands of cframe, a file each. */
#ifndef CFRAME_H
#define CFRAME_H

/* argv[0] is the name of the subcommand; the exit code comes back. */
int cat_main(int argc, char **argv);
int codecs_main(int argc, char **argv);
int compress_main(int argc, char **argv);
int extract_main(int argc, char **argv);
int info_main(int argc, char **argv);
int ls_main(int argc, char **argv);
int stat_main(int argc, char **argv);
int tune_main(int argc, char **argv);
int verify_main(int argc, char **argv);

/* The help of those options of compress that are a mount's. */
void compress_help(void);

/* "cframe: usage: ..." on standard error, and the exit code. */
int tool_usage(const char *name);

#endif
