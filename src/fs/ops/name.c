/* Names: lookup, forget, and what makes, removes and moves them. */
#include "frame/policy/wish.h"
#include "fs/file/open.h"
#include "fs/file/sidecar.h"
#include "fs/inode/times.h"
#include "fs/ops/ops.h"
#include "fs/ops/push.h"
#include "fs/room.h"

#include <limits.h>
#include <unistd.h>

static void reply_entry(fuse_req_t req, int rc, const struct fuse_entry_param *e)
{
	struct fs *fs = ops_fs(req); /* the reply frees req */

	ops_tell_limit(rc);
	if (rc < 0) {
		fuse_reply_err(req, -rc);
	} else if (fuse_reply_entry(req, e) < 0) {
		/* Interrupted: the kernel never learned of its reference. */
		inode_put(fs->inodes, ops_inode(fs, e->ino), 1);
	}
}

/* The entry called `name` in a directory becomes an inode and a reply. */
static int enter_found(struct fs *fs, struct inode *parent, int dirfd, const char *name,
		       struct fuse_entry_param *out)
{
	struct names names = ops_names(fs);
	struct entry e;

	TRY(names_find(&names, dirfd, name, &e));
	return ops_enter(fs, parent, &e, out);
}

void op_lookup(fuse_req_t req, fuse_ino_t parent_ino, const char *name)
{
	struct fs *fs = ops_fs(req);
	struct inode *parent = ops_inode(fs, parent_ino);
	struct fuse_entry_param e;

	int dirfd = inode_pin(fs->inodes, parent);
	int rc = dirfd;
	if (rc >= 0) {
		rc = enter_found(fs, parent, dirfd, name, &e);
		inode_unpin(fs->inodes, parent);
	}
	if (rc == -ENOENT && strlen(name) <= NAMES_MAX) { /* remember that there is none */
		absent_note(&fs->absent, parent, name);
		e = (struct fuse_entry_param){.entry_timeout = fs->opt.entry_timeout};
		fuse_reply_entry(req, &e);
		return;
	}
	if (rc == -ENOENT)
		rc = -ENAMETOOLONG;
	reply_entry(req, rc, &e);
}

static void forget(struct fs *fs, fuse_ino_t ino, uint64_t nlookup)
{
	struct inode *n = ops_inode(fs, ino);
	if (n != inodes_root(fs->inodes))
		inode_put(fs->inodes, n, nlookup);
}

void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
	forget(ops_fs(req), ino, nlookup);
	fuse_reply_none(req);
}

