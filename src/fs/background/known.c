#include "fs/background/known.h"

#include "fs/backing/backing.h"

/* How many files are remembered; above that all are forgotten. */
#define MOST 65536

struct known_file {
	uint64_t ino;
	struct timespec mtime;
	UT_hash_handle hh;
};

static struct known_file *find(const struct known *k, const struct stat *st)
{
	uint64_t ino = st->st_ino;
	struct known_file *f;

	HASH_FIND(hh, k->files, &ino, sizeof ino, f);
	return f;
}

static struct known_file *add(struct known *k, const struct stat *st)
{
	struct known_file *f = mem_zalloc(sizeof *f);

	if (!f)
		return NULL;
	f->ino = st->st_ino;
	HASH_ADD(hh, k->files, ino, sizeof f->ino, f);
	if (f->hh.tbl)
		return f;
	mem_free(f);
	return NULL;
}

void known_clear(struct known *k)
{
	struct known_file *f, *next;

	HASH_ITER(hh, k->files, f, next) {
		HASH_DEL(k->files, f);
		mem_free(f);
	}
}

void known_note(struct known *k, const struct stat *st)
{
	struct known_file *f = find(k, st);

	if (!f && HASH_COUNT(k->files) >= MOST)
		known_clear(k);
	if (!f)
		f = add(k, st);
	if (f)
		f->mtime = st->st_mtim;
}

bool known_has(const struct known *k, const struct stat *st)
{
	const struct known_file *f = find(k, st);
	return f && same_time(f->mtime, st->st_mtim);
}
