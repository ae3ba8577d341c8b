/*
 * Takes files out of frames without a mount: what a mount of the directory would show. Names are
 * looked up from one open directory to the next, in the source and in the target, and no link is
 * followed but those of the command line.
 */
#include "extract.h"
#include "cframe.h"

#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#define DEEPEST 2000 /* directories in each other, whose calls fit on the stack */

struct walk {
	struct target target;
	struct scratch *s;
	const char *where;    /* -C, for messages                            */
	struct stat root;     /* of the target                               */
	dev_t dev;            /* of the source: other file systems stay out  */
	struct buf from, to;  /* paths of what is being extracted; `to` is below the root */
	unsigned depth;
	bool failed;
};

/* Appends a name to a path, which keeps a 0 behind its end. Returns its length before. */
static size_t path_push(struct buf *path, const char *name)
{
	size_t before = path->n;
	bool cut = path->n && path->p[path->n - 1] != '/';
	if (buf_print(path, "%s%s", cut ? "/" : "", name) < 0 || buf_reserve(path, path->n + 1) < 0)
		exit(tool_fail(name, -ENOMEM));
	path->p[path->n] = 0;
	return before;
}

static void path_pop(struct buf *path, size_t before)
{
	path->n = before;
	path->p[before] = 0;
}

static void say(struct walk *w, const char *text)
{
	fprintf(stderr, "cframe: %s: %s\n", w->from.p, text);
	w->failed = true;
}

static void say_taken(struct walk *w, const char *why)
{
	fprintf(stderr, "cframe: %s/%s: %s\n", w->where, w->to.p, why);
	w->failed = true;
}

