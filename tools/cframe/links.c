#include "links.h"

#include "base/buf.h"
#include "base/hash.h"

/* A file with several names, and the first that was made. */
struct link {
	struct link_key {
		dev_t dev;
		ino_t ino;
		enum node_kind kind;
	} key;
	char *path;
	dev_t dev; /* of what was made */
	ino_t ino;
	UT_hash_handle hh, by_path;
};

static struct link_key key_of(const struct stat *st, enum node_kind kind)
{
	struct link_key key;
	memset(&key, 0, sizeof key); /* padding, too */
	key.dev = st->st_dev;
	key.ino = st->st_ino;
	key.kind = kind;
	return key;
}

static struct link *find(const struct links *t, const struct stat *st, enum node_kind kind)
{
	struct link_key key = key_of(st, kind);
	struct link *l;
	HASH_FIND(hh, t->by_file, &key, sizeof key, l);
	return l;
}

const char *links_find(const struct links *t, const struct stat *st, enum node_kind kind)
{
	struct link *l = find(t, st, kind);
	return l ? l->path : NULL;
}

static void link_free(struct link *l)
{
	if (l)
		mem_free(l->path);
	mem_free(l);
}

bool links_add(struct links *t, const struct stat *st, enum node_kind kind, const char *path,
	       const struct stat *made)
{
	struct link *l = find(t, st, kind);

	if (l)
		return l->dev == made->st_dev && l->ino == made->st_ino;
	l = mem_zalloc(sizeof *l);
	if (l)
		l->path = mem_strdup(path);
	if (l && l->path) {
		l->key = key_of(st, kind);
		l->dev = made->st_dev;
		l->ino = made->st_ino;
		HASH_ADD(hh, t->by_file, key, sizeof l->key, l);
		if (l->hh.tbl)
			HASH_ADD_KEYPTR(by_path, t->by_path, l->path, strlen(l->path), l);
		if (l->by_path.tbl)
			return true;
		if (l->hh.tbl)
			HASH_DELETE(hh, t->by_file, l);
	}
	link_free(l);
	return true;
}

void links_forget(struct links *t, const char *path)
{
	struct link *l;
	HASH_FIND(by_path, t->by_path, path, strlen(path), l);
	if (!l)
		return;
	HASH_DELETE(by_path, t->by_path, l);
	HASH_DELETE(hh, t->by_file, l);
	link_free(l);
}

void links_deinit(struct links *t)
{
	while (t->by_file)
		links_forget(t, t->by_file->path);
}
