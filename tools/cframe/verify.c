#include "args.h"
#include "cframe.h"
#include "mounts.h"
#include "open.h"
#include "progress.h"
#include "say.h"
#include "steady.h"

#include "base/log.h"
#include "frame/names.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void print(const char *name, const char *line)
{
	progress_hold();
	tool_print_path(name);
	printf(": %s\n", line);
	progress_go_on();
}

static int print_error(const char *name, int error)
{
	char text[TOOL_TEXT_MAX];
	print(name, tool_err_text(-error, text));
	return 1;
}

struct findings {
	const char *path;
	const char *name; /* what they are reported of */
	struct buf lines; /* each with a 0 behind it   */
	bool vanished;
};

static void note(void *arg, const char *line)
{
	struct findings *f = arg;
	if (buf_append(&f->lines, view_of(line, strlen(line) + 1)) < 0)
		print(f->name, line);
}

/*
 * True: a power cut may leave no more of a file that was created and never synced; a mount shows an
 * empty file.
 */
static bool is_empty_file(const char *path)
{
	size_t stem;
	struct stat st;
	const char *slash = strrchr(path, '/');
	return suffix_of(slash ? slash + 1 : path, &stem) == SUFFIX_FRAME &&
	       stat(path, &st) == 0 && S_ISREG(st.st_mode) && !st.st_size;
}

static bool is_well(void *arg)
{
	struct findings *to = arg;
	struct frame *f;
	struct io *io;
	struct frame_report report = {.problem = note, .arg = to};

	to->lines.n = 0;
	int rc = tool_open(to->path, &f, &io);
	bool none = rc == 0 && !f && !is_empty_file(to->path);
	to->vanished = rc == -ENOENT;
	if (f)
		rc = frame_verify(f, &report);
	if (f && rc >= 0) {
		progress_bytes(frame_size(f), 0);
		progress_file();
	}
	frame_close(f);
	io_close(io);
	if (none)
		note(to, tool_no_frame_text(to->path));
	if (rc < 0) {
		char text[TOOL_TEXT_MAX];
		note(to, tool_err_text(rc, text));
	}
	return !to->lines.n;
}

/* Opens a file by `path`, and reports its problems by `name`. */
static int verify(const char *path, const char *name, bool in_tree)
{
	struct findings f = {.path = path, .name = name};
	bool bad;

	if (!look_until_steady(path, is_well, &f)) {
		f.lines.n = 0;
		note(&f, "is being written, and could not be checked meanwhile");
	}
	bad = f.lines.n && !(in_tree && f.vanished); /* somebody has removed it */
	for (size_t at = 0; bad && at < f.lines.n; at += strlen((char *)f.lines.p + at) + 1)
		print(name, (char *)f.lines.p + at);
	buf_free(&f.lines);
	return bad;
}

static bool is_named_as_frame(const char *name)
{
	size_t stem;
	enum suffix suffix = suffix_of(name, &stem);
	return suffix == SUFFIX_FRAME || suffix == SUFFIX_ARRAY;
}

static int verify_entry(FTS *walk, FTSENT *e, unsigned *frames)
{
	switch (e->fts_info) {
	case FTS_F:
		if (!is_named_as_frame(e->fts_name))
			return 0;
		++*frames;
		return verify(e->fts_accpath, e->fts_path, true);
	case FTS_D:
		if (!tool_is_sparse(e->fts_accpath))
			return 0; /* of one that is damaged the walk finds the index */
		fts_set(walk, e, FTS_SKIP);
		++*frames;
		return verify(e->fts_accpath, e->fts_path, true);
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		if (e->fts_errno == ENOENT && e->fts_level > FTS_ROOTLEVEL)
			return 0; /* somebody has removed it */
		return print_error(e->fts_path, e->fts_errno);
	default:
		return 0;
	}
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

/*
 * Verifies everything that a mount of this directory would show as frames. Other file systems below
 * it are left out: one of them may be that mount. The walk changes its current directory, since a
 * path from here may be longer than the kernel accepts.
 */
static int verify_tree(char *directory)
{
	char *roots[] = {directory, NULL};
	int bad = 0;
	unsigned frames = 0;
	int how = FTS_PHYSICAL | FTS_COMFOLLOW | FTS_XDEV;
	FTS *walk = fts_open(roots, how, by_name);
	if (!walk)
		return print_error(directory, errno);
	errno = 0;
	for (FTSENT *e; (e = fts_read(walk)); errno = 0)
		bad |= verify_entry(walk, e, &frames);
	if (errno)
		bad = print_error(directory, errno);
	fts_close(walk);
	if (!bad && !frames)
		tool_say("%s: no frames are there", directory);
	return bad;
}

/*
 * True: the directory shows plain files whose frames are elsewhere, so nothing of them would be
 * checked.
 */
static bool is_in_mount(const char *directory)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool is = fd >= 0 && any_above(fd, is_mount_point, NULL);
	if (fd >= 0)
		close(fd);
	if (is)
		print(directory, "is in a mount: name the backing directory");
	return is;
}

int verify_main(int argc, char **argv)
{
	struct stat st;
	int bad = 0;
	if (args_next(argc, argv, "", NULL) == ARGS_WRONG)
		return 1;
	if (argc == optind)
		return tool_usage(argv[0]);
	log_init(LOG_LEVEL_ERR, LOG_SINK_STDERR); /* a torn frame is a line of the report */
	progress_start();
	for (int i = optind; i < argc; i++) {
		bool tree = stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode);
		if (tree)
			bad |= is_in_mount(argv[i]) ? 1 : verify_tree(argv[i]);
		else
			bad |= verify(argv[i], argv[i], false);
	}
	progress_end();
	return bad;
}
