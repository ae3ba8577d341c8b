/* A file in progress: whether it may take its name, its links, its attributes, and messages. */
#include "progress.h"
#include "say.h"
#include "walk_impl.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

void item_say_taken(struct walk *w, const struct item *i, const char *why)
{
	tool_say("%s%s%s: %s", w->where, *i->to ? "/" : "", i->to, why);
	w->failed = true;
}

void item_say_target(struct walk *w, const struct item *i, int rc)
{
	char text[TOOL_TEXT_MAX];

	if (rc == -EEXIST)
		item_say_taken(w, i, "is there already; --force replaces it");
	else if (rc == -EISDIR)
		item_say_taken(w, i, "is a directory, and stays");
	else
		item_say_taken(w, i, tool_err_text(rc, text));
}

/* True: the target has failed, not the source. */
static bool is_of_target(const struct item *i, int rc)
{
	switch (rc) {
	case -EEXIST:
	case -EISDIR:
	case -EFBIG:
	case -ENOSPC:
	case -EDQUOT:
	case -EROFS:
	case -EPERM: /* an immutable directory, or one that takes no such file */
		return true;
	case -EACCES:
		return i->folder && faccessat(i->folder->fd, ".", W_OK | X_OK, AT_EACCESS) < 0;
	default:
		return false;
	}
}

void item_say_rc(struct walk *w, const struct item *i, int rc)
{
	char text[TOOL_TEXT_MAX];
	if (is_of_target(i, rc)) {
		item_say_target(w, i, rc);
	} else {
		tool_say("%s: %s", tool_name_text(i->from), tool_err_text(rc, text));
		w->failed = true;
	}
}

void item_say_extras(struct walk *w, const struct item *i, const struct extras *x)
{
	char text[TOOL_TEXT_MAX];
	if (x->rc == -EOPNOTSUPP) {
		if (!atomic_flag_test_and_set(&w->told_extras))
			tool_say("%s: its file system does not support extended attributes or ACLs "
				 "that some of the files have: they are left out",
				 w->where);
	} else if (x->rc < 0) {
		tool_say("%s: not all extended attributes were kept: %s", i->from,
			 tool_err_text(x->rc, text));
		w->failed = true;
	}
}

bool is_stamp_of(const struct walk *w, struct timespec stamp, struct timespec of)
{
	static const long units[] = {1, 100, 1000, 10000000};

	if (w->is_fat && stamp.tv_nsec == 0 && stamp.tv_sec % 2 == 0 &&
	    stamp.tv_sec + 1 == of.tv_sec)
		return true;
	if (stamp.tv_sec != of.tv_sec || stamp.tv_nsec == 0)
		return stamp.tv_sec == of.tv_sec;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (stamp.tv_nsec == of.tv_nsec / units[i] * units[i])
			return true;
	return false;
}

static bool has_other_names(const struct item *i)
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

static bool is_file(const struct item *i)
{
	return S_ISREG(i->st.st_mode) || i->kind == NODE_SPARSE;
}

/*
 * True: copying it again would change nothing, judging by type, size and time, and by which file
 * was copied there in this run.
 */
static bool is_current(const struct walk *w, struct listing *l, const struct entry *e,
		       const struct item *i, const struct stat *there)
{
	bool file = is_file(i);
	if ((there->st_mode & S_IFMT) != (file ? S_IFREG : i->st.st_mode & S_IFMT))
		return false;
	if (S_ISLNK(there->st_mode))
		return is_same_link(l, e, i);
	if (!file)
		return there->st_rdev == i->st.st_rdev;
	return is_stamp_of(w, there->st_mtim, i->st.st_mtim) &&
	       !takers_has_other(&w->target.takers, i->to, &i->st) &&
	       w->ops->is_current(l, e, i, there);
}

/*
 * The item has other names, one of which may be missing in the target: that will be made a link to
 * *there, which is up to date.
 */
static void note_current(struct walk *w, const struct item *i, const struct stat *there)
{
	pthread_mutex_lock(&w->lock);
	bool same = links_add(&w->target.links, &i->st, i->kind, i->to, there);
	pthread_mutex_unlock(&w->lock);
	if (!same && !w->told_apart)
		tool_say("%s: not all hard links exist, and files that are up to date stay "
			 "separate; --force replaces them", w->where);
	w->told_apart |= !same;
}

/* Notes for later sources with the same name that this file has it, or will. */
static void note_taker(struct walk *w, const struct item *i)
{
	if (!w->target.alone && !w->target.force && is_file(i))
		takers_put(&w->target.takers, i->to, &i->st);
}

