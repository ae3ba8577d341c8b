/*
 * Walks a tree and creates another one from it. Names are looked up from one open directory to the
 * next, in the source and in the target, and no symlink is followed except those on the command
 * line.
 */
#include "walk.h"
#include "progress.h"
#include "say.h"

#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Appends a name to a path, and a 0 behind that. Returns the length before. */
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
	tool_say("%s: %s", (const char *)w->from.p, text);
}

void walk_say(struct walk *w, const char *text)
{
	walk_note(w, text);
	w->failed = true;
}

void item_say_taken(struct walk *w, const struct item *i, const char *why)
{
	tool_say("%s/%s: %s", w->where, i->to, why);
	w->failed = true;
}

static void say_target_rc(struct walk *w, const struct item *i, int rc)
{
	char text[256];

	if (rc == -EEXIST)
		item_say_taken(w, i, "is there already; --force replaces it");
	else if (rc == -EISDIR)
		item_say_taken(w, i, "is a directory, and stays");
	else
		item_say_taken(w, i, err_text(rc, text, sizeof text));
}

/* True: the target has failed, not the source. */
static bool is_of_target(const struct item *i, int rc)
{
	switch (rc) {
	case -EEXIST:
	case -EISDIR:
	case -ENOSPC:
	case -EDQUOT:
	case -EROFS:
		return true;
	case -EACCES:
		return i->folder && faccessat(i->folder->fd, ".", W_OK | X_OK, AT_EACCESS) < 0;
	default:
		return false;
	}
}

void item_say_rc(struct walk *w, const struct item *i, int rc)
{
	char text[256];
	if (is_of_target(i, rc)) {
		say_target_rc(w, i, rc);
	} else {
		tool_say("%s: %s", i->from, err_text(rc, text, sizeof text));
		w->failed = true;
	}
}