static void say_rc(struct walk *w, int rc)
{
	char text[256];
	if (rc == -EEXIST)
		say_taken(w, "is there already; --force replaces it");
	else
		say(w, err_text(rc, text, sizeof text));
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static int open_frame(int fd, enum node_kind kind, struct frame **f)
{
	struct io *io;
	if (kind != NODE_SPARSE) {
		TRY(io_file_open(&io, fd, false));
		return frame_open_take(f, io);
	}
	int own = dup(fd);
	return own < 0 ? -errno : frame_open_sparse_take(f, own);
}

static int unpack(struct walk *w, const struct entry *e, int in, int out)
{
	struct frame *f;
	if (e->kind == NODE_PLAIN)
		return unpack_plain(in, out);
	if (e->kind == NODE_FRAME && e->st.st_size == 0)
		return 0;
	TRY(open_frame(in, e->kind, &f));
	if (frame_went_back(f))
		fprintf(stderr, "cframe: %s: its newest state is torn; the one before is taken\n",
			w->from.p);
	int rc = unpack_frame(f, e->kind == NODE_ARRAY, w->s, out);
	frame_close(f);
	return rc;
}

/* As the mount shows them. */
static struct stat shown_attributes(const struct entry *e)
{
	struct stat st = e->st;
	if (e->kind == NODE_ARRAY || e->kind == NODE_SPARSE)
		st.st_mode &= ~(mode_t)0222;
	if (e->kind == NODE_SPARSE)
		st.st_mode &= ~(mode_t)07111;
	return st;
}

static int extract_bytes(struct walk *w, struct listing *l, const struct entry *e, struct draft *d)
{
	struct stat now;
	int in = openat(l->fd, e->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (in < 0)
		return -errno;
	err_clear();
	int rc = unpack(w, e, in, d->fd);
	if (fstat(in, &now) < 0 || !is_same(&now, &e->st))
		rc = -ESTALE;
	close(in);
	return rc;
}

/* Everything but directories. */
static int make(struct walk *w, struct listing *l, const struct entry *e, int dir, struct draft *d)
{
	char text[PATH_MAX];
	const char *linked = e->st.st_nlink > 1 && e->kind != NODE_SPARSE
				     ? target_linked(&w->target, e)
				     : NULL;
	if (linked && draft_link(d, dir, w->target.root, linked) == 0)
		return 0;
	if (S_ISLNK(e->st.st_mode)) {
		ssize_t n = readlinkat(l->fd, e->name, text, sizeof text - 1);
		if (n < 0)
			return -errno;
		text[n] = 0;
		return draft_symlink(d, dir, text);
	}
	if (!S_ISREG(e->st.st_mode) && e->kind == NODE_PLAIN)
		return draft_node(d, dir, &e->st);
	TRY(draft_open(d, dir));
	int rc = extract_bytes(w, l, e, d);
	if (rc < 0)
		draft_drop(d);
	return rc;
}

static void extract_file(struct walk *w, struct listing *l, const struct entry *e, int dir,
			 const char *shown)
{
	struct stat st = shown_attributes(e), there;
	struct draft d;

	if (!w->target.force && fstatat(dir, shown, &there, AT_SYMLINK_NOFOLLOW) == 0) {
		say_rc(w, -EEXIST);
		return;
	}
	int rc = make(w, l, e, dir, &d);
	if (rc >= 0)
		rc = draft_finish(&d, &w->target, &st, shown);
	if (rc >= 0)
		target_forget_linked(&w->target, (const char *)w->to.p);
	if (rc >= 0 && e->st.st_nlink > 1 && e->kind != NODE_SPARSE)
		target_note_linked(&w->target, e, (const char *)w->to.p);
	if (rc == -ESTALE)
		say(w, "is being changed; if it is mounted, copy it from there");
	else if (rc == -EISDIR)
		say_taken(w, "is a directory, and stays");
	else if (rc < 0)
		say_rc(w, rc);
}

static void extract_directory(struct walk *w, int from, int to);

/* -EEXIST: something else has the name. *made: it was not there before. */
static int open_target(int dir, const char *name, bool *made)
{
	*made = mkdirat(dir, name, 0700) == 0;
	if (!*made && errno != EEXIST)
		return -errno;
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOTDIR || errno == ELOOP ? -EEXIST : -errno;
	return fd;
}

static void extract_subdirectory(struct walk *w, struct listing *l, const struct entry *e, int dir,
				 const char *shown)
{
	bool made;

	if (e->st.st_dev == w->root.st_dev && e->st.st_ino == w->root.st_ino)
		return; /* it is where the files go */
	if (e->st.st_dev != w->dev) {
		say(w, "is another file system, and left out");
		return;
	}
	if (w->depth == DEEPEST) {
		say(w, "is too deep, and left out");
		return;
	}
	int from = openat(l->fd, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0) {
		say_rc(w, -errno);
		return;
	}
	int to = open_target(dir, shown, &made);
	if (to >= 0) {
		w->depth++;
		extract_directory(w, from, to);
		w->depth--;
		int rc = made ? give_attributes(to, &e->st) : 0;
		if (rc < 0)
			say_rc(w, rc);
		close(to);
	} else if (to == -EEXIST) {
		say_taken(w, "is there already, and no directory");
	} else {
		say_rc(w, to);
	}
	close(from);
}

static void extract_entry(struct walk *w, struct listing *l, struct entry *e, int dir)
{
	char shown[NAME_MAX + 1];

	if (!listing_show(l, e, shown))
		return;
	size_t to = path_push(&w->to, shown);
	if (e->rc < 0)
		say_rc(w, e->rc);
	else if (S_ISDIR(e->st.st_mode) && e->kind == NODE_PLAIN)
		extract_subdirectory(w, l, e, dir, shown);
	else
		extract_file(w, l, e, dir, shown);
	path_pop(&w->to, to);
}

static void extract_directory(struct walk *w, int from, int to)
{
	struct listing l;
	int rc = listing_read(&l, from);

	if (rc < 0)
		say_rc(w, rc);
	for (size_t i = 0; rc >= 0 && i < l.n; i++) {
		size_t before = path_push(&w->from, l.entry[i].name);
		extract_entry(w, &l, &l.entry[i], to);
		path_pop(&w->from, before);
	}
	listing_free(&l);
}

/* One entry of a directory, by its name there or in a mount. */
static void extract_named(struct walk *w, int from, const char *name)
{
	struct listing l;
	int rc = listing_read(&l, from);
	struct entry *e = rc < 0 ? NULL : listing_find(&l, name);

	if (rc >= 0 && !e)
		e = listing_owner(&l, name);
	if (e)
		extract_entry(w, &l, e, w->target.root);
	else
		say_rc(w, rc < 0 ? rc : -ENOENT);
	listing_free(&l);
}

/*
 * What the frames lack: bytes that a daemon has not committed (it holds a lock on its directory,
 * fs/backing), or those of the log of one that was killed. They are extracted all the same.
 */
static bool told_of_newer(struct walk *w, int dir)
{
	struct stat st;
	if (flock(dir, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
		say(w, "is mounted: what is not committed yet is missing; copy from the mount, or "
		       "unmount it first");
		return true;
	}
	(void)flock(dir, LOCK_UN);
	if (fstatat(dir, NAMES_INTENT, &st, AT_SYMLINK_NOFOLLOW) < 0 || !st.st_size)
		return false;
	say(w, "its daemon was killed, and its intent log may have bytes that its frames "
	       "lack; mount and unmount it first");
	return true;
}

/* The backing directory may be this one or one above it. */
static void look_for_newer(struct walk *w, int from)
{
	struct stat st = {0}, above;
	int dir = from;
	while (dir >= 0 && fstat(dir, &above) == 0 && above.st_dev == w->dev &&
	       above.st_ino != st.st_ino && !told_of_newer(w, dir)) {
		int next = openat(dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir != from)
			close(dir);
		dir = next;
		st = above;
	}
	if (dir >= 0 && dir != from)
		close(dir);
}

/* A directory by what is in it, anything else as an entry of its directory. */
static void extract_path(struct walk *w, const char *path)
{
	struct stat st;
	char parent[PATH_MAX], last[PATH_MAX], real[PATH_MAX];

	path_pop(&w->from, 0);
	path_pop(&w->to, 0);
	(void)path_push(&w->from, path);
	if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && realpath(path, real))
		path = real;
	if (strlen(path) >= sizeof parent) {
		say_rc(w, -ENAMETOOLONG);
		return;
	}
	bool whole = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
	strcpy(parent, path);
	strcpy(last, path);
	char *name = basename(last);
	if (whole && names_may_be(name, st.st_mode) == NODE_SPARSE) {
		char index[PATH_MAX + 32];
		snprintf(index, sizeof index, "%s/chunks.b2frame", path);
		whole = access(index, F_OK) < 0;
	}
	int from = open(whole ? path : dirname(parent), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (from < 0 || fstat(from, &st) < 0) {
		say_rc(w, -errno);
	} else if (st.st_dev == w->root.st_dev && st.st_ino == w->root.st_ino && whole) {
		say(w, "is where the files would go; name another directory with -C");
	} else {
		w->dev = st.st_dev;
		look_for_newer(w, from);
		if (whole)
			extract_directory(w, from, w->target.root);
		else
			extract_named(w, from, name);
	}
	if (from >= 0)
		close(from);
}

static int open_root(struct walk *w)
{
	if (mkdir(w->where, 0777) < 0 && errno != EEXIST)
		return -errno;
	w->target.root = open(w->where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w->target.root < 0 || fstat(w->target.root, &w->root) < 0)
		return -errno;
	return 0;
}

static int run(struct walk *w, char **path)
{
	int rc = open_root(w);
	if (rc < 0)
		return tool_fail(w->where, rc);
	rc = scratch_open(&w->s);
	if (rc < 0)
		return tool_fail(w->where, rc);
	draft_end_with_signals();
	(void)path_push(&w->from, ""); /* both have a 0 from here on */
	(void)path_push(&w->to, "");
	for (; *path; path++)
		extract_path(w, *path);
	return w->failed;
}

int extract_main(int argc, char **argv)
{
	struct walk w = {.where = ".", .target.root = -1};
	int npaths = 0;
	bool bad = false;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--force") == 0) {
			w.target.force = true;
		} else if (strcmp(argv[i], "-C") == 0 && i + 1 < argc) {
			w.where = argv[++i];
		} else {
			bad |= argv[i][0] == '-' && argv[i][1] != '/';
			argv[npaths++] = argv[i];
		}
	}
	if (bad || !npaths)
		return tool_usage(subcommand_find("extract"));
	argv[npaths] = NULL;
	int code = run(&w, argv);
	target_deinit(&w.target);
	scratch_close(w.s);
	buf_free(&w.from);
	buf_free(&w.to);
	if (w.target.root >= 0)
		close(w.target.root);
	return code;
}
