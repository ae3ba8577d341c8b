/*
 * Rename. The names in the mount and in the backing directory do not change in step: the new
 * backing name depends on what the source is (a frame keeps its suffix), and what is replaced may
 * have another suffix.
 */
#include "fs/backing/hidden.h"
#include "fs/ops/ops.h"
#include "fs/sidecar/name.h"

#include <stdio.h>
#include <unistd.h>

/* One side of a rename. */
struct side {
	struct inode *parent;
	int dirfd;
	const char *shown;
	struct caller *whiteout_owner; /* of that which a move leaves here; NULL: it leaves none */
	bool as_root;                  /* so that it can be given to that user */
	struct entry e; /* e.fd < 0: nothing has that name */
	bool unchecked; /* ... but not all suffixes were checked: target_open */
};

static int side_find(struct fs *fs, struct side *s)
{
	struct finder finder = fs_finder(fs);

	s->unchecked = false;
	int rc = entry_find(&finder, s->dirfd, s->shown, &s->e);
	if (rc < 0)
		s->e.fd = -1;
	return rc == -ENOENT ? 0 : rc;
}

static int side_open(struct fs *fs, struct side *s)
{
	s->e.fd = -1;
	s->dirfd = inode_pin(fs->inodes, s->parent);
	TRY(s->dirfd);
	return side_find(fs, s);
}

/*
 * `absent`: the kernel's lookup of the name failed a moment ago. An entry with exactly this name is
 * looked for all the same, and one with the suffix of new files stops the move of a frame with that
 * suffix (give_name). So only a frame with another suffix, which another program has made since, is
 * overlooked.
 */
