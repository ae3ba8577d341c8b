/* Lists sizes and stored sizes of files: of each, and the totals. */
#include "args.h"
#include "cframe.h"
#include "listing.h"
#include "mounts.h"
#include "open.h"
#include "say.h"

#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

struct ls {
	bool totals; /* print only these */
	bool failed, headed;
	bool in_mount; /* the files are plain, and attributes have their stored sizes */
	dev_t dev;
	unsigned depth;
	uint64_t files, size, stored;
	struct last_listing last;
};

static void print_row(struct ls *ls, uint64_t stored, uint64_t size, const char *name)
{
	if (!ls->headed)
		printf("%15s %15s %7s  %s\n", "stored", "size", "ratio", "file");
	ls->headed = true;
	printf("%15" PRIu64 " %15" PRIu64 " %7.2f  ", stored, size,
	       stored ? (double)size / (double)stored : 1);
	tool_print_path(name);
	putchar('\n');
}

static void fail(struct ls *ls, const char *path, int rc)
{
	ls->failed = true;
	tool_fail(path, rc);
}

/* Asks the mount for a file's stored size. If it does not know, *stored is unchanged. */
static int ask_mount(int dir, const char *name, uint64_t *stored)
{
	char text[32] = "";
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (fgetxattr(fd, MOUNT_STORED, text, sizeof text - 1) > 0)
		*stored = strtoull(text, NULL, 10);
	close(fd);
	return 0;
}

static void list_file(struct ls *ls, struct listing *l, const struct entry *e, const char *path)
{
	uint64_t size, stored;
	int rc = e->rc < 0 ? e->rc : listing_size(l, e, &size, &stored);

	if (rc >= 0 && ls->in_mount)
		rc = ask_mount(l->fd, e->name, &stored);
	if (rc < 0) {
		fail(ls, path, rc);
		return;
	}
	if (!ls->totals)
		print_row(ls, stored, size, path);
	ls->files++;
	ls->size += size;
	ls->stored += stored;
}

static void list_directory(struct ls *ls, int fd, const char *path);

static void list_entry(struct ls *ls, struct listing *l, struct entry *e, const char *path)
{
	if (e->rc < 0 || S_ISREG(e->st.st_mode) || e->kind == NODE_SPARSE) {
		list_file(ls, l, e, path);
		return;
	}
	if (!S_ISDIR(e->st.st_mode) || e->st.st_dev != ls->dev)
		return; /* no file; or another file system, perhaps the mount */
	int fd = openat(l->fd, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		fail(ls, path, -errno);
	} else if (ls->depth == LISTING_DEEPEST) {
		ls->failed = true;
		tool_say("%s: is too deep, and left out", path);
	} else {
		ls->depth++;
		list_directory(ls, fd, path);
		ls->depth--;
	}
	if (fd >= 0)
		close(fd);
}

static void list_directory(struct ls *ls, int fd, const char *path)
{
	char shown[NAME_MAX + 1];
	struct listing l;
	int rc = listing_read(&l, fd);

	for (size_t i = 0; rc >= 0 && i < l.n; i++) {
		struct buf below = {0};
		if (!listing_show(&l, &l.entry[i], shown))
			continue;
		bool cut = l.entry[i].rc == -ENAMETOOLONG;
		rc = path_join(&below, path, cut ? l.entry[i].name : shown);
		if (rc >= 0)
			list_entry(ls, &l, &l.entry[i], (const char *)below.p);
		buf_free(&below);
	}
	if (rc < 0)
		fail(ls, path, rc);
	listing_free(&l);
}

/* Lists one entry of a directory, by its name there or in a mount. */
static int list_named(struct ls *ls, int fd, const char *name, const char *path)
{
	char shown[NAME_MAX + 1];
	struct entry *e;

	TRY(last_listing_find_shown(&ls->last, fd, name, &e));
	if (!listing_show(&ls->last.l, e, shown))
		return -ENOENT;
	list_entry(ls, &ls->last.l, e, path);
	return 0;
}

static void list_path(struct ls *ls, const char *path)
{
	char whole[PATH_MAX], last[PATH_MAX];
	struct stat st = {0};

	if (strlen(path) >= sizeof whole || !*path) {
		fail(ls, path, *path ? -ENAMETOOLONG : -ENOENT);
		return;
	}
	if (lstat(path, &st) < 0 || !S_ISLNK(st.st_mode) || !realpath(path, whole))
		strcpy(whole, path);
	strcpy(last, whole);
	bool there = stat(path, &st) == 0;
	if (!there && errno == ENOTDIR) { /* "file/" */
		fail(ls, path, -errno);
		return;
	}
	bool all = there && S_ISDIR(st.st_mode) && !tool_is_sparse(path);
	int fd = open(all ? path : dirname(whole), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;
	ls->dev = st.st_dev;
	if (rc >= 0)
		ls->in_mount = any_above(fd, is_mount_point, NULL);
	if (rc >= 0 && all)
		list_directory(ls, fd, path);
	else if (rc >= 0)
		rc = list_named(ls, fd, basename(last), path);
	if (rc < 0)
		fail(ls, path, rc);
	if (fd >= 0)
		close(fd);
}

int ls_main(int argc, char **argv)
{
	static const struct option names[] = {{"summarize", no_argument, NULL, 's'}, {0}};
	struct ls ls = {0};
	char name[64];

	for (int got; (got = args_next(argc, argv, "s", names)) != ARGS_END; ls.totals = true)
		if (got == ARGS_WRONG)
			return 1;
	if (argc == optind)
		return tool_usage(argv[0]);
	for (int i = optind; i < argc; i++)
		list_path(&ls, argv[i]);
	snprintf(name, sizeof name, "%" PRIu64 " file%s", ls.files, ls.files == 1 ? "" : "s");
	if (ls.files > 1 || ls.totals || (!ls.files && !ls.failed))
		print_row(&ls, ls.stored, ls.size, name);
	listing_free(&ls.last.l);
	return ls.failed;
}
