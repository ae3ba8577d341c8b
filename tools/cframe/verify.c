#include "cframe.h"
#include "progress.h"

#include "base/log.h"
#include "frame/names.h"

#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void print(void *arg, const char *line)
{
	progress_hold();
	printf("%s: %s\n", (const char *)arg, line);
	progress_go_on();
}

/* Opened by its path; its name is what problems are reported of. */
static int verify(const char *path, char *name)
{
	struct frame *f;
	struct io *io;
	struct frame_report report = {.problem = print, .arg = name};
	int rc = tool_open(path, &f, &io);
	bool none = rc == 0 && !f;
	if (f)
		rc = frame_verify(f, &report);
	if (f && rc >= 0) {
		progress_bytes(frame_size(f), 0);
		progress_file();
	}
	frame_close(f);
	io_close(io);
	if (none) {
		print(name, "is not a Blosc2 frame");
		return 1;
	}
	if (rc < 0) {
		char text[256];
		print(name, err_text(rc, text, sizeof text));
	}
	return rc < 0 || report.problems;
}

static bool is_named_as_frame(const char *name)
{
	size_t stem;
	enum suffix suffix = suffix_of(name, &stem);
	return suffix == SUFFIX_FRAME || suffix == SUFFIX_ARRAY;
}

static int verify_entry(FTS *walk, FTSENT *e)
{
	switch (e->fts_info) {
	case FTS_F:
		return is_named_as_frame(e->fts_name) ? verify(e->fts_accpath, e->fts_path) : 0;
	case FTS_D:
		if (!tool_is_sparse(e->fts_accpath))
			return 0; /* of one that is damaged the walk finds the index */
		fts_set(walk, e, FTS_SKIP);
		return verify(e->fts_accpath, e->fts_path);
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		print(e->fts_path, strerror(e->fts_errno));
		return 1;
	default:
		return 0;
	}
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

/*
 * All that a mount of this directory would show as frames. Other file systems below it are left
 * out: one of them may be that mount. The walk changes directory, since a path from here may be
 * longer than the kernel takes.
 */
static int verify_tree(char *directory)
{
	char *roots[] = {directory, NULL};
	int bad = 0;
	int how = FTS_PHYSICAL | FTS_COMFOLLOW | FTS_XDEV;
	FTS *walk = fts_open(roots, how, by_name);
	if (!walk) {
		print(directory, strerror(errno));
		return 1;
	}
	errno = 0;
	for (FTSENT *e; (e = fts_read(walk)); errno = 0)
		bad |= verify_entry(walk, e);
	if (errno) {
		print(directory, strerror(errno));
		bad = 1;
	}
	fts_close(walk);
	return bad;
}

int verify_main(int argc, char **argv)
{
	struct stat st;
	int bad = 0;
	if (argc < 2)
		return tool_usage(subcommand_find(argv[0]));
	log_init(LOG_LEVEL_ERR, LOG_SINK_STDERR); /* a torn frame is a line of the report */
	progress_start();
	for (int i = 1; i < argc; i++) {
		bool tree = stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode);
		bad |= tree ? verify_tree(argv[i]) : verify(argv[i], argv[i]);
	}
	progress_end();
	return bad;
}
