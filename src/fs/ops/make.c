/* Creation of files, directories and other nodes. */
#include "base/clock.h"
#include "frame/policy/rules.h"
#include "fs/file/open.h"
#include "fs/ops/ops.h"
#include "fs/ops/push.h"
#include "fs/room.h"

#include <limits.h>
#include <unistd.h>

/* What mknod, mkdir, symlink and create have in common. */
struct making {
	fuse_req_t req;
	struct fs *fs;
	struct inode *parent;
	const char *name; /* "": none, for O_TMPFILE */
	struct caller caller;
	mode_t mode; /* with the type */
	dev_t rdev;
	const char *target; /* of a symlink */
	struct newborn born; /* a new regular file, and then the frame in it */
	bool unchecked; /* the kernel has just looked the name up in vain; we have not */
};

/*
 * Makes the new file a frame, as its directory and the rules ask for. It gets its attributes before
 * its name.
 */
static int init_frame(struct making *m, int dirfd)
{
	struct wish w = {0};
	struct stat st = {0};

	/* Writing removes set-id bits, which the caller might not be allowed to set again. */
	if (m->mode & (S_ISUID | S_ISGID)) {
		if (fstat(m->born.fd, &st) < 0)
			return -errno;
		(void)caller_override(&m->caller);
	}
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

/* A new directory inherits the wishes of its parent, and hands them on. */
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
 * Uses the descriptor itself if possible, which saves the way through /proc. Before Linux 6.10 that
 * takes a capability that root loses when it takes on another user's identity; since then, the same
 * credentials as when the file was opened. Those have changed if the file has set-id bits
 * (init_frame), which says nothing about other files.
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
	if (!(m->mode & (S_ISUID | S_ISGID)))
		*no = true;
	return 0;
}

/*
 * A new frame gets its name when it is complete, so that neither a kill nor another reader ever
 * sees half of it. Not every file system has O_TMPFILE: elsewhere the name comes first.
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
	/*
	 * Our own reads must not change atime. (In openat the flag might fail when the file exists
	 * already.)
	 */
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

/*
 * True: the new file gets the group of its directory and keeps the setgid bit, since the caller is
 * in that group. This thread is not, if it is a supplementary group, and would lose the bit.
 */
static bool keeps_setgid(const struct making *m, int dirfd)
{
	struct stat st;

	return m->mode & S_ISGID && !S_ISDIR(m->mode) && fstat(dirfd, &st) == 0 &&
	       st.st_mode & S_ISGID && ops_in_group(m->req, st.st_gid);
}

/* A caller whose permission comes from a supplementary group is refused at first. */
static int make_as_caller(struct making *m, int dirfd, const char *backing)
{
	bool keeps = keeps_setgid(m, dirfd);

	caller_enter(&m->caller, m->fs->backing.is_root);
	if (keeps)
		(void)caller_override(&m->caller);
	int rc = make_node(m, dirfd, backing);
	if (rc == -EACCES && caller_override(&m->caller))
		rc = make_node(m, dirfd, backing);
	caller_leave(&m->caller);
	return rc;
}

static int check_absent(struct making *m, int dirfd)
{
	struct finder finder = fs_finder(m->fs);
	struct entry e;

	m->unchecked = false;
	int rc = entry_find(&finder, dirfd, m->name, &e);
	if (rc >= 0)
		close(e.fd);
	return rc >= 0 ? -EEXIST : rc == -ENOENT ? 0 : rc;
}

/*
 * A frame's first name may be taken by a file that is shown under that name: then tries the next
 * suffix.
 */
static int make_frame(struct making *m, int dirfd, char backing[static NAME_MAX + 1])
{
	const char *suffix;
	int rc = -EEXIST;

	for (unsigned i = 0; rc == -EEXIST && (suffix = names_frame_suffix(i)); i++) {
		TRY(names_for(NODE_FRAME, m->mode, suffix, m->name, backing));
		rc = make_as_caller(m, dirfd, backing);
		if (rc == -EEXIST && m->unchecked)
			TRY(check_absent(m, dirfd));
	}
	return rc;
}

static int make_other(struct making *m, int dirfd, char backing[static NAME_MAX + 1])
{
	TRY(names_for(NODE_PLAIN, m->mode, "", m->name, backing));
	return make_as_caller(m, dirfd, backing);
}

/* What was just made need neither be looked up nor probed. */
static int enter_new(struct making *m, int dirfd, const char *backing, struct fuse_entry_param *out)
{
	struct entry e = {.made = true,
			  .probed = {.kind = S_ISREG(m->mode) ? NODE_FRAME : NODE_PLAIN,
				     .blocksize = m->fs->opt.settings.pipeline.blocksize}};

	e.fd = -1;
	if (m->born.fd >= 0) /* this descriptor becomes the inode's when it is opened */
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
	return (struct making){.req = req, .fs = fs, .parent = ops_inode(fs, parent), .name = name,
			       .caller = ops_caller(req), .mode = mode};
}

void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct making m = making_of(req, parent, name, S_IFDIR | (mode & 07777));
	struct fuse_entry_param e;
	ops_reply_entry(req, make(&m, &e), &e);
}

void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	struct making m = making_of(req, parent, name, S_IFLNK | 0777);
	struct fuse_entry_param e;
	m.target = target;
	ops_reply_entry(req, make(&m, &e), &e);
}

void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	struct making m = making_of(req, parent, name, mode & S_IFMT ? mode : mode | S_IFREG);
	struct fuse_entry_param e;

	m.rdev = rdev;
	int rc = make(&m, &e);
	if (rc >= 0)
		newborn_drop(&m.born);
	ops_reply_entry(req, rc, &e);
}

/*
 * What to answer, without O_EXCL, if the name is taken although the kernel's lookup had failed. The
 * kernel takes what we open here for new: it does not check whether the caller may open it, nor
 * learn that O_TRUNC has shortened it. -ESTALE: it looks the name up again.
 */
static int judge_taken(struct making *m)
{
	int dirfd = inode_pin(m->fs->inodes, m->parent);
	TRY(dirfd);
	int rc = check_absent(m, dirfd);
	inode_unpin(m->fs->inodes, m->parent);
	if (rc == -EEXIST)
		return -ESTALE;
	return rc < 0 ? rc : -EEXIST; /* the name is taken by something shown under another one */
}

static int make_and_open(struct making *m, struct fuse_entry_param *e, struct fuse_file_info *fi)
{
	TRY(inodes_room_for_file(m->fs->inodes));
	TRY(make(m, e));
	struct inode *n = ops_inode(m->fs, e->ino);
	/*
	 * -ESTALE: a push, so others have already filled the new file. It will be over in a moment.
	 */
	while (push_enter(m->fs, n, NULL) == -ESTALE)
		clock_sleep(CLOCK_NAP);
	int rc = ops_open_handle(m->fs, n, &m->born, fi, OPENER_UNKNOWN);
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
		rc = judge_taken(&m);
	reply_create(req, rc, &e, fi);
}

#ifdef HAVE_TMPFILE
/* A frame without a name. op_link may give it one; else it goes away with its last user. */
void op_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode, struct fuse_file_info *fi)
{
	struct making m = making_of(req, parent, "", S_IFREG | (mode & 07777));
	struct fuse_entry_param e;

	int rc = make_and_open(&m, &e, fi);
	reply_create(req, rc, &e, fi);
}
#endif
