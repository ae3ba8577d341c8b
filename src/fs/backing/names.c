#include "fs/backing/names.h"

#include "base/log.h"
#include "fs/inode/inode.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void entry_drop(struct entry *e)
{
	if (e->fd >= 0)
		close(e->fd);
	e->fd = -1;
}

static int load(const struct names *n, int dirfd, const char *backing, struct entry *e)
{
	size_t stem;
	int reader = -1;

	e->made = e->readable = false;
	if (!names_join(e->backing, backing, strlen(backing), ""))
		return -ENAMETOOLONG;
	e->fd = backing_find(n->backing, dirfd, backing, &e->st, &e->birth);
	TRY(e->fd);
	/* An open frame stays what it was opened as, and its open file knows its size. */
	enum suffix suffix = suffix_of(backing, &stem);
	enum node_kind open =
		suffix == SUFFIX_NONE ? NODE_PLAIN : inodes_open_kind(n->inodes, &e->st);
	if ((open == NODE_FRAME && suffix == SUFFIX_FRAME) ||
	    (open == NODE_ARRAY && suffix == SUFFIX_ARRAY)) {
		e->probed = (struct probed){.kind = open, .open = true};
		return 0;
	}
	struct probe_entry what = {e->fd, dirfd, backing, &e->st, &reader};
	int rc = probe_get(n->probes, n->backing, &what, &e->probed);
	if (rc < 0)
		entry_drop(e);
	if (reader >= 0) { /* whoever opens the file next need not do so again */
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

const char *names_suffix(const char *backing)
{
	size_t stem;
	(void)suffix_of(backing, &stem);
	return backing + stem;
}

/* In less time than load() takes for it: of names that are seldom there it is asked first. */
static bool is_absent(int dirfd, const char *name)
{
	struct stat st;
	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

/* True: the entry got the name that it claims. */
static bool owns_claim(const struct names *n, int dirfd, const struct entry *e)
{
	struct entry owner;
	char claim[NAME_MAX + 1];

	if (!claims(e, claim))
		return false;
	if (strcmp(names_suffix(e->backing), NAMES_NEW_SUFFIX) == 0 && is_absent(dirfd, claim))
		return true; /* only a file that is called just so comes before this suffix */
	if (names_find(n, dirfd, claim, &owner) < 0)
		return false;
	bool mine = strcmp(owner.backing, e->backing) == 0;
	entry_drop(&owner);
	if (!mine && probe_tell_once(n->probes, e->backing, &e->st))
		log_info("%s: shown under its own name: '%s' belongs to '%s'", e->backing, claim,
			 owner.backing);
	return mine;
}

/* Finds an entry that has exactly this name and is not shown as something else. */
static int find_exact(const struct names *n, int dirfd, const char *shown, struct entry *e)
{
	if (is_absent(dirfd, shown))
		return -ENOENT;
	TRY(load(n, dirfd, shown, e));
	if (names_hides(e->backing, e->st.st_mode) ||
	    (e->probed.kind != NODE_PLAIN && owns_claim(n, dirfd, e))) {
		entry_drop(e);
		return -ENOENT;
	}
	e->probed = (struct probed){.kind = NODE_PLAIN};
	return 0;
}

static int find_claimant(const struct names *n, int dirfd, const char *backing, struct entry *e)
{
	char claim[NAME_MAX + 1];

	if (!*backing)
		return -ENOENT;
	if (strcmp(names_suffix(backing), NAMES_NEW_SUFFIX) != 0 && is_absent(dirfd, backing))
		return -ENOENT;
	TRY(load(n, dirfd, backing, e));
	if (claims(e, claim))
		return 0;
	entry_drop(e);
	return -ENOENT;
}

int names_find(const struct names *n, int dirfd, const char *shown, struct entry *e)
{
	char backing[NAME_MAX + 1];

	if (strlen(shown) > NAME_MAX)
		return -ENAMETOOLONG;
	strcpy(e->shown, shown);
	int rc = find_exact(n, dirfd, shown, e);
	for (unsigned i = 0; rc == -ENOENT && names_claimant(shown, i, backing); i++)
		rc = find_claimant(n, dirfd, backing, e);
	return rc;
}

/*
 * A failing disk must not make a name vanish from its directory: shows it as it would be if it
 * could be read.
 */
static void show_unread(const char *backing, struct entry *e)
{
	size_t stem;
	enum suffix suffix = suffix_of(backing, &stem);
	const char *tail = suffix == SUFFIX_ARRAY   ? ".npy"
			   : suffix == SUFFIX_FRAME ? ""
						    : backing + stem;

	if (!names_join(e->shown, backing, stem, tail))
		strcpy(e->shown, backing);
}

int names_show(const struct names *n, int dirfd, const char *backing, struct entry *e)
{
	int rc = load(n, dirfd, backing, e);
	if (rc < 0) {
		show_unread(backing, e);
		return rc;
	}
	if (names_hides(e->backing, e->st.st_mode)) {
		entry_drop(e);
		return -ENOENT;
	}
	if (e->probed.kind != NODE_PLAIN && owns_claim(n, dirfd, e)) {
		(void)claims(e, e->shown);
		return 0;
	}
	e->probed = (struct probed){.kind = NODE_PLAIN};
	strcpy(e->shown, e->backing);
	return 0;
}

int names_for(enum node_kind kind, bool is_regular, const char *suffix, const char *shown,
	      char backing[static NAME_MAX + 1])
{
	size_t len = strlen(shown), stem;

	/* One limit for all kinds: statfs promises it, and a later rename keeps it. */
	if (len > NAMES_MAX)
		return -ENAMETOOLONG;
	switch (kind) {
	case NODE_FRAME:
	case NODE_SPARSE:
		return names_join(backing, shown, len, suffix) ? 0 : -ENAMETOOLONG;
	case NODE_ARRAY:
		if (len < 5 || strcmp(shown + len - 4, ".npy") != 0)
			return -EXDEV;
		return names_join(backing, shown, len - 4, suffix) ? 0 : -ENAMETOOLONG;
	case NODE_PLAIN:
		break;
	}
	if (strcmp(shown, NAMES_INTENT) == 0)
		return -EPERM;
	if (is_regular && (suffix_of(shown, &stem) != SUFFIX_NONE || names_is_draft(shown)))
		return -EXDEV;
	return names_join(backing, shown, len, "") ? 0 : -ENAMETOOLONG;
}
