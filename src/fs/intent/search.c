/* Searches the backing directory for the frames that the intent log names. */
#include "base/log.h"
#include "fs/intent/replay_impl.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

/* A directory that is being searched. look_in takes the descriptor. */
struct folder {
	struct inode *inode;
	int fd, depth;
};

static void try_entry(struct replay *x, const struct folder *in, const char *name)
{
	struct entry e = {.fd = -1};
	char text[ERR_TEXT_MAX];
	size_t stem;

	if (suffix_of(name, &stem) != SUFFIX_FRAME)
		return;
	strcpy(e.backing, name);
	strcpy(e.shown, name);
	e.fd = backing_find(&x->fs->backing, in->fd, name, &e.st, &e.birth);
	if (e.fd < 0) {
		x->blind |= e.fd != -ENOENT;
		return;
	}
	struct wanted *w = replay_find_wanted(x, e.st.st_ino);
	if (!S_ISREG(e.st.st_mode) || !w || w->found ||
	    e.st.st_dev != inodes_root(x->fs->inodes)->key.dev) {
		close(e.fd);
		return;
	}
	w->found = true;
	x->nfound++;
	err_clear();
	int rc = replay_apply(x, in->inode, &e);
	if (rc < 0)
		log_err("%s: what was synced last is not in it: %s", name, err_text(rc, text));
	x->failed += rc < 0;
	x->applied += rc > 0;
}

static void look_in(struct replay *x, const struct folder *in);

static void look_below(struct replay *x, const struct folder *in, const char *name)
{
	struct inodes *inodes = x->fs->inodes;
	struct folder below = {.fd = -1, .depth = in->depth + 1};
	struct entry e = {.fd = -1, .probed.kind = NODE_PLAIN};

	if (in->depth < INTENT_DEEPEST)
		below.fd = openat(in->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (below.fd < 0) {
		x->blind |= in->depth >= INTENT_DEEPEST ||
			    (errno != ENOENT && errno != ENOTDIR && errno != ELOOP);
		return;
	}
	strcpy(e.backing, name);
	strcpy(e.shown, name);
	int rc = fstat(below.fd, &e.st);
	if (rc == 0 && e.st.st_dev == inodes_root(inodes)->key.dev)
		below.inode = inode_from_entry(inodes, in->inode, &e);
	if (below.inode) {
		look_in(x, &below);
		inode_put(inodes, below.inode, 1);
		return;
	}
	x->blind |= rc < 0 || e.st.st_dev == inodes_root(inodes)->key.dev;
	close(below.fd);
}

static void look_in(struct replay *x, const struct folder *in)
{
	struct dirent *d;

	DIR *dir = fdopendir(in->fd);
	if (!dir) {
		close(in->fd);
		x->blind = true;
		return;
	}
	while (errno = 0, x->nfound < x->nwanted && (d = readdir(dir))) {
		/* a longer name, on bcachefs or ZFS, is of a file that no mount can open */
		if (names_is_dots(d->d_name) || strlen(d->d_name) > NAME_MAX)
			continue;
		if (d->d_type == DT_DIR || d->d_type == DT_UNKNOWN)
			look_below(x, in, d->d_name);
		if (d->d_type != DT_DIR && (x->by_stat || replay_find_wanted(x, d->d_ino)))
			try_entry(x, in, d->d_name);
	}
	x->blind |= errno != 0; /* of readdir */
	closedir(dir);
}

/* False: the root cannot be opened. */
static bool look_from_root(struct replay *x)
{
	struct folder root = {.inode = inodes_root(x->fs->inodes)};

	root.fd = openat(x->fs->backing.root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root.fd >= 0)
		look_in(x, &root);
	else
		x->blind = true;
	return root.fd >= 0;
}

/*
 * First by the inode numbers in directory entries; then, for what was not found that way, by those
 * of stat, which takes longer: not every file system has the same in both.
 */
void replay_look_everywhere(struct replay *x)
{
	bool opens = look_from_root(x);

	x->by_stat = true;
	if (opens && x->nfound < x->nwanted)
		(void)look_from_root(x);
}
