/*
 * Walks a tree and creates another one from it. Names are looked up from one open directory to the
 * next, in the source and in the target, and no symlink is followed except those on the command
 * line.
 */
#include "mounts.h"
#include "say.h"
#include "walk_impl.h"

#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Appends a name to a path, with a NUL after it. Returns the length before. */
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

void walk_note(struct walk *w, const char *text)
{
	tool_say("%s: %s", tool_name_text((const char *)w->from.p), text);
}

void walk_say(struct walk *w, const char *text)
{
	walk_note(w, text);
	w->failed = true;
}

static struct item here(const struct walk *w)
{
	return (struct item){.from = (const char *)w->from.p, .to = (const char *)w->to.p};
}

void walk_say_rc(struct walk *w, int rc)
{
	struct item i = here(w);
	item_say_rc(w, &i, rc);
}

static void walk_directory(struct walk *w, int from, struct folder *to);

static void walk_into(struct walk *w, int from, const struct entry *e, struct folder *parent,
		      const char *name)
{
	bool made;
	struct item i = here(w);
	int fd = folder_open(parent->fd, name, &made);

	if (fd == -EEXIST) {
		item_say_taken(w, &i, "is there already, and is not a directory");
		return;
	}
	struct folder *to = fd < 0 ? NULL : folder_new(w, fd, made, &e->st);
	if (!to) {
		item_say_target(w, &i, fd < 0 ? fd : -ENOMEM);
		return;
	}
	extras_load(&to->extras, from);
	if (!made)
		drafts_remove_left(fd);
	if (made && w->ops->made)
		w->ops->made(parent->fd, fd);
	w->depth++;
	walk_directory(w, from, to);
	w->depth--;
	folder_put(w, to);
}

static bool is_behind(int mount, int dir)
{
	return any_above(mount, is_mount_point, NULL) && any_above(dir, has_daemon, NULL);
}

bool is_behind_target(const struct walk *w, int dir)
{
	return is_behind(w->target.root, dir) || is_behind(dir, w->target.root);
}

static void walk_subdirectory(struct walk *w, struct listing *l, const struct entry *e,
			      struct folder *parent, const char *name)
{
	bool same = e->st.st_ino == w->root.st_ino; /* perhaps the target itself */
	if (same && e->st.st_dev == w->root.st_dev)
		return; /* it is where the files go: it would be copied into itself without end */
	if (e->st.st_dev != w->dev) {
		walk_say(w, "is another file system, and left out");
		return;
	}
	if (w->depth == LISTING_DEEPEST) {
		walk_say(w, "is too deep, and left out");
		return;
	}
	int from = openat(l->fd, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0) {
		walk_say_rc(w, -errno);
		return;
	}
	if (!same || !is_behind_target(w, from))
		walk_into(w, from, e, parent, name);
	close(from);
}

/* Waits for what the item depends on. False: it may not be made, which has been reported. */
static bool is_admitted(struct walk *w, const struct item *i)
{
	w->ops->await(w, i);
	return !w->ops->may_stand || w->ops->may_stand(w, i);
}

static void walk_entry(struct walk *w, struct listing *l, struct entry *e, struct folder *folder)
{
	char name[NAME_MAX + 1];

	if (!w->ops->name(w, l, e, name))
		return;
	size_t to = path_push(&w->to, name);
	struct item i = here(w);
	i.name = name;
	i.folder = folder;
	i.st = e->st;
	i.kind = e->kind;
	bool directory = S_ISDIR(e->st.st_mode) && e->kind == NODE_PLAIN;
	if (e->rc < 0)
		walk_say_rc(w, e->rc);
	else if (!is_admitted(w, &i))
		; /* which was reported */
	else if (directory)
		walk_subdirectory(w, l, e, folder, name);
	else if (item_may_make(w, l, e, &i))
		w->ops->make(w, l, e, &i);
	path_pop(&w->to, to);
}

static void walk_directory(struct walk *w, int from, struct folder *to)
{
	struct listing l;
	int rc = listing_read(&l, from);

	if (rc < 0)
		walk_say_rc(w, rc);
	for (size_t i = 0; rc >= 0 && i < l.n; i++) {
		size_t before = path_push(&w->from, l.entry[i].name);
		walk_entry(w, &l, &l.entry[i], to);
		path_pop(&w->from, before);
	}
	listing_free(&l);
}

/* Makes the folder of the root. */
static struct folder *root_folder(struct walk *w)
{
	int fd = fcntl(w->target.root, F_DUPFD_CLOEXEC, 0);
	int rc = fd < 0 ? -errno : -ENOMEM;
	struct folder *f = fd < 0 ? NULL : folder_new(w, fd, false, &w->root);
	if (f)
		f->is_root = true;
	else
		walk_say_rc(w, rc);
	return f;
}

/*
 * A target that was made for the whole of a directory gets its attributes. It may have to be closed
 * to others, so at once; but it becomes writable for others, perhaps with a sticky bit, only when
 * all is done.
 */
static void make_root_like(struct folder *root, int from)
{
	if (fstat(from, &root->st) < 0)
		return;
	root->is_root = false;
	root->made = true;
	extras_load(&root->extras, from);
	(void)fchmod(root->fd, (root->st.st_mode & 0755) | 0700);
}

