/*
 * The FUSE callbacks. Each does the same: check, call a lower part, unlock, reply once. What they
 * share is here; the callbacks are grouped by subject, one file per group, and collected in the
 * table of ops.c.
 */
#ifndef FS_OPS_OPS_H
#define FS_OPS_OPS_H

#define FUSE_USE_VERSION 314

#include "fs/backing/caller.h"
#include "fs/file/file.h"

#include <fuse_lowlevel.h>

extern const struct fuse_lowlevel_ops ops_table;

struct dir;
struct newborn;

/* An open file or directory as one application sees it. */
struct handle {
	struct inode *inode;         /* a reference                                       */
	struct file *file;           /* a frame, else NULL                                */
	struct dir *dir;             /* a directory, else NULL                            */
	int fd;                      /* a plain file, else -1                             */
	bool writable;
	bool synchronous;            /* O_SYNC, O_DSYNC, -o sync: changes are synced at once */
	bool opened;                 /* a frame, which is not refused any more            */
	_Atomic uint32_t losses;     /* how many of `file` it has been told of: file_take_loss */
	_Atomic uint32_t refusals;   /* the same of refused writes: file_accept_refused   */
	_Atomic uint32_t closes;     /* how many times a descriptor of it was closed      */
	struct handle *next, **link; /* among those of the inode, under its lock          */
};

