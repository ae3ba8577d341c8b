/* cframe: looks at frames and takes them apart, without a mount. */
#include "cframe.h"

#include <stdio.h>
#include <string.h>

static const struct subcommand subcommands[] = {
	{"info", "FILE [--json]", "what a frame is: sizes, pipeline, chunks, metalayers",
	 info_main},
	{"cat", "FILE", "the decoded bytes of a frame or of a chunk, to standard output", cat_main},
	{"stat", "MOUNTPOINT [--json] [--watch [SECONDS]]",
	 "what a mount has done: requests, hits, bytes, times, memory", stat_main},
	{"tune", "FILE... [--all] [--json]",
	 "the pipelines that could hold a plain file, and the one chosen", tune_main},
	{"verify", "FILE...",
	 "checks all of a frame; a line for each problem, exit code 1 if there is any",
	 verify_main},
	{"codecs", "", "codecs and filters that are built in", codecs_main},
};

#define NSUBCOMMANDS (sizeof subcommands / sizeof *subcommands)

static void help(FILE *out)
{
	fprintf(out, "usage: cframe COMMAND ...\n\n");
	for (size_t i = 0; i < NSUBCOMMANDS; i++) {
		const struct subcommand *c = &subcommands[i];
		fprintf(out, "  %-7s %-41s %s\n", c->name, c->usage, c->what);
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

int tool_fail(const char *file, int rc)
{
	char text[256];
	fprintf(stderr, "cframe: %s: %s\n", file, err_text(rc, text, sizeof text));
	return 1;
}

int main(int argc, char **argv)
{
	if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)) {
		help(stdout);
		return 0;
	}
	const struct subcommand *cmd = argc >= 2 ? subcommand_find(argv[1]) : NULL;
	if (!cmd) {
		help(stderr);
		return 1;
	}
	return cmd->run(argc - 1, argv + 1);
}
