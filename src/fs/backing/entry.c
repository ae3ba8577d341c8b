#include "fs/backing/entry.h"

#include "base/log.h"
#include "frame/frame.h"
#include "fs/inode/inode.h"

#include <string.h>
#include <unistd.h>

static void entry_drop(struct entry *e)
{
	if (e->fd >= 0)
		close(e->fd);
	e->fd = -1;
}

/*
 * Whether a directory is a sparse frame is only known once it is probed. If it is not, or is shown
 * under its own name, it has the attributes of a directory.
 */
static void take_plain(struct entry *e)
{
	if (names_may_be(e->backing, e->st.st_mode) == NODE_SPARSE)
		IGNORE(stat_fd(e->fd, &e->st)); /* a request for them will tell */
	e->probed = (struct probed){.kind = NODE_PLAIN};
}

static int load(const struct finder *f, int dirfd, const char *backing, struct entry *e)
{
	size_t stem;
	int reader = -1;

	e->made = e->readable = false;
	if (!names_join(e->backing, backing, strlen(backing), ""))
		return -ENAMETOOLONG;
	e->fd = backing_find(f->backing, dirfd, backing, &e->st, &e->birth);
	TRY(e->fd);
	if (names_may_be(backing, e->st.st_mode) == NODE_SPARSE)
		frame_stat_sparse(e->fd, &e->st);
	/* An open frame stays what it was opened as, and its open file knows its size. */
	enum suffix suffix = suffix_of(backing, &stem);
	enum node_kind open =
		suffix == SUFFIX_NONE ? NODE_PLAIN : inodes_open_kind(f->inodes, &e->st);
	if ((open == NODE_FRAME && suffix == SUFFIX_FRAME) ||
	    (open == NODE_ARRAY && suffix == SUFFIX_ARRAY)) {
		e->probed = (struct probed){.kind = open, .in_use = true};
		return 0;
	}
	struct probe_entry what = {e->fd, dirfd, backing, &e->st, &reader,
				   .silent = f->ahead};
	int rc = probe_get(f->probes, f->backing, &what, &e->probed);
	if (rc < 0)
		entry_drop(e);
	else if (e->probed.kind == NODE_PLAIN)
		take_plain(e);
	if (reader >= 0) { /* the next open of the file need not open it again */
		close(e->fd);
		e->fd = reader;
		e->readable = true;
	}
	return rc;
}

static bool claims(const struct entry *e, char out[static NAME_MAX + 1])
{
	return names_claim(e->probed.kind, e->backing, out);
}

/* Faster than load(): call it first for names that rarely exist. */
static bool is_absent(int dirfd, const char *name)
{
	struct stat st;
	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

/* True: there is no entry of that name, or cannot be. No other error proves that. */
static bool is_no_name(int rc)
{
	return rc == -ENOENT || rc == -ENAMETOOLONG || rc == -EINVAL || rc == -EILSEQ;
}

/*
 * 1: the entry is not plain, and gets the name that it claims. 0: it is shown under its own name.
 * An error: not known.
 */
static int owns_claim(const struct finder *f, int dirfd, const struct entry *e)
{
	struct entry owner;
	char claim[NAME_MAX + 1];

	if (!claims(e, claim))
		return 0;
	if (strcmp(names_suffix(e->backing), NAMES_NEW_SUFFIX) == 0 && is_absent(dirfd, claim))
		return 1; /* only a file with exactly that name takes precedence over this suffix */
	int rc = entry_find(f, dirfd, claim, &owner);
	if (rc < 0)
		return is_no_name(rc) ? 0 : rc;
	bool mine = strcmp(owner.backing, e->backing) == 0;
	entry_drop(&owner);
	if (!mine && probe_tell_once(f->probes, e->backing, &e->st))
		log_info("%s: shown under its own name: '%s' belongs to '%s'", e->backing, claim,
			 owner.backing);
	return mine;
}

/* Finds an entry that has exactly this name and is not shown as something else. */
static int find_exact(const struct finder *f, int dirfd, const char *shown, struct entry *e)
{
	if (is_absent(dirfd, shown))
		return -ENOENT;
	TRY(load(f, dirfd, shown, e));
	int owns = names_hides(e->backing, e->st.st_mode) ? 1 : owns_claim(f, dirfd, e);
	if (owns) {
		entry_drop(e);
		return owns < 0 ? owns : -ENOENT;
	}
	take_plain(e);
	return 0;
}

static int find_claimant(const struct finder *f, int dirfd, const char *backing, struct entry *e)
{
	char claim[NAME_MAX + 1];

	if (!*backing)
		return -ENOENT;
	if (strcmp(names_suffix(backing), NAMES_NEW_SUFFIX) != 0 && is_absent(dirfd, backing))
		return -ENOENT;
	TRY(load(f, dirfd, backing, e));
	if (claims(e, claim))
		return 0;
	entry_drop(e);
	return -ENOENT;
}

int entry_find(const struct finder *f, int dirfd, const char *shown, struct entry *e)
{
	char backing[NAME_MAX + 1];

	if (strlen(shown) > NAME_MAX)
		return -ENAMETOOLONG;
	strcpy(e->shown, shown);
	int rc = find_exact(f, dirfd, shown, e);
	for (unsigned i = 0; rc == -ENOENT && names_claimant(shown, i, backing); i++)
		rc = find_claimant(f, dirfd, backing, e);
	return rc;
}

/*
 * A failing disk must not make a name vanish from its directory: shows the entry under the name
 * that it would have if it could be read.
 */
static void show_unread(const char *backing, struct entry *e)
{
	size_t stem;
	enum suffix suffix = suffix_of(backing, &stem);
	const char *tail = suffix == SUFFIX_ARRAY   ? NAMES_ARRAY_SHOWN
			   : suffix == SUFFIX_FRAME ? ""
						    : backing + stem;

	if (!names_join(e->shown, backing, stem, tail) &&
	    !names_join(e->shown, backing, strlen(backing), ""))
		e->shown[0] = 0; /* on FAT and NTFS names have up to 255 characters, not bytes */
}

int entry_show(const struct finder *f, int dirfd, const char *backing, struct entry *e)
{
	int rc = load(f, dirfd, backing, e);
	if (rc < 0) {
		show_unread(backing, e);
		return rc;
	}
	if (names_hides(e->backing, e->st.st_mode)) {
		entry_drop(e);
		return -ENOENT;
	}
	rc = owns_claim(f, dirfd, e);
	if (rc < 0) {
		entry_drop(e);
		show_unread(backing, e);
		return rc;
	}
	if (rc > 0) {
		(void)claims(e, e->shown);
		return 0;
	}
	take_plain(e);
	strcpy(e->shown, e->backing);
	return 0;
}