/* Reports if extended attributes could not all be copied. */
static void say_extras(struct walk *w, const struct item *i, const struct extras *x)
{
	char text[256];
	if (x->rc == -EOPNOTSUPP) {
		if (!atomic_flag_test_and_set(&w->told_extras))
			tool_say("%s: its file system takes no such extended attributes or ACLs as "
				 "some of the files have: they are left out",
				 w->where);
	} else if (x->rc < 0) {
		tool_say("%s: not all extended attributes were kept: %s", i->from,
			 err_text(x->rc, text, sizeof text));
		w->failed = true;
	}
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

/*
 * True: the stamp is a copy of the other one. File systems may store units of 100 ns, whole
 * seconds, or two of them (FAT).
 */
static bool is_stamp_of(struct timespec stamp, struct timespec of)
{
	if (stamp.tv_nsec == 0)
		return stamp.tv_sec == of.tv_sec ||
		       (stamp.tv_sec % 2 == 0 && stamp.tv_sec + 1 == of.tv_sec);
	return stamp.tv_sec == of.tv_sec &&
	       (stamp.tv_nsec == of.tv_nsec || stamp.tv_nsec == of.tv_nsec / 100 * 100);
}

/* True: the user who runs this may change its mode and times. */
static bool is_mine(const struct stat *st)
{
	return geteuid() == 0 || geteuid() == st->st_uid;
}

void folder_get(struct walk *w, struct folder *f)
{
	pthread_mutex_lock(&w->lock);
	f->users++;
	pthread_mutex_unlock(&w->lock);
}

/*
 * True: the directory has its attributes. An interrupted run leaves some that do not, which the
 * next run completes.
 */
static bool is_as_asked(const struct folder *f)
{
	struct stat now;

	return !f->made && fstat(f->fd, &now) == 0 &&
	       (!is_mine(&now) ||
		(now.st_mode == f->st.st_mode && now.st_uid == f->st.st_uid &&
		 now.st_gid == f->st.st_gid && is_stamp_of(now.st_mtim, f->st.st_mtim)));
}

static void finish_folder(struct walk *w, struct folder *f)
{
	struct item i = {.from = f->to, .to = f->to};
	int rc = give_attributes(f->fd, &f->st, &f->extras);

	if (rc < 0)
		say_target_rc(w, &i, rc);
	else
		say_extras(w, &i, &f->extras);
}

void folder_put(struct walk *w, struct folder *f)
{
	pthread_mutex_lock(&w->lock);
	bool last = !--f->users;
	pthread_mutex_unlock(&w->lock);
	if (!last)
		return;
	if (!f->is_root && !is_as_asked(f))
		finish_folder(w, f);
	extras_free(&f->extras);
	close(f->fd);
	mem_free(f->to);
	mem_free(f);
}

static bool has_names(const struct item *i)
{
	return i->st.st_nlink > 1 && i->kind != NODE_SPARSE;
}

static bool is_older(const struct stat *a, const struct stat *b)
{
	return a->st_mtim.tv_sec != b->st_mtim.tv_sec ? a->st_mtim.tv_sec < b->st_mtim.tv_sec
						      : a->st_mtim.tv_nsec < b->st_mtim.tv_nsec;
}

static bool is_same_link(struct listing *l, const struct entry *e, const struct item *i)
{
	char from[PATH_MAX], to[PATH_MAX];
	ssize_t n = readlinkat(l->fd, e->name, from, sizeof from);
	return n >= 0 && readlinkat(i->folder->fd, i->name, to, sizeof to) == n &&
	       memcmp(from, to, (size_t)n) == 0;
}

/* True: copying it again would change nothing, as far as type, size and time tell. */
static bool is_current(const struct walk *w, struct listing *l, const struct entry *e,
		       const struct item *i, const struct stat *there)
{
	bool file = S_ISREG(i->st.st_mode) || i->kind == NODE_SPARSE;
	if ((there->st_mode & S_IFMT) != (file ? S_IFREG : i->st.st_mode & S_IFMT))
		return false;
	if (S_ISLNK(there->st_mode))
		return is_same_link(l, e, i);
	if (!file)
		return there->st_rdev == i->st.st_rdev;
	return is_stamp_of(there->st_mtim, i->st.st_mtim) && w->ops->is_current(l, e, i, there);
}

/* False: the file of that name stays, which is reported unless it is up to date. */
static bool may_make(struct walk *w, struct listing *l, const struct entry *e, struct item *i)
{
	struct stat there;
	bool update = w->target.update;

	i->replace = w->target.force;
	if (i->replace || fstatat(i->folder->fd, i->name, &there, AT_SYMLINK_NOFOLLOW) < 0)
		return true;
	if (is_current(w, l, e, i, &there)) {
		w->current++;
		pthread_mutex_lock(&w->lock);
		if (has_names(i)) /* the next one may be missing */
			links_add(&w->target.links, &i->st, i->kind, i->to);
		pthread_mutex_unlock(&w->lock);
		return false;
	}
	bool older = is_older(&there, &i->st);
	i->replace = update && older;
	if (!i->replace)
		item_say_taken(w, i, older ? "is there already, and older; --update replaces it"
					   : "is there already; --force replaces it");
	return i->replace;
}

int item_make_link(struct walk *w, struct listing *l, const struct entry *e, struct item *i)
{
	char text[PATH_MAX];
	int rc = -ENOENT, dir = i->folder->fd;

	pthread_mutex_lock(&w->lock);
	const char *linked =
		has_names(i) ? links_find(&w->target.links, &e->st, e->kind) : NULL;
	if (linked)
		rc = draft_link(&i->draft, dir, w->target.root, linked);
	pthread_mutex_unlock(&w->lock);
	if (rc == 0)
		return 1;
	if (!S_ISLNK(e->st.st_mode))
		return 0;
	ssize_t n = readlinkat(l->fd, e->name, text, sizeof text - 1);
	if (n < 0)
		return -errno;
	text[n] = 0;
	TRY(draft_symlink(&i->draft, dir, text));
	return 1;
}

bool item_finish(struct walk *w, struct item *i)
{
	int rc = draft_finish(&i->draft, &i->st, &i->extras, i->name, i->replace);

	if (rc < 0) {
		item_say_rc(w, i, rc);
		return false;
	}
	say_extras(w, i, &i->extras);
	progress_file();
	pthread_mutex_lock(&w->lock);
	w->made++;
	links_forget(&w->target.links, i->to);
	if (has_names(i))
		links_add(&w->target.links, &i->st, i->kind, i->to);
	pthread_mutex_unlock(&w->lock);
	return true;
}

/*
 * -EEXIST: something else has the name. *made: it was not there before. If its owner may not write
 * to it, it is opened for the owner until it is finished.
 */
static int open_target(int dir, const char *name, bool *made)
{
	*made = mkdirat(dir, name, 0700) == 0;
	if (!*made && errno != EEXIST)
		return -errno;
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOTDIR || errno == ELOOP ? -EEXIST : -errno;
	struct stat st;
	if (fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700 && is_mine(&st))
		(void)fchmod(fd, (st.st_mode & 07777) | 0700);
	return fd;
}

/* Makes the folder in which the walk is, in the target. It takes `fd`. */
static struct folder *folder_new(struct walk *w, int fd, bool made, const struct stat *st)
{
	struct folder *f = mem_zalloc(sizeof *f);
	char *to = mem_strdup((const char *)w->to.p);
	if (!f || !to) {
		close(fd);
		mem_free(to);
		mem_free(f);
		return NULL;
	}
	*f = (struct folder){.fd = fd, .made = made, .users = 1, .st = *st, .to = to};
	return f;
}

static void walk_directory(struct walk *w, int from, struct folder *to);

static void walk_into(struct walk *w, int from, const struct entry *e, struct folder *parent,
		      const char *name)
{
	bool made;
	struct item i = here(w);
	int fd = open_target(parent->fd, name, &made);

	if (fd == -EEXIST) {
		item_say_taken(w, &i, "is there already, and no directory");
		return;
	}
	struct folder *to = fd < 0 ? NULL : folder_new(w, fd, made, &e->st);
	if (!to) {
		say_target_rc(w, &i, fd < 0 ? fd : -ENOMEM);
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

static void walk_subdirectory(struct walk *w, struct listing *l, const struct entry *e,
			      struct folder *parent, const char *name)
{
	if (e->st.st_dev == w->root.st_dev && e->st.st_ino == w->root.st_ino)
		return; /* it is where the files go */
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
	walk_into(w, from, e, parent, name);
	close(from);
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
	else if (w->ops->may_stand && !w->ops->may_stand(w, &i))
		; /* which is said */
	else if (directory)
		walk_subdirectory(w, l, e, folder, name);
	else if (may_make(w, l, e, &i))
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

void walk_all(struct walk *w, int from)
{
	struct folder *root = root_folder(w);
	if (!root)
		return;
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
 * complete path of the directory, or of the file.
 */
static int find_source(const struct walk *w, const char *path, struct source *s,
		       char where[static PATH_MAX])
{
	struct stat st;
	char last[PATH_MAX], real[PATH_MAX];

	if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && realpath(path, real))
		path = real;
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
		if (!s->whole || st.st_dev != w->root.st_dev || st.st_ino != w->root.st_ino)
			return;
		walk_say(w, "is where the files would go; name another directory");
	}
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
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
	draft_end_with_signals();
	drafts_remove_left(w->target.root);
	(void)path_push(&w->from, ""); /* both have a 0 from here on */
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
		(void)rmdir(w->where); /* unless there is something in it */
	links_deinit(&w->target.links);
	buf_free(&w->from);
	buf_free(&w->to);
	if (w->target.root >= 0)
		close(w->target.root);
	pthread_mutex_destroy(&w->lock);
}
