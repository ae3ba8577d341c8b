/* cframe: makes frames, inspects them and extracts their contents, without a mount. */
#include "cframe.h"
#include "say.h"

#include "base/fd.h"
#include "base/nearest.h"
#include "frame/durable.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

struct subcommand {
	const char *name;
	const char *usage; /* arguments, for the help */
	const char *what;
	int (*run)(int argc, char **argv); /* argv[0]: the subcommand; returns the exit code */
	const char *options; /* lines, for the help; NULL: it has none */
};

static const struct subcommand subcommands[] = {
	{"info", "FILE [--json]", "show what a frame or chunk is: sizes, pipeline, metalayers",
	 info_main, "  --json                 print JSON\n"},
	{"cat", "FILE", "write the decoded bytes of a frame or chunk to standard output", cat_main,
	 NULL},
	{"compress", "[OPTIONS] SOURCE... TARGET",
	 "make a directory of frames from files or directories", compress_main,
	 "  -u, --update           replace what is older than its source\n"
	 "  -f, --force            replace whatever is there\n"
	 "  -j N                   threads that compress (one per core)\n"
	 "  -v, --verbose          print a line for each frame, and the totals\n"},
	{"extract", "[OPTIONS] PATH...",
	 "make plain files from frames or directories, as a mount shows them", extract_main,
	 "  -C DIR                 directory to put them in; made if missing (.)\n"
	 "  -u, --update           replace what is older than its source\n"
	 "  -f, --force            replace whatever is there\n"
	 "  -s, --salvage          extract damaged files, too, with zeros for what is lost\n"
	 "  -v, --verbose          print a line for each file\n"},
	{"ls", "[OPTIONS] PATH...", "show the size, stored size and ratio of files", ls_main,
	 "  -s, --summarize        print only the totals\n"},
	{"stat", "MOUNTPOINT [--json] [--watch [SECONDS]]",
	 "show what a mount has done: requests, hits, bytes, times, memory", stat_main,
	 "  --json                 print JSON\n"
	 "  --watch [SECONDS]      repeat every SECONDS, with rates (1)\n"},
	{"tune", "FILE... [--all] [--json]",
	 "show the pipeline chosen for a plain file, and the alternatives", tune_main,
	 "  --all                  try all chunks of a file, not just a few\n"
	 "  --json                 print JSON\n"},
	{"verify", "FILE|DIRECTORY...", "check frames, or all in a directory; one line per problem",
	 verify_main, NULL},
	{"codecs", "", "list the codecs and filters that are built in", codecs_main, NULL},
};

#define NSUBCOMMANDS (sizeof subcommands / sizeof *subcommands)

static void help(FILE *out)
{
	fprintf(out, "usage: cframe COMMAND ...\n\n");
	for (size_t i = 0; i < NSUBCOMMANDS; i++) {
		const struct subcommand *c = &subcommands[i];
		fprintf(out, "  %-8s  %s\n", c->name, c->what);
	}
	fprintf(out, "\ncframe COMMAND --help shows arguments and options; man cframe has more.\n"
		     "cframe --version shows the version.\n");
}

static const struct subcommand *find(const char *name)
{
	for (size_t i = 0; i < NSUBCOMMANDS; i++)
		if (strcmp(subcommands[i].name, name) == 0)
			return &subcommands[i];
	return NULL;
}

int tool_usage(const char *name)
{
	const struct subcommand *cmd = find(name);
	tool_say("usage: cframe %s%s%s", cmd->name, *cmd->usage ? " " : "", cmd->usage);
	return 1;
}

static void help_of(const struct subcommand *c)
{
	printf("usage: cframe %s%s%s\n%s\n", c->name, *c->usage ? " " : "", c->usage, c->what);
	if (c->options)
		printf("\n%s", c->options);
	if (c->run == compress_main)
		compress_help();
}

static bool is_in(const char *word, const char *a, const char *b)
{
	return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

static bool asks_for_help(char **word)
{
	for (; *word && strcmp(*word, "--") != 0; word++)
		if (is_in(*word, "--help", "-h"))
			return true;
	return false;
}

/* False: the output could not be written, for example because the disk is full. */
static bool is_said(void)
{
	bool said = fflush(stdout) == 0 && !ferror(stdout);
	if (!said)
		tool_fail("standard output", -errno);
	return said;
}

/* What other programs call a command, and what cframefs does. */
static const struct {
	const char *word, *meant;
} elsewhere[] = {
	{"decompress", "extract"}, {"uncompress", "extract"}, {"list", "ls"},
	{"check", "verify"}, {"mount", "cframefs"}, {"recompress", "cframefs --recompress"},
};

static int no_command(const char *word)
{
	struct nearest near = nearest_to(view_of(word, strlen(word)));

	for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
		nearest_offer(&near, elsewhere[i].word, elsewhere[i].meant);
	for (size_t i = 0; i < NSUBCOMMANDS; i++)
		nearest_offer(&near, subcommands[i].name, subcommands[i].name);
	if (near.meant)
		tool_say("no command is called '%s'; did you mean '%s'?", word, near.meant);
	else
		tool_say("no command is called '%s'; see cframe --help", word);
	return 1;
}

/* "help", "help COMMAND". `about`: the command, or NULL. */
static int help_about(const char *about)
{
	const struct subcommand *cmd = about ? find(about) : NULL;

	if (about && !cmd)
		return no_command(about);
	if (cmd)
		help_of(cmd);
	else
		help(stdout);
	return 0;
}

static int run_command(const struct subcommand *cmd, int argc, char **argv)
{
	if (asks_for_help(argv + 2)) {
		help_of(cmd);
		return 0;
	}
	/*
	 * Loads what is known to be durable of the frames that are named. Words that are no paths
	 * do no harm.
	 */
	for (int i = 2; i < argc; i++)
		durable_load_for(argv[i]);
	return cmd->run(argc - 1, argv + 1);
}

static int run(int argc, char **argv)
{
	const char *word = argc >= 2 ? argv[1] : "";
	const struct subcommand *cmd = find(word);

	if (strcmp(word, "help") == 0 || is_in(word, "--help", "-h"))
		return help_about(argc >= 3 ? argv[2] : NULL);
	if (strcmp(word, "version") == 0 || is_in(word, "--version", "-V")) {
		printf("cframe %s\n", VERSION);
		return 0;
	}
	if (cmd)
		return run_command(cmd, argc, argv);
	if (*word)
		return no_command(word);
	help(stderr);
	return 1;
}

/* Each level of a tree takes a descriptor or two, and so does each file in progress. */
static void raise_nofile(void)
{
	struct rlimit lim;
	if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
		lim.rlim_cur = lim.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &lim);
	}
}

int main(int argc, char **argv)
{
	fd_open_stdio();
	/* A write beyond the file size limit (ulimit -f) then fails, and is reported. */
	signal(SIGXFSZ, SIG_IGN);
	raise_nofile();
	int code = run(argc, argv);
	return is_said() ? code : 1;
}