void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		forget(ops_fs(req), forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

/* What mknod, mkdir, symlink and create have in common. */
struct making {
	struct fs *fs;
	struct inode *parent;
	const char *name; /* "": none, for O_TMPFILE */
	struct caller caller;
	mode_t mode; /* with the type */
	dev_t rdev;
	const char *target; /* of a symlink */
	struct newborn born; /* a new regular file, and then the frame in it */
	bool unchecked;     /* that there is nothing of that name is not quite sure */
};

/* With what its directory and the rules ask for; the attributes are there before the name. */
static int init_frame(struct making *m, int dirfd)
{
	struct wish w = {0};
	struct stat st = {0};

	/* Writing takes set-id bits away from a file of a caller whose identity is worn. */
	if (m->mode & (S_ISUID | S_ISGID) && fstat(m->born.fd, &st) < 0)
		return -errno;
	rules_match(m->fs->opt.settings.rules, m->name, &w);
	m->born.wish = w;
	wish_load(&w, dirfd);
	if (w.own) {
		wish_inherit(dirfd, m->born.fd);
		wish_load(&m->born.wish, m->born.fd);
	}
	struct settings s = wish_apply(&m->fs->opt.settings, &w);
	return newborn_init_frame(&m->born, &s,
				  st.st_mode & (S_ISUID | S_ISGID) ? st.st_mode & 07777 : 0);
}

/* A new directory hands on what it gets. */
static int make_dir(struct making *m, int dirfd, const char *backing)
{
	struct wish w = {0};

	if (mkdirat(dirfd, backing, m->mode & 07777) < 0)
		return -errno;
	wish_load(&w, dirfd);
	int fd = w.own ? openat(dirfd, backing, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
		       : -1;
	if (fd >= 0) {
		wish_inherit(dirfd, fd);
		close(fd);
	}
	return 0;
}

/*
 * By the descriptor itself, which saves the way through /proc. Before Linux 6.10 that takes a right
 * that root loses when it wears another's identity.
 */
static int give_name(struct making *m, int dirfd, const char *backing)
{
	atomic_bool *no = &m->fs->no_link_by_fd[m->caller.worn];
	char path[FD_PATH_MAX];

	if (!*no) {
		if (linkat(m->born.fd, "", dirfd, backing, AT_EMPTY_PATH) == 0)
			return 0;
		if (errno != ENOENT)
			return -errno;
	}
	fd_proc_path(m->born.fd, path);
	if (linkat(AT_FDCWD, path, dirfd, backing, AT_SYMLINK_FOLLOW) < 0)
		return -errno;
	*no = true;
	return 0;
}

/*
 * A new frame gets its name when it is one, so that neither a kill nor another
 * reader ever meets half of it. Not every file system has nameless files:
 * elsewhere the name comes first.
 */
static int make_frame_file(struct making *m, int dirfd, const char *backing)
{
	bool named = false;

	if (m->born.fd < 0)
		m->born.fd = openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, m->mode & 07777);
	if (m->born.fd < 0 && errno != EACCES && *m->name) {
		m->born.fd =
			openat(dirfd, backing, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC,
			       m->mode & 07777);
		named = m->born.fd >= 0;
	}
	if (m->born.fd < 0)
		return -errno;
	/* Our own reads are nobody's. (In openat it might fail when the file is there already.) */
	(void)fcntl(m->born.fd, F_SETFL, O_NOATIME);
	int rc = m->born.frame ? 0 : init_frame(m, dirfd);
	if (rc < 0 && named)
		(void)unlinkat(dirfd, backing, 0);
	if (rc < 0 || named || !*m->name)
		return rc;
	return give_name(m, dirfd, backing);
}

static int make_node(struct making *m, int dirfd, const char *backing)
{
	int rc;

	switch (m->mode & S_IFMT) {
	case S_IFREG: return make_frame_file(m, dirfd, backing);
	case S_IFDIR: return make_dir(m, dirfd, backing);
	case S_IFLNK: rc = symlinkat(m->target, dirfd, backing); break;
	default: rc = mknodat(dirfd, backing, m->mode, m->rdev); break;
	}
	return rc < 0 ? -errno : 0;
}

/* A caller whose right comes from a supplementary group is refused at first. */
static int make_as_caller(struct making *m, int dirfd, const char *backing)
{
	caller_enter(&m->caller, m->fs->backing.is_root);
	int rc = make_node(m, dirfd, backing);
	if (rc == -EACCES && caller_override(&m->caller))
		rc = make_node(m, dirfd, backing);
	caller_leave(&m->caller);
	return rc;
}

static int check_absent(struct making *m, int dirfd)
{
	struct names names = ops_names(m->fs);
	struct entry e;

	m->unchecked = false;
	int rc = names_find(&names, dirfd, m->name, &e);
	if (rc >= 0)
		close(e.fd);
	return rc >= 0 ? -EEXIST : rc == -ENOENT ? 0 : rc;
}

/* A frame may find its first name taken by a file that is shown under it: the next suffix then. */
static int make_frame(struct making *m, int dirfd, char backing[static NAME_MAX + 1])
{
	static const char *const suffixes[] = {NAMES_NEW_SUFFIX, ".b2f", ".b2"};
	int rc = -EEXIST;

	for (size_t i = 0; rc == -EEXIST && i < sizeof suffixes / sizeof *suffixes; i++) {
		TRY(names_for(NODE_FRAME, true, suffixes[i], m->name, backing));
		rc = make_as_caller(m, dirfd, backing);
		if (rc == -EEXIST && m->unchecked)
			TRY(check_absent(m, dirfd));
	}
	return rc;
}

static int make_other(struct making *m, int dirfd, char backing[static NAME_MAX + 1])
{
	TRY(names_for(NODE_PLAIN, false, "", m->name, backing));
	return make_as_caller(m, dirfd, backing);
}

/* What was just made need not be looked for, nor its content be probed. */
static int enter_new(struct making *m, int dirfd, const char *backing, struct fuse_entry_param *out)
{
	struct entry e = {.made = true,
			  .probed = {.kind = S_ISREG(m->mode) ? NODE_FRAME : NODE_PLAIN,
				     .blocksize = m->fs->opt.settings.pipeline.blocksize}};

	e.fd = -1;
	if (m->born.fd >= 0) /* it becomes the inode's when it is opened */
		TRY(backing_look(m->born.fd, &e.st, &e.birth));
	else
		TRY(e.fd = backing_find(&m->fs->backing, dirfd, backing, &e.st, &e.birth));
	m->born.st = e.st;
	strcpy(e.backing, backing);
	strcpy(e.shown, m->name);
	return ops_enter(m->fs, m->parent, &e, out);
}

static int make_in(struct making *m, int dirfd, struct fuse_entry_param *out)
{
	char backing[NAME_MAX + 1];

	if (!*m->name) {
		TRY(make_as_caller(m, dirfd, ""));
		return enter_new(m, dirfd, "", out);
	}
	m->unchecked = absent_take(&m->fs->absent, m->parent, m->name);
	if (!m->unchecked)
		TRY(check_absent(m, dirfd));
	TRY(S_ISREG(m->mode) ? make_frame(m, dirfd, backing) : make_other(m, dirfd, backing));
	return enter_new(m, dirfd, backing, out);
}

static int make(struct making *m, struct fuse_entry_param *out)
{
	struct room_wait wait = {0};
	int rc;

	m->born.fd = -1;
	int dirfd = inode_pin_reader(m->fs->inodes, m->parent);
	TRY(dirfd);
	do {
		rc = make_in(m, dirfd, out);
		if (rc < 0)
			newborn_drop(&m->born);
	} while (room_soon(m->fs, &wait, rc));
	inode_unpin(m->fs->inodes, m->parent);
	return rc;
}

static struct making making_of(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct fs *fs = ops_fs(req);
	return (struct making){.fs = fs, .parent = ops_inode(fs, parent), .name = name,
			       .caller = ops_caller(req), .mode = mode};
}

void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct making m = making_of(req, parent, name, S_IFDIR | (mode & 07777));
	struct fuse_entry_param e;
	reply_entry(req, make(&m, &e), &e);
}