void walk_all(struct walk *w, int from)
{
	struct folder *root = root_folder(w);
	if (!root)
		return;
	if (w->made_root && w->target.alone)
		make_root_like(root, from);
	walk_directory(w, from, root);
	folder_put(w, root);
}

void walk_one(struct walk *w, struct listing *l, struct entry *e)
{
	struct folder *root = root_folder(w);
	if (!root)
		return;
	walk_entry(w, l, e, root);
	folder_put(w, root);
}

/*
 * Resolves a path of the command line, following symlinks: sets s->name and s->whole. *where is the
 * resolved path of the directory, or of the file.
 */
static int find_source(const struct walk *w, const char *path, struct source *s,
		       char where[static PATH_MAX])
{
	struct stat st;
	char last[PATH_MAX], real[PATH_MAX];

	if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
		if (realpath(path, real))
			path = real;
		else if (stat(path, &st) == 0) /* an unnamed pipe: /dev/stdin */
			return -ESPIPE;
	}
	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	int rc = stat(path, &st) < 0 ? -errno : 0;
	if (rc == -ENOTDIR) /* "file/" */
		return rc;
	strcpy(where, path);
	strcpy(last, path);
	char *name = basename(last);
	s->whole = rc == 0 && S_ISDIR(st.st_mode) &&
		   !(w->ops->is_file && w->ops->is_file(path, name));
	return names_join(s->name, name, strlen(name), "") ? 0 : -ENAMETOOLONG;
}

void walk_open_source(struct walk *w, const char *path, struct source *s)
{
	struct stat st;
	char where[PATH_MAX];

	*s = (struct source){.fd = -1};
	path_pop(&w->from, 0);
	path_pop(&w->to, 0);
	(void)path_push(&w->from, path);
	int rc = find_source(w, path, s, where);
	if (rc >= 0) {
		s->fd = open(s->whole ? where : dirname(where), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		rc = s->fd < 0 || fstat(s->fd, &st) < 0 ? -errno : 0;
	}
	if (rc < 0) {
		walk_say_rc(w, rc);
	} else {
		w->dev = st.st_dev;
		if (!s->whole || st.st_ino != w->root.st_ino ||
		    (st.st_dev != w->root.st_dev && !is_behind_target(w, s->fd)))
			return;
		walk_say(w, "is where the files would go; name another directory");
	}
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/*
 * True: syncfs(2) does not reach the disk there: at most the server gets the data. An fsync does.
 * (Some of these numbers are missing in the headers of Linux 5.10.)
 */
static bool is_remote(const struct statfs *fs)
{
	static const uint32_t types[] = {0x65735546 /* FUSE */, 0x01021997 /* 9P */,
					 0xff534d42 /* CIFS */, 0xfe534d42 /* SMB 2 */};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if ((uint32_t)fs->f_type == types[i])
			return true;
	return false;
}

static void look_at_file_system(struct walk *w)
{
	struct statfs fs;

	if (fstatfs(w->target.root, &fs) < 0)
		return;
	w->is_fat = fs.f_type == MSDOS_SUPER_MAGIC;
	w->is_remote = is_remote(&fs);
}

bool walk_sync_reaches(const struct walk *w, dev_t dev)
{
	return dev == w->root.st_dev && !w->is_remote;
}

/*
 * Syncs the name of a target that was made. A directory that we may not read cannot be synced: then
 * the sync of the target has to do.
 */
static int sync_above(const struct walk *w)
{
	int above = openat(w->target.root, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (above < 0 && errno == EACCES)
		return 0;
	int rc = above < 0 || (fsync(above) < 0 && errno != EINVAL) ? -errno : 0;
	if (above >= 0)
		close(above);
	return rc;
}

int walk_sync(struct walk *w)
{
	/*
	 * Where each file and directory was synced by itself, syncfs(2) could only report what
	 * other programs have met there: on FUSE, EINTR after a program was killed while setting a
	 * time.
	 */
	if (w->is_remote)
		return w->made_root ? sync_above(w) : 0;
	return syncfs(w->target.root) < 0 ? -errno : 0;
}

int walk_init(struct walk *w, const struct walk_ops *ops, const char *where, struct target t)
{
	*w = (struct walk){.ops = ops, .where = where, .target = t};
	w->target.root = -1;
	pthread_mutex_init(&w->lock, NULL);
	w->made_root = mkdir(where, 0777) == 0;
	if (!w->made_root && errno != EEXIST)
		return -errno;
	w->target.root = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w->target.root < 0 || fstat(w->target.root, &w->root) < 0)
		return -errno;
	look_at_file_system(w);
	draft_end_with_signals();
	drafts_remove_left(w->target.root);
	(void)path_push(&w->from, ""); /* both are terminated from here on */
	(void)path_push(&w->to, "");
	return 0;
}

int walk_fail(struct walk *w, int rc)
{
	w->failed = true;
	return tool_fail(w->where, rc);
}

void walk_deinit(struct walk *w)
{
	if (w->current)
		printf("%" PRIu64 " up to date, %" PRIu64 " made\n", w->current, w->made);
	if (w->made_root && w->failed)
		(void)rmdir(w->where); /* unless it has entries */
	links_deinit(&w->target.links);
	takers_deinit(&w->target.takers);
	buf_free(&w->from);
	buf_free(&w->to);
	if (w->target.root >= 0)
		close(w->target.root);
	pthread_mutex_destroy(&w->lock);
}
