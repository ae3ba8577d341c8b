#include "listing.h"

#include "base/fd.h"
#include "frame/durable.h"
#include "frame/view_npy.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int path_join(struct buf *path, const char *directory, const char *name)
{
	const char *slash = directory[strlen(directory) - 1] == '/' ? "" : "/";
	path->n = 0;
	return buf_print(path, "%s%s%s%c", directory, slash, name, 0);
}

enum suffix path_suffix(const char *path)
{
	size_t stem;
	const char *slash = strrchr(path, '/');
	return suffix_of(slash ? slash + 1 : path, &stem);
}

bool path_is_named_as_frame(const char *path)
{
	enum suffix suffix = path_suffix(path);
	return suffix == SUFFIX_FRAME || suffix == SUFFIX_ARRAY;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static int add(struct listing *l, const char *name)
{
	if (names_is_dots(name))
		return 0;
	if (!(l->n & (l->n - 1))) { /* the size is a power of two: full */
		size_t room = l->n ? 2 * l->n : 1;
		void *more = mem_realloc(l->entry, room * sizeof *l->entry);
		if (!more)
			return -ENOMEM;
		l->entry = more;
	}
	l->entry[l->n] = (struct entry){.name = mem_strdup(name)};
	if (!l->entry[l->n].name)
		return -ENOMEM;
	l->n++;
	return 0;
}

int listing_read(struct listing *l, int fd)
{
	struct dirent *d;
	DIR *dir = fd_opendir(fd, ".");
	int rc = 0;

	*l = (struct listing){.fd = fd};
	if (!dir)
		return -errno;
	durable_load_below(fd); /* before a frame in it is opened */
	while (rc == 0 && (errno = 0, d = readdir(dir)))
		rc = add(l, d->d_name);
	if (rc == 0)
		rc = -errno;
	closedir(dir);
	if (l->n)
		qsort(l->entry, l->n, sizeof *l->entry, by_name);
	return rc;
}

void listing_free(struct listing *l)
{
	for (size_t i = 0; i < l->n; i++)
		mem_free(l->entry[i].name);
	mem_free(l->entry);
	*l = (struct listing){0};
}

struct entry *listing_find(struct listing *l, const char *name)
{
	struct entry key = {.name = (char *)name};
	if (!l->n)
		return NULL;
	return bsearch(&key, l->entry, l->n, sizeof *l->entry, by_name);
}

/* What the content of a frame says. */
struct probed {
	uint64_t size;   /* in a mount           */
	uint64_t stored; /* of a sparse one only */
};

static int probe(int fd, enum node_kind kind, struct probed *out)
{
	struct frame_info info = {0};
	struct io *io;
	uint32_t blocksize;
	int rc;

	*out = (struct probed){0};
	if (kind == NODE_SPARSE) {
		rc = frame_probe_sparse(fd, &info);
		out->stored = frame_info_stored(&info);
	} else {
		TRY(io_file_open(&io, fd));
		if (kind == NODE_ARRAY)
			return npy_probe_take(io, &out->size, &blocksize);
		rc = frame_probe(io, &info);
		io_close(io);
	}
	out->size = info.nbytes;
	return rc;
}

void listing_stat(struct listing *l, struct entry *e)
{
	e->looked = true;
	if (strlen(e->name) > NAME_MAX) /* names on FAT and NTFS have 255 characters, not bytes */
		e->rc = -ENAMETOOLONG;
	else if (fstatat(l->fd, e->name, &e->st, AT_SYMLINK_NOFOLLOW) < 0)
		e->rc = -errno;
}

/*
 * A directory that is not a sparse frame, or is shown under its own name, has its own attributes.
 */
static void take_plain(struct listing *l, struct entry *e)
{
	if (e->kind == NODE_SPARSE)
		listing_stat(l, e);
	e->kind = NODE_PLAIN;
}

/* True: the error says nothing about the content of the file. */
static bool is_untold(int rc)
{
	return rc == -EIO || rc == -EINTR || rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE ||
	       rc == -EACCES;
}

/* Sets e->kind, and e->rc if the content could not be read. */
static void look(struct listing *l, struct entry *e)
{
	if (e->looked)
		return;
	listing_stat(l, e);
	if (e->rc < 0)
		return;
	e->kind = names_may_be(e->name, e->st.st_mode);
	if (e->kind == NODE_PLAIN)
		return;
	if (e->kind == NODE_FRAME && e->st.st_size == 0)
		return; /* its name reached the disk before a power cut, but not its content */
	struct probed probed;
	int fd = openat(l->fd, e->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && e->kind == NODE_SPARSE)
		frame_stat_sparse(fd, &e->st);
	int rc = fd < 0 ? -errno : probe(fd, e->kind, &probed);
	if (fd >= 0)
		close(fd);
	if (rc < 0 && (fd < 0 || is_untold(rc))) {
		e->rc = rc;
	} else if (rc < 0) {
		err_clear(); /* not a failure, nor the reason for a later one */
		take_plain(l, e);
	}
}

static struct entry *find_owner(struct listing *l, const char *shown);

/* True: the entry has the name that it claims. */
static bool owns_claim(struct listing *l, struct entry *e, char claim[static NAME_MAX + 1])
{
	return names_claim(e->kind, e->name, claim) && find_owner(l, claim) == e;
}

/* The entry that a mount shows as `shown`, or NULL. */
static struct entry *find_owner(struct listing *l, const char *shown)
{
	char name[NAME_MAX + 1], claim[NAME_MAX + 1];
	struct entry *e = listing_find(l, shown);

	if (e) {
		look(l, e);
		if (!names_hides(e->name, e->st.st_mode) && !owns_claim(l, e, claim))
			return e;
	}
	for (unsigned i = 0; names_claimant(shown, i, name); i++) {
		e = *name ? listing_find(l, name) : NULL;
		if (!e)
			continue;
		look(l, e);
		if (names_claim(e->kind, e->name, claim))
			return e;
	}
	return NULL;
}

static struct entry *find_shown(struct listing *l, const char *name)
{
	struct entry *e = listing_find(l, name);
	return e ? e : find_owner(l, name);
}

typedef struct entry *find_fn(struct listing *l, const char *name);

static int look_up(struct last_listing *t, int fd, const char *name, find_fn *find,
		   struct entry **e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	bool same = t->l.n && st.st_dev == t->of.st_dev && st.st_ino == t->of.st_ino;
	t->l.fd = fd;
	*e = same ? find(&t->l, name) : NULL;
	if (*e) { /* it may have been looked at some time ago */
		(*e)->looked = false;
		(*e)->rc = 0;
		return 0;
	}
	listing_free(&t->l);
	t->of = st;
	int rc = listing_read(&t->l, fd);
	*e = rc < 0 ? NULL : find(&t->l, name);
	if (rc < 0)
		listing_free(&t->l);
	return rc < 0 ? rc : *e ? 0 : -ENOENT;
}

int last_listing_find(struct last_listing *t, int fd, const char *name, struct entry **e)
{
	return look_up(t, fd, name, listing_find, e);
}

int last_listing_find_shown(struct last_listing *t, int fd, const char *name, struct entry **e)
{
	return look_up(t, fd, name, find_shown, e);
}

bool listing_show(struct listing *l, struct entry *e, char shown[static NAME_MAX + 1])
{
	look(l, e);
	if (names_hides(e->name, e->st.st_mode))
		return false;
	if (owns_claim(l, e, shown))
		return true;
	if (e->rc == 0)
		take_plain(l, e);
	snprintf(shown, NAME_MAX + 1, "%s", e->name); /* if that is truncated, e->rc says so */
	return true;
}

bool listing_show_claim(struct listing *l, struct entry *e, char shown[static NAME_MAX + 1])
{
	look(l, e);
	return names_claim(e->kind, e->name, shown) || listing_show(l, e, shown);
}

int listing_size(struct listing *l, const struct entry *e, uint64_t *size, uint64_t *stored)
{
	struct probed probed;

	*size = *stored = (uint64_t)e->st.st_size;
	if (e->kind == NODE_PLAIN || (e->kind == NODE_FRAME && *size == 0))
		return 0;
	int fd = openat(l->fd, e->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int rc = probe(fd, e->kind, &probed);
	close(fd);
	*size = probed.size;
	if (e->kind == NODE_SPARSE)
		*stored = probed.stored;
	return rc;
}
