/* cframe: makes frames, looks at them and takes them apart, without a mount. */
#include "cframe.h"

#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

static const struct subcommand subcommands[] = {
	{"info", "FILE [--json]", "what a frame is: sizes, pipeline, chunks, metalayers",
	 info_main},
	{"cat", "FILE", "the decoded bytes of a frame or of a chunk, to standard output", cat_main},
	{"compress", "[OPTIONS] SOURCE... TARGET",
	 "makes a directory of frames of files, or of all in a directory, as a mount would",
	 compress_main},
	{"extract", "[-C DIR] [--force] PATH...",
	 "files as a mount would show them: all of a directory, or one, into DIR", extract_main},
	{"stat", "MOUNTPOINT [--json] [--watch [SECONDS]]",
	 "what a mount has done: requests, hits, bytes, times, memory", stat_main},
	{"tune", "FILE... [--all] [--json]",
	 "the pipelines that could hold a plain file, and the one chosen", tune_main},
	{"verify", "FILE|DIRECTORY...",
	 "checks all of a frame, or of all in a directory; a line for each problem, exit code 1",
	 verify_main},
	{"codecs", "", "codecs and filters that are built in", codecs_main},
};

#define NSUBCOMMANDS (sizeof subcommands / sizeof *subcommands)

static void help(FILE *out)
{
	fprintf(out, "usage: cframe COMMAND ...\n\n");
	for (size_t i = 0; i < NSUBCOMMANDS; i++) {
		const struct subcommand *c = &subcommands[i];
		fprintf(out, "  %-8s %-41s %s\n", c->name, c->usage, c->what);
	}
	fprintf(out, "\nFILE: a contiguous frame (.b2frame, .b2nd, ...), the directory of a sparse "
		     "one,\n"
		     "or, for cat, a single chunk.\n");
}

const struct subcommand *subcommand_find(const char *name)
{
	for (size_t i = 0; i < NSUBCOMMANDS; i++)
		if (strcmp(subcommands[i].name, name) == 0)
			return &subcommands[i];
	return NULL;
}

int tool_usage(const struct subcommand *cmd)
{
	fprintf(stderr, "cframe: usage: cframe %s %s\n", cmd->name, cmd->usage);
	return 1;
}

int tool_no_frame(const char *file)
{
	bool in_mount = getxattr(file, "user.cframefs.stored", NULL, 0) >= 0;
	fprintf(stderr, "cframe: %s: is not a Blosc2 frame%s\n", file,
		in_mount ? ", but the contents of one: name the frame in the backing directory"
			 : "");
	return 1;
}

int tool_fail(const char *file, int rc)
{
	char text[256];
	fprintf(stderr, "cframe: %s: %s\n", file, err_text(rc, text, sizeof text));
	return 1;
}

static bool is_in(const char *word, const char *a, const char *b, const char *c)
{
	return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

int main(int argc, char **argv)
{
	const char *word = argc >= 2 ? argv[1] : "";
	if (is_in(word, "help", "--help", "-h")) {
		help(stdout);
		return 0;
	}
	if (is_in(word, "version", "--version", "-V")) {
		printf("cframe %s\n", VERSION);
		return 0;
	}
	const struct subcommand *cmd = subcommand_find(word);
	if (cmd && argc == 3 && is_in(argv[2], "--help", "-h", "-h")) {
		printf("usage: cframe %s%s%s\n%s\n", cmd->name, *cmd->usage ? " " : "",
		       cmd->usage, cmd->what);
		if (cmd->run == compress_main)
			compress_help();
		return 0;
	}
	if (cmd)
		return cmd->run(argc - 1, argv + 1);
	if (*word)
		fprintf(stderr, "cframe: no command is called '%s'; see cframe --help\n", word);
	else
		help(stderr);
	return 1;
}