static int target_open(struct fs *fs, const struct side *from, struct side *to, bool absent)
{
	struct stat st;

	if (!absent || from->e.probed.kind != NODE_FRAME ||
	    strcmp(names_suffix(from->e.backing), NAMES_NEW_SUFFIX) != 0)
		return side_open(fs, to);
	to->dirfd = inode_pin(fs->inodes, to->parent);
	TRY(to->dirfd);
	to->unchecked = fstatat(to->dirfd, to->shown, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
			errno == ENOENT;
	return to->unchecked ? 0 : side_find(fs, to);
}

static void side_close(struct fs *fs, struct side *s)
{
	if (s->e.fd >= 0)
		close(s->e.fd);
	if (s->dirfd >= 0)
		inode_unpin(fs->inodes, s->parent);
}

/*
 * Tells the inode of `from` that it is `backing` in `to` now. `stays`: it has its old name as well.
 */
static void moved(struct fs *fs, const struct side *from, const struct side *to,
		  const char *backing, bool stays)
{
	struct inode *n = inode_known(fs->inodes, &from->e);
	if (!n)
		return;
	inode_link_add(fs->inodes, n, to->parent, backing);
	if (!stays)
		inode_link_remove(fs->inodes, n, from->parent, from->e.backing);
	ops_changed(fs, n, from->e.fd);
	inode_put(fs->inodes, n, 1);
}

/* The frame that was `from` is `backing` in `to` now. */
static void move_sidecar(const struct side *from, const struct side *to, const char *backing)
{
	if (from->e.probed.kind != NODE_PLAIN)
		sidecar_rename(from->dirfd, from->e.backing, to->dirfd, backing);
}

/* The backing name that the source gets on the other side. */
static int target_name(const struct side *from, const struct side *to,
		       char out[static NAME_MAX + 1])
{
	return names_for(from->e.probed.kind, from->e.st.st_mode, names_suffix(from->e.backing),
			 to->shown, out);
}

/*
 * A caller whose permission comes from a supplementary group, or a capability, is refused at first.
 */
static int move_leaving_mark(const struct side *from, const char *name, const struct side *to,
			     const char *to_name, unsigned flags)
{
	flags |= RENAME_WHITEOUT;
	caller_enter(from->whiteout_owner, from->as_root);
	int rc = renameat2(from->dirfd, name, to->dirfd, to_name, flags) < 0 ? -errno : 0;
	if ((rc == -EACCES || rc == -EPERM) && caller_override(from->whiteout_owner))
		rc = renameat2(from->dirfd, name, to->dirfd, to_name, flags) < 0 ? -errno : 0;
	caller_leave(from->whiteout_owner);
	return rc;
}

/*
 * NFS, SMB and many FUSE file systems support no flags: there we check first whether the name is
 * taken.
 */
static int move_backing(const struct side *from, const char *name, const struct side *to,
			const char *to_name, unsigned flags)
{
	if (from->whiteout_owner)
		return move_leaving_mark(from, name, to, to_name, flags);
	if (renameat2(from->dirfd, name, to->dirfd, to_name, flags) == 0)
		return 0;
	if (errno != EINVAL || flags != RENAME_NOREPLACE)
		return -errno;
	if (faccessat(to->dirfd, to_name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return errno != ENOENT || renameat(from->dirfd, name, to->dirfd, to_name) < 0 ? -errno : 0;
}

/* Two ways to give the source a free name: its old one goes, or it stays. */
static int move_to(const struct side *from, const struct side *to, const char *name)
{
	return move_backing(from, from->e.backing, to, name, RENAME_NOREPLACE);
}

static int link_to(const struct side *from, const struct side *to, const char *name)
{
	return linkat(from->dirfd, from->e.backing, to->dirfd, name, 0) < 0 ? -errno : 0;
}

/*
 * Gives the source its new name in one of these ways, where nothing is shown under that name. If
 * the backing name is taken all the same, by something shown under another name, a frame gets the
 * next suffix.
 */
static int give_name(const struct side *from, const struct side *to,
		     int (*give)(const struct side *, const struct side *, const char *),
		     char out[static NAME_MAX + 1])
{
	const char *suffix;

	TRY(target_name(from, to, out));
	int rc = give(from, to, out);
	if (from->e.probed.kind != NODE_FRAME || to->unchecked)
		return rc;
	for (unsigned i = 0; rc == -EEXIST && (suffix = names_frame_suffix(i)); i++) {
		TRY(names_for(NODE_FRAME, S_IFREG, suffix, to->shown, out));
		rc = give(from, to, out);
	}
	return rc;
}

static int check_types(const struct side *from, const struct side *to)
{
	bool from_dir = S_ISDIR(from->e.st.st_mode) && from->e.probed.kind == NODE_PLAIN;
	bool to_dir = S_ISDIR(to->e.st.st_mode) && to->e.probed.kind == NODE_PLAIN;

	if (to_dir && !from_dir)
		return -EISDIR;
	return from_dir && !to_dir ? -ENOTDIR : 0;
}

/* 0: the entry at the other side may be replaced. */
static int judge_replaced(const struct side *from, const struct side *to, unsigned flags)
{
	if (flags & RENAME_NOREPLACE)
		return -EEXIST;
	TRY(check_types(from, to));
	return to->e.probed.kind == NODE_SPARSE ? -EROFS : 0;
}

static bool is_same_file(const struct side *a, const struct side *b)
{
	return a->e.st.st_dev == b->e.st.st_dev && a->e.st.st_ino == b->e.st.st_ino &&
	       a->e.probed.kind == b->e.probed.kind;
}

/* Replaces the entry of that name. A directory may still contain sidecars, which are hidden. */
static int move_over(const struct side *from, const struct side *to, const char *name)
{
	int rc = move_backing(from, from->e.backing, to, name, 0);

	if ((rc == -ENOTEMPTY || rc == -EEXIST) && hidden_clear(to->dirfd, name) == 0)
		rc = move_backing(from, from->e.backing, to, name, 0);
	return rc;
}

static int remove_backing(const struct side *s)
{
	return unlinkat(s->dirfd, s->e.backing, S_ISDIR(s->e.st.st_mode) ? AT_REMOVEDIR : 0) < 0 ?
		       -errno : 0;
}

/*
 * move_beside by a second link, so that the source has a visible name at any moment: the new one
 * may not be shown while the other entry exists. 1: done, and the old name still exists. 0: not
 * possible here. On FUSE the link may appear as another file than our inode of the source.
 */
static int link_beside(const struct fs *fs, const struct side *from, const struct side *to,
		       char out[static NAME_MAX + 1])
{
	if (!fs->backing.numbers_last || from->whiteout_owner ||
	    give_name(from, to, link_to, out) < 0)
		return 0;
	int rc = remove_backing(to);
	if (rc < 0)
		(void)unlinkat(to->dirfd, out, 0);
	return rc < 0 ? rc : 1;
}

/*
 * Moves the source beside the entry that it replaces, which has another suffix, and then removes
 * that entry. Until then the name shows either the old content or the new. 1: the source still has
 * its old name as well.
 */
static int move_beside(const struct fs *fs, const struct side *from, const struct side *to,
		       char out[static NAME_MAX + 1])
{
	int rc = link_beside(fs, from, to, out);
	if (rc != 0)
		return rc;
	TRY(give_name(from, to, move_to, out));
	rc = remove_backing(to);
	if (rc < 0)
		(void)move_backing(to, out, from, from->e.backing,
				   from->whiteout_owner ? 0 : RENAME_NOREPLACE);
	return rc;
}

/*
 * overlayfs wants a whiteout (device 0:0) where a file of its upper layer was, in the same step.
 * The backing file system leaves it at the backing name; but that of a frame has a suffix, which
 * the whiteout must not have. If we are killed before it is renamed, it hides nothing, and no data
 * is lost.
 */
static int whiteout_name(const struct side *from, char out[static NAME_MAX + 1])
{
	TRY(names_for(NODE_PLAIN, S_IFCHR, "", from->shown, out));
	if (strcmp(out, from->e.backing) == 0)
		return 0;
	/* Something that exists but is not shown belongs to another program. */
	if (faccessat(from->dirfd, out, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return errno == ENOENT ? 0 : -errno;
}

static int whiteout_put(const struct side *from, const char *name)
{
	if (strcmp(name, from->e.backing) == 0)
		return 0;
	return renameat(from->dirfd, from->e.backing, from->dirfd, name) < 0 ? -errno : 0;
}

static bool replaces(const struct side *to)
{
	return to->e.fd >= 0;
}

/*
 * In the backing directory: the source gets its new name, and what it replaces goes. 1: the source
 * still has its old name as well.
 */
static int move(const struct fs *fs, const struct side *from, const struct side *to,
		char out[static NAME_MAX + 1])
{
	TRY(target_name(from, to, out));
	if (!replaces(to))
		return give_name(from, to, move_to, out);
	return strcmp(out, to->e.backing) == 0 ? move_over(from, to, out)
					       : move_beside(fs, from, to, out);
}

/*
 * After that: inodes are told, and lock files go with their frames. `stays`: the source has its old
 * name as well, which could not be removed.
 */
static void follow(struct fs *fs, const struct side *from, struct side *to, const char *name,
		   bool stays)
{
	bool replaced = replaces(to);

	/*
	 * After a failure the name still stands for what was replaced in the kernel's cache. As its
	 * inode is not told, an open of it fails with ESTALE, and the kernel looks the name up
	 * again.
	 */
	if (replaced && !stays)
		ops_unlinked(fs, to->parent, &to->e);
	if (replaced && to->e.probed.kind != NODE_PLAIN && strcmp(name, to->e.backing) != 0)
		sidecar_remove(to->dirfd, to->e.backing);
	if (!stays)
		move_sidecar(from, to, name);
	moved(fs, from, to, name, stays);
}

static int rename_once(struct fs *fs, struct side *from, struct side *to, unsigned flags)
{
	char name[NAME_MAX + 1], white[NAME_MAX + 1];

	if (replaces(to))
		TRY(judge_replaced(from, to, flags));
	if (replaces(to) && is_same_file(from, to))
		return 0; /* as POSIX demands */
	if (from->whiteout_owner)
		TRY(whiteout_name(from, white));
	int rc = move(fs, from, to, name);
	TRY(rc);
	rc = rc > 0 ? remove_backing(from) : 0;
	follow(fs, from, to, name, rc < 0);
	return rc < 0 || !from->whiteout_owner ? rc : whiteout_put(from, white);
}

static int rename_plain(struct fs *fs, struct side *from, struct side *to, unsigned flags)
{
	int rc = rename_once(fs, from, to, flags);

	if (rc != -EEXIST || !to->unchecked)
		return rc;
	TRY(side_find(fs, to)); /* it has been created since */
	return rename_once(fs, from, to, flags);
}

/*
 * Exchanges the two in one step if both backing names can stay as they are; otherwise in two, the
 * first of which can be undone.
 */
static int rename_exchange(struct fs *fs, struct side *a, struct side *b)
{
	char name_a[NAME_MAX + 1], name_b[NAME_MAX + 1]; /* the new ones */

	if (b->e.fd < 0)
		return -ENOENT;
	if (b->e.probed.kind == NODE_SPARSE)
		return -EROFS;
	TRY(target_name(a, b, name_a));
	TRY(target_name(b, a, name_b));
	if (strcmp(name_a, b->e.backing) == 0 && strcmp(name_b, a->e.backing) == 0) {
		TRY(move_backing(a, a->e.backing, b, b->e.backing, RENAME_EXCHANGE));
		if (a->e.probed.kind != NODE_PLAIN)
			sidecar_exchange(a->dirfd, a->e.backing, b->dirfd, b->e.backing);
	} else {
		TRY(give_name(a, b, move_to, name_a));
		int rc = give_name(b, a, move_to, name_b);
		if (rc < 0) {
			(void)move_backing(b, name_a, a, a->e.backing, RENAME_NOREPLACE);
			return rc;
		}
		move_sidecar(a, b, name_a);
		move_sidecar(b, a, name_b);
	}
	moved(fs, a, b, name_a, false);
	moved(fs, b, a, name_b, false);
	return 0;
}

static int rename_found(struct fs *fs, struct side *from, struct side *to, unsigned flags)
{
	const unsigned known = RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT;

	if (from->e.fd < 0)
		return -ENOENT;
	if (from->e.probed.kind == NODE_SPARSE)
		return -EROFS;
	if (flags & ~known)
		return -EINVAL;
	return flags & RENAME_EXCHANGE ? rename_exchange(fs, from, to)
				       : rename_plain(fs, from, to, flags);
}

void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
	       const char *newname, unsigned flags)
{
	struct fs *fs = ops_fs(req);
	struct caller caller = ops_caller(req);
	struct side from = {.parent = ops_inode(fs, parent), .dirfd = -1, .shown = name,
			    .whiteout_owner = flags & RENAME_WHITEOUT ? &caller : NULL,
			    .as_root = fs->backing.is_root};
	struct side to = {.parent = ops_inode(fs, newparent), .dirfd = -1, .shown = newname};

	from.e.fd = to.e.fd = -1;
	bool absent = absent_take(&fs->absent, to.parent, newname); /* it will exist soon */
	int rc = side_open(fs, &from);
	if (rc >= 0)
		rc = target_open(fs, &from, &to, absent && !(flags & RENAME_EXCHANGE));
	inodes_rename_begin(fs->inodes); /* not earlier: inode_pin waits for these to end */
	if (rc >= 0)
		rc = rename_found(fs, &from, &to, flags);
	inodes_rename_end(fs->inodes);
	side_close(fs, &from);
	side_close(fs, &to);
	fuse_reply_err(req, rc < 0 ? -rc : 0);
}