void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	struct making m = making_of(req, parent, name, S_IFLNK | 0777);
	struct fuse_entry_param e;
	m.target = target;
	reply_entry(req, make(&m, &e), &e);
}

void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	struct making m = making_of(req, parent, name, mode & S_IFMT ? mode : mode | S_IFREG);
	struct fuse_entry_param e;

	m.rdev = rdev;
	int rc = make(&m, &e);
	if (rc >= 0)
		newborn_drop(&m.born);
	reply_entry(req, rc, &e);
}

static int open_existing(struct fs *fs, struct inode *n, struct fuse_file_info *fi)
{
	TRY(push_enter(fs, n, NULL));
	int rc = ops_open_handle(fs, n, NULL, fi);
	push_leave(n);
	return rc;
}

/* Somebody made it between the kernel's lookup and now: open that one, unless O_EXCL. */
static int create_existing(fuse_req_t req, struct making *m, struct fuse_entry_param *e,
			   struct fuse_file_info *fi)
{
	int dirfd = inode_pin(m->fs->inodes, m->parent);
	TRY(dirfd);
	int rc = enter_found(m->fs, m->parent, dirfd, m->name, e);
	inode_unpin(m->fs->inodes, m->parent);
	TRY(rc);
	struct inode *n = ops_inode(m->fs, e->ino);
	rc = S_ISREG(e->attr.st_mode) ? open_existing(m->fs, n, fi) : -EEXIST;
	if (rc >= 0 && fi->flags & O_TRUNC)
		ops_killpriv_truncated(req, n);
	if (rc < 0)
		inode_put(m->fs->inodes, n, 1);
	return rc;
}

#define NAP_US 50

static int make_and_open(struct making *m, struct fuse_entry_param *e, struct fuse_file_info *fi)
{
	TRY(make(m, e));
	struct inode *n = ops_inode(m->fs, e->ino);
	while (push_enter(m->fs, n, NULL) == -ESTALE)
		usleep(NAP_US); /* others have filled it already; who has made it waits alone */
	int rc = ops_open_handle(m->fs, n, &m->born, fi);
	push_leave(n);
	if (rc < 0)
		inode_put(m->fs->inodes, n, 1);
	return rc;
}

static void reply_create(fuse_req_t req, int rc, const struct fuse_entry_param *e,
			 struct fuse_file_info *fi)
{
	struct fs *fs = ops_fs(req); /* the reply frees req */

	ops_tell_limit(rc);
	if (rc < 0) {
		fuse_reply_err(req, -rc);
	} else if (fuse_reply_create(req, e, fi) < 0) {
		ops_close_handle(fs, ops_handle(fi));
		inode_put(fs->inodes, ops_inode(fs, e->ino), 1);
	}
}

void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *fi)
{
	struct making m = making_of(req, parent, name, S_IFREG | (mode & 07777));
	struct fuse_entry_param e;

	int rc = make_and_open(&m, &e, fi);
	if (rc == -EEXIST && !(fi->flags & O_EXCL))
		rc = create_existing(req, &m, &e, fi);
	reply_create(req, rc, &e, fi);
}

#ifdef HAVE_TMPFILE
/* A frame without a name. op_link may give it one; else it goes with its last user. */
void op_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode, struct fuse_file_info *fi)
{
	struct making m = making_of(req, parent, "", S_IFREG | (mode & 07777));
	struct fuse_entry_param e;

	int rc = make_and_open(&m, &e, fi);
	reply_create(req, rc, &e, fi);
}
#endif