/*
 * True: what would be replaced is what the item is made of: an entry of the target by its own name,
 * or seen through a mount, where a frame stands for the file that it shows. What is written to it
 * meanwhile, and its other names, would be lost.
 */
static bool is_itself(const struct walk *w, const struct listing *l, const struct entry *e,
		      const struct item *i)
{
	struct stat st;

	if (!i->folder->is_root || fstat(l->fd, &st) < 0 || st.st_ino != w->root.st_ino)
		return false;
	if (st.st_dev == w->root.st_dev)
		return strcmp(e->name, i->name) == 0;
	return is_behind_target(w, l->fd);
}

bool item_may_make(struct walk *w, struct listing *l, const struct entry *e, struct item *i)
{
	struct stat there;
	bool update = w->target.update;
	bool is_new = fstatat(i->folder->fd, i->name, &there, AT_SYMLINK_NOFOLLOW) < 0;

	i->replace = w->target.force;
	if (i->replace && !is_new && is_itself(w, l, e, i)) {
		item_say_taken(w, i, "is the source itself, and stays");
		return false;
	}
	if (i->replace || is_new) {
		note_taker(w, i);
		return true;
	}
	if (is_current(w, l, e, i, &there)) {
		w->current++;
		note_taker(w, i);
		if (has_other_names(i))
			note_current(w, i, &there);
		return false;
	}
	bool older = is_older(&there, &i->st);
	i->replace = update && older;
	if (i->replace)
		note_taker(w, i);
	else
		item_say_taken(w, i, older ? "is there already, and older; --update replaces it"
					   : "is there already; --force replaces it");
	return i->replace;
}

bool item_hides_length(struct walk *w, const struct item *i, int in)
{
	struct stat now; /* the file may have grown */
	char byte;

	if (fstat(in, &now) < 0 || now.st_size || pread(in, &byte, 1, 0) <= 0)
		return false;
	tool_say("%s: has contents but no length (as in /proc); left out", i->from);
	w->failed = true;
	return true;
}

/*
 * True: no hard link can be made, and the file is copied instead: the file system supports none, or
 * no more to this file, or the two names are on different ones; or the first name was removed.
 */
static bool means_a_copy(int rc)
{
	switch (rc) {
	case -EPERM:
	case -EOPNOTSUPP:
	case -ENOSYS:
	case -EMLINK:
	case -EXDEV:
	case -ENOENT:
	case -ENOTDIR:
	case -ELOOP:
		return true;
	default:
		return false;
	}
}

/* As item_make_link, for a hard link. If none can be made, that is reported once. */
static int make_hard_link(struct walk *w, const struct entry *e, struct item *i)
{
	char text[TOOL_TEXT_MAX];

	if (!has_other_names(i))
		return 0;
	pthread_mutex_lock(&w->lock);
	const char *linked = links_find(&w->target.links, &e->st, e->kind);
	int rc = linked ? draft_link(&i->draft, i->folder->fd, w->target.root, linked) : 0;
	if (linked && rc == 0)
		rc = 1;
	pthread_mutex_unlock(&w->lock);
	if (rc >= 0 || !means_a_copy(rc))
		return rc;
	if (!w->told_links)
		tool_say("%s: not all hard links can be made, and the files are copied instead: %s",
			 w->where, tool_err_text(rc, text));
	w->told_links = true;
	return 0;
}

int item_make_link(struct walk *w, struct listing *l, const struct entry *e, struct item *i)
{
	char text[PATH_MAX];
	int rc = make_hard_link(w, e, i);

	if (rc != 0)
		return rc;
	if (!S_ISLNK(e->st.st_mode))
		return 0;
	ssize_t n = readlinkat(l->fd, e->name, text, sizeof text - 1);
	if (n < 0)
		return -errno;
	text[n] = 0;
	TRY(draft_symlink(&i->draft, i->folder->fd, text));
	return 1;
}

bool item_finish(struct walk *w, struct item *i)
{
	int rc = draft_finish(&i->draft, &i->st, &i->extras, i->name, i->replace);
	struct stat made = {0};

	if (rc < 0) {
		item_say_target(w, i, rc);
		return false;
	}
	item_say_extras(w, i, &i->extras);
	progress_file();
	if (has_other_names(i)) /* if it fails, all other names count as other files */
		(void)fstatat(i->folder->fd, i->name, &made, AT_SYMLINK_NOFOLLOW);
	pthread_mutex_lock(&w->lock);
	w->made++;
	links_forget(&w->target.links, i->to);
	if (has_other_names(i))
		(void)links_add(&w->target.links, &i->st, i->kind, i->to, &made);
	pthread_mutex_unlock(&w->lock);
	return true;
}
