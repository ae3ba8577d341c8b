/* The subcommands of cframe, one file each. */
#ifndef CFRAME_H
#define CFRAME_H

/* argv[0] is the name of the subcommand. Each returns the exit code. */
int cat_main(int argc, char **argv);
int codecs_main(int argc, char **argv);
int compress_main(int argc, char **argv);
int extract_main(int argc, char **argv);
int info_main(int argc, char **argv);
int ls_main(int argc, char **argv);
int stat_main(int argc, char **argv);
int tune_main(int argc, char **argv);
int verify_main(int argc, char **argv);

/* Prints the help for those options of compress that a mount also has. */
void compress_help(void);

/* Prints "cframe: usage: ..." on standard error, and returns the exit code for that. */
int tool_usage(const char *name);

#endif
