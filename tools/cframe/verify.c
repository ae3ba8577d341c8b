#include "cframe.h"

#include "base/log.h"

#include <stdio.h>

static void print(void *arg, const char *line)
{
	printf("%s: %s\n", (const char *)arg, line);
}

static int verify(char *name)
{
	struct frame *f;
	struct io *io;
	struct frame_report report = {.problem = print, .arg = name};
	int rc = tool_open(name, &f, &io);
	bool none = rc == 0 && !f;
	if (f)
		rc = frame_verify(f, &report);
	frame_close(f);
	io_close(io);
	if (none) {
		print(name, "is no Blosc2 frame");
		return 1;
	}
	if (rc < 0) {
		char text[256];
		printf("%s: %s\n", name, err_text(rc, text, sizeof text));
	}
	return rc < 0 || report.problems;
}

int verify_main(int argc, char **argv)
{
	int bad = 0;
	if (argc < 2)
		return tool_usage(subcommand_find(argv[0]));
	log_init(LOG_LEVEL_ERR, LOG_SINK_STDERR); /* a torn frame is a line of the report */
	for (int i = 1; i < argc; i++)
		bad |= verify(argv[i]);
	return bad;
}