/* Takes the entry away and tells its inode. Takes e->fd. */
static int remove_entry(struct fs *fs, struct inode *parent, int dirfd, struct entry *e, int flags)
{
	int rc = e->probed.kind == NODE_SPARSE ? -EROFS : 0;

	if (rc >= 0 && unlinkat(dirfd, e->backing, flags) < 0) {
		rc = -errno;
		if (rc == -ENOTEMPTY && sidecar_remove_only(dirfd, e->backing) == 0)
			rc = unlinkat(dirfd, e->backing, flags) < 0 ? -errno : 0;
	}
	if (rc >= 0 && e->probed.kind != NODE_PLAIN)
		sidecar_remove(dirfd, e->backing);
	struct inode *n = rc < 0 ? NULL : inode_known(fs->inodes, e);
	if (n) {
		inode_link_remove(fs->inodes, n, parent, e->backing);
		(void)times_set(n, NULL, NULL);
		inode_keep_take(fs->inodes, n, e->fd);
		if (e->st.st_nlink == 1 && S_ISREG(e->st.st_mode))
			ops_nameless(fs, n);
		inode_put(fs->inodes, n, 1);
	} else {
		close(e->fd);
	}
	return rc;
}

static void remove_name(fuse_req_t req, fuse_ino_t parent_ino, const char *name, int flags)
{
	struct fs *fs = ops_fs(req);
	struct inode *parent = ops_inode(fs, parent_ino);
	struct names names = ops_names(fs);
	struct entry e;

	inodes_rename_begin(fs->inodes);
	int dirfd = inode_pin(fs->inodes, parent);
	int rc = dirfd;
	if (rc >= 0) {
		rc = names_find(&names, dirfd, name, &e);
		if (rc >= 0)
			rc = remove_entry(fs, parent, dirfd, &e, flags);
		inode_unpin(fs->inodes, parent);
	}
	inodes_rename_end(fs->inodes);
	fuse_reply_err(req, rc < 0 ? -rc : 0);
}

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, 0);
}

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, AT_REMOVEDIR);
}

/* That of the name that it has. It may have none, or none that we know of. */
static const char *suffix_to_link(const char *name, enum node_kind kind)
{
	if (*name)
		return names_suffix(name);
	return kind == NODE_ARRAY ? ".b2nd" : NAMES_NEW_SUFFIX;
}

/* As make_frame(): where the name with the suffix that it has is taken, the next one. */
static int link_free(struct fs *fs, struct inode *n, int fd, int dirfd, const char *newname)
{
	char name[NAME_MAX + 1], backing[NAME_MAX + 1], path[FD_PATH_MAX];
	const char *suffixes[] = {"", NAMES_NEW_SUFFIX, ".b2f", ".b2"};
	enum node_kind kind = inode_kind(n);
	int rc = -EEXIST;

	inode_name(fs->inodes, n, name);
	suffixes[0] = suffix_to_link(name, kind);
	fd_proc_path(fd, path);
	size_t several = kind == NODE_FRAME ? sizeof suffixes / sizeof *suffixes : 1;
	for (size_t i = 0; rc == -EEXIST && i < several; i++) {
		TRY(names_for(kind, n->type == S_IFREG, suffixes[i], newname, backing));
		rc = linkat(AT_FDCWD, path, dirfd, backing, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
	}
	return rc;
}

void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent, const char *newname)
{
	struct fs *fs = ops_fs(req);
	struct inode *n = ops_inode(fs, ino), *parent = ops_inode(fs, newparent);
	struct fuse_entry_param e;

	(void)absent_take(&fs->absent, parent, newname);
	int dirfd = inode_pin(fs->inodes, parent);
	int fd = dirfd < 0 ? dirfd : inode_pin(fs->inodes, n);
	int rc = fd;
	if (rc >= 0) {
		rc = link_free(fs, n, fd, dirfd, newname);
		if (rc >= 0)
			(void)times_set(n, NULL, NULL);
		if (rc >= 0)
			rc = enter_found(fs, parent, dirfd, newname, &e);
		inode_unpin(fs->inodes, n);
	}
	if (dirfd >= 0)
		inode_unpin(fs->inodes, parent);
	reply_entry(req, rc, &e);
}

void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct fs *fs = ops_fs(req);
	struct inode *n = ops_inode(fs, ino);
	char target[PATH_MAX + 1];

	int fd = inode_pin(fs->inodes, n);
	ssize_t len = fd;
	if (fd >= 0) {
		len = readlinkat(fd, "", target, PATH_MAX);
		len = len < 0 ? -errno : len;
		inode_unpin(fs->inodes, n);
	}
	if (len < 0) {
		fuse_reply_err(req, (int)-len);
		return;
	}
	target[len] = 0;
	fuse_reply_readlink(req, target);
}