static inline struct fs *ops_fs(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/*
 * The inode that the kernel knows by this number, which is its address, and vice versa. While a
 * request names an inode the kernel holds a reference to it, so no further one is taken.
 */
struct inode *ops_inode(struct fs *fs, fuse_ino_t ino);

static inline fuse_ino_t ops_ino(const struct fs *fs, const struct inode *n)
{
	return n == inodes_root(fs->inodes) ? FUSE_ROOT_ID : (fuse_ino_t)(uintptr_t)n;
}

static inline struct handle *ops_handle(const struct fuse_file_info *fi)
{
	return (struct handle *)(uintptr_t)fi->fh;
}

static inline struct caller ops_caller(fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	return (struct caller){.uid = ctx->uid, .gid = ctx->gid, .umask = ctx->umask};
}

/* Converts rc to the errno for the application: damaged or unsupported data becomes EIO. */
int ops_errno(int rc);

/* True: rc is the fault of the backing file, not of the caller. */
bool ops_is_damage(int rc);

/*
 * For the rc of a call that opens something: if a limit on descriptors or on memory is reached,
 * logs which one it is, once a minute.
 */
void ops_tell_limit(int rc);

/* Logs, once, what went wrong with the content of a file: what, where, why. */
void ops_log(struct fs *fs, struct inode *n, const char *what, int rc);

/* The attributes of the backing file, as the mount shows them. */
NODISCARD int ops_attr(struct fs *fs, struct inode *n, struct stat *st);

/*
 * The inode number that the mount shows. Other file systems that are mounted below the backing
 * directory, and subvolumes of btrfs, have numbers of their own, which may be the same.
 */
uint64_t ops_number(const struct fs *fs, const struct stat *st);

/*
 * Call when an attribute or a name of the file behind `fd` was changed. On overlayfs that may have
 * made a copy of the file; if it is not known which name the copy has, the change remains all the
 * same (inode_renumber).
 */
void ops_changed(struct fs *fs, struct inode *n, int fd);

/*
 * Enclose a change of a plain file, by any descriptor: its attributes afterwards are taken as the
 * result of our change. If they differ later, another program has changed it. fd < 0: nothing was
 * changed, or the kernel is to revalidate the file.
 */
void ops_plain_begin(struct inode *n);
void ops_plain_end(struct inode *n, int fd);

/*
 * Makes or finds the inode of the entry, with a new reference, and sets *out to what the kernel is
 * told. Takes e->fd.
 */
NODISCARD int ops_enter(struct fs *fs, struct inode *parent, struct entry *e,
			struct fuse_entry_param *out);

/* The same for the entry with this name in `dirfd`, the directory `parent`. -ENOENT. */
NODISCARD int ops_enter_found(struct fs *fs, struct inode *parent, int dirfd, const char *name,
			      struct fuse_entry_param *out);

/* Replies with an entry, or an error. The kernel has the reference then, or it is dropped. */
void ops_reply_entry(fuse_req_t req, int rc, const struct fuse_entry_param *e);

/*
 * Finds or opens what a handle needs, for open and for create, which passes the frame that it has
 * just made. `by`: who opens a file that is there already.
 */
NODISCARD int ops_open_handle(struct fs *fs, struct inode *n, struct newborn *born,
			      struct fuse_file_info *fi, enum opener by);
void ops_close_handle(struct fs *fs, struct handle *h);
void ops_close_dir(struct fs *fs, struct dir *d);

/* Makes a handle of an inode, with a reference, and puts it into fi->fh; NULL: out of memory. */
struct handle *ops_new_handle(struct fs *fs, struct inode *n, struct fuse_file_info *fi);

/*
 * Privileges that a change removes ("killpriv", ops/privileges.c). The first three are called
 * before the change.
 *
 * WRITE: removes set-id bits, if the flags of the request say so.
 */
NODISCARD int ops_killpriv_write(fuse_req_t req, struct inode *n);

/*
 * SETATTR: the same. chown(-1, -1), of which only a new ctime arrives here, also removes them if
 * the caller owns the file.
 */
NODISCARD int ops_killpriv_setattr(fuse_req_t req, struct inode *n, int to_set);

/*
 * FALLOCATE and COPY_FILE_RANGE, which have no such flag: removes set-id bits, unless the caller
 * has the right to keep them.
 */
NODISCARD int ops_killpriv_change(fuse_req_t req, struct inode *n);

/*
 * OPEN and CREATE with O_TRUNC, after the truncation: removes set-id bits as the flags say, and
 * file capabilities, which the kernel does not remove in this case.
 */
void ops_killpriv_truncated(fuse_req_t req, struct inode *n);

/* True: the caller may keep the setgid bit of a file of that group. */
bool ops_in_group(fuse_req_t req, gid_t gid);

/*
 * Call when the entry has been removed from the directory `parent`, or replaced: tells its inode,
 * if the kernel knows one. Takes e->fd.
 */
void ops_unlinked(struct fs *fs, struct inode *parent, struct entry *e);

/* Closes the handles that the kernel has not released, and kept files (file/kept.h). */
void ops_close_all(struct fs *fs);

/* O_TMPFILE, which libfuse passes on from 3.17 on. */
#ifdef HAVE_TMPFILE
#define OPS_TMPFILE(OP)                                                                            \
	OP(tmpfile,                                                                                \
	   (fuse_req_t req, fuse_ino_t parent, mode_t mode, struct fuse_file_info *fi),            \
	   (req, parent, mode, fi), OTHER)
#else
#define OPS_TMPFILE(OP)
#endif

/*
 * All callbacks: name, parameters, the same as arguments, and the timer in stats.h. From this come
 * the declarations, the table, the counters, and the names that `cframe stat` shows.
 */
#define OPS_EACH(OP)                                                                               \
	OP(lookup, (fuse_req_t req, fuse_ino_t parent, const char *name), (req, parent, name),     \
	   OTHER)                                                                                  \
	OP(forget, (fuse_req_t req, fuse_ino_t ino, uint64_t nlookup), (req, ino, nlookup), OTHER) \
	OP(forget_multi, (fuse_req_t req, size_t count, struct fuse_forget_data *forgets),         \
	   (req, count, forgets), OTHER)                                                           \
	OP(getattr, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi), (req, ino, fi),   \
	   OTHER)                                                                                  \
	OP(setattr,                                                                                \
	   (fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,                         \
	    struct fuse_file_info *fi),                                                            \
	   (req, ino, attr, to_set, fi), OTHER)                                                    \
	OP(readlink, (fuse_req_t req, fuse_ino_t ino), (req, ino), OTHER)                          \
	OP(mknod, (fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev),  \
	   (req, parent, name, mode, rdev), OTHER)                                                 \
	OP(mkdir, (fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode),              \
	   (req, parent, name, mode), OTHER)                                                       \
	OP(symlink, (fuse_req_t req, const char *target, fuse_ino_t parent, const char *name),     \
	   (req, target, parent, name), OTHER)                                                     \
	OP(unlink, (fuse_req_t req, fuse_ino_t parent, const char *name), (req, parent, name),     \
	   OTHER)                                                                                  \
	OP(rmdir, (fuse_req_t req, fuse_ino_t parent, const char *name), (req, parent, name),      \
	   OTHER)                                                                                  \
	OP(rename,                                                                                 \
	   (fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,             \
	    const char *newname, unsigned flags),                                                  \
	   (req, parent, name, newparent, newname, flags), OTHER)                                  \
	OP(link, (fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent, const char *newname),      \
	   (req, ino, newparent, newname), OTHER)                                                  \
	OP(open, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi), (req, ino, fi),      \
	   OTHER)                                                                                  \
	OP(create,                                                                                 \
	   (fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,                      \
	    struct fuse_file_info *fi),                                                            \
	   (req, parent, name, mode, fi), OTHER)                                                   \
	OPS_TMPFILE(OP)                                                                            \
	OP(read,                                                                                   \
	   (fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi),    \
	   (req, ino, size, off, fi), READ)                                                        \
	OP(write,                                                                                  \
	   (fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,               \
	    struct fuse_file_info *fi),                                                            \
	   (req, ino, buf, size, off, fi), WRITE)                                                  \
	OP(flush, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi), (req, ino, fi),     \
	   SYNC)                                                                                   \
	OP(release, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi), (req, ino, fi),   \
	   OTHER)                                                                                  \
	OP(fsync, (fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi),       \
	   (req, ino, datasync, fi), SYNC)                                                         \
	OP(fallocate,                                                                              \
	   (fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len,                        \
	    struct fuse_file_info *fi),                                                            \
	   (req, ino, mode, off, len, fi), OTHER)                                                  \
	OP(lseek,                                                                                  \
	   (fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi),     \
	   (req, ino, off, whence, fi), OTHER)                                                     \
	OP(copy_file_range,                                                                        \
	   (fuse_req_t req, fuse_ino_t ino_in, off_t off_in, struct fuse_file_info *fi_in,         \
	    fuse_ino_t ino_out, off_t off_out, struct fuse_file_info *fi_out, size_t len,          \
	    int flags),                                                                            \
	   (req, ino_in, off_in, fi_in, ino_out, off_out, fi_out, len, flags), OTHER)              \
	OP(opendir, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi), (req, ino, fi),   \
	   OTHER)                                                                                  \
	OP(readdir,                                                                                \
	   (fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi),    \
	   (req, ino, size, off, fi), OTHER)                                                       \
	OP(readdirplus,                                                                            \
	   (fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi),    \
	   (req, ino, size, off, fi), OTHER)                                                       \
	OP(releasedir, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi),                \
	   (req, ino, fi), OTHER)                                                                  \
	OP(fsyncdir, (fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi),    \
	   (req, ino, datasync, fi), SYNC)                                                         \
	OP(statfs, (fuse_req_t req, fuse_ino_t ino), (req, ino), OTHER)                            \
	OP(setxattr,                                                                               \
	   (fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,      \
	    int flags),                                                                            \
	   (req, ino, name, value, size, flags), OTHER)                                            \
	OP(getxattr, (fuse_req_t req, fuse_ino_t ino, const char *name, size_t size),              \
	   (req, ino, name, size), OTHER)                                                          \
	OP(listxattr, (fuse_req_t req, fuse_ino_t ino, size_t size), (req, ino, size), OTHER)      \
	OP(removexattr, (fuse_req_t req, fuse_ino_t ino, const char *name), (req, ino, name), OTHER)

#define OPS_DECLARE(name, params, args, timer) void op_##name params;
OPS_EACH(OPS_DECLARE)
#undef OPS_DECLARE

#define OPS_NUMBER(name, params, args, timer) OPS_KIND_##name,
enum ops_kind { OPS_EACH(OPS_NUMBER) OPS_KINDS };
#undef OPS_NUMBER

#endif
