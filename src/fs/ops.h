/*
 * The FUSE callbacks. Each does the same: check, call a room below, unlock, reply once.
 * What they share is here; the callbacks are grouped by subject in ops_*.c and
 * gathered in the table of ops.c.
 */
#ifndef FS_OPS_H
#define FS_OPS_H

#define FUSE_USE_VERSION 314

#include "fs/file.h"

#include <fuse_lowlevel.h>

extern const struct fuse_lowlevel_ops ops_table;

struct dir;

/* An open file or directory as one application sees it. */
struct handle {
	struct inode *inode;   /* a reference */
	struct file *file;     /* a frame, else NULL */
	struct dir *dir;       /* a directory, else NULL */
	int fd;                /* a plain file, else -1 */
	bool writable;
	struct handle *next, **link; /* among those of the inode, under its lock */
};

static inline struct fs *ops_fs(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

struct inode *ops_inode(struct fs *fs, fuse_ino_t ino);

static inline fuse_ino_t ops_ino(const struct fs *fs, const struct inode *n)
{
	return n == inodes_root(fs->inodes) ? FUSE_ROOT_ID : (fuse_ino_t)(uintptr_t)n;
}

static inline struct handle *ops_handle(const struct fuse_file_info *fi)
{
	return (struct handle *)(uintptr_t)fi->fh;
}

static inline struct names ops_names(const struct fs *fs)
{
	return (struct names){&fs->backing, fs->probes, fs->inodes};
}

static inline struct caller ops_caller(fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	return (struct caller){.uid = ctx->uid, .gid = ctx->gid, .umask = ctx->umask};
}

/* rc of a call that may meet bad bytes: those are EIO for the application. */
int ops_errno(int rc);

/* Says once what went wrong with the content of a file: what, where, why. */
void ops_log(struct fs *fs, struct inode *n, const char *what, int rc);

/* Attributes as the mount shows them, from those of the backing file. */
NODISCARD int ops_attr(struct fs *fs, struct inode *n, struct stat *st);
void ops_attr_shown(struct fs *fs, struct inode *n, const struct probed *probed, struct stat *st);

/* The entry becomes an inode with a new reference, and *out what the kernel is told. Takes e->fd. */
NODISCARD int ops_enter(struct fs *fs, struct inode *parent, struct entry *e,
			struct fuse_entry_param *out);

/* Finds or opens what a handle needs; used by open and create. fd: a file just made, or -1. */
NODISCARD int ops_open_handle(struct fs *fs, struct inode *n, int fd, struct fuse_file_info *fi);
void ops_close_handle(struct fs *fs, struct handle *h);
void ops_close_dir(struct dir *d);

/* A handle of an inode, with a reference; NULL without memory. It is the kernel's by fi->fh. */
struct handle *ops_new_handle(struct fs *fs, struct inode *n, struct fuse_file_info *fi);

/* Closes what the kernel had no time to release. */
void ops_close_all(struct fs *fs);

#define OPS_DECLARE(name, ...) void name(fuse_req_t req, __VA_ARGS__)

OPS_DECLARE(op_lookup, fuse_ino_t parent, const char *name);
OPS_DECLARE(op_forget, fuse_ino_t ino, uint64_t nlookup);
OPS_DECLARE(op_forget_multi, size_t count, struct fuse_forget_data *forgets);
OPS_DECLARE(op_getattr, fuse_ino_t ino, struct fuse_file_info *fi);
OPS_DECLARE(op_setattr, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi);
OPS_DECLARE(op_readlink, fuse_ino_t ino);
OPS_DECLARE(op_mknod, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
OPS_DECLARE(op_mkdir, fuse_ino_t parent, const char *name, mode_t mode);
OPS_DECLARE(op_symlink, const char *target, fuse_ino_t parent, const char *name);
OPS_DECLARE(op_unlink, fuse_ino_t parent, const char *name);
OPS_DECLARE(op_rmdir, fuse_ino_t parent, const char *name);
OPS_DECLARE(op_rename, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
	    const char *newname, unsigned flags);
OPS_DECLARE(op_link, fuse_ino_t ino, fuse_ino_t newparent, const char *newname);
OPS_DECLARE(op_open, fuse_ino_t ino, struct fuse_file_info *fi);
OPS_DECLARE(op_create, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);
OPS_DECLARE(op_read, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
OPS_DECLARE(op_write, fuse_ino_t ino, const char *buf, size_t size, off_t off,
	    struct fuse_file_info *fi);
OPS_DECLARE(op_flush, fuse_ino_t ino, struct fuse_file_info *fi);
OPS_DECLARE(op_release, fuse_ino_t ino, struct fuse_file_info *fi);
OPS_DECLARE(op_fsync, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
OPS_DECLARE(op_fallocate, fuse_ino_t ino, int mode, off_t off, off_t len,
	    struct fuse_file_info *fi);
OPS_DECLARE(op_lseek, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi);
OPS_DECLARE(op_copy_file_range, fuse_ino_t ino_in, off_t off_in, struct fuse_file_info *fi_in,
	    fuse_ino_t ino_out, off_t off_out, struct fuse_file_info *fi_out, size_t len, int flags);
OPS_DECLARE(op_opendir, fuse_ino_t ino, struct fuse_file_info *fi);
OPS_DECLARE(op_readdir, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
OPS_DECLARE(op_readdirplus, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
OPS_DECLARE(op_releasedir, fuse_ino_t ino, struct fuse_file_info *fi);
OPS_DECLARE(op_fsyncdir, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
OPS_DECLARE(op_statfs, fuse_ino_t ino);
OPS_DECLARE(op_setxattr, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags);
OPS_DECLARE(op_getxattr, fuse_ino_t ino, const char *name, size_t size);
OPS_DECLARE(op_listxattr, fuse_ino_t ino, size_t size);
OPS_DECLARE(op_removexattr, fuse_ino_t ino, const char *name);

#endif
