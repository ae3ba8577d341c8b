#include "takers.h"

#include "base/hash.h"
#include "base/sum.h"

#include <string.h>

/* There may be millions, so the hash of the path stands for the path. */
struct taker {
	uint64_t path;
	dev_t dev;
	ino_t ino;
	UT_hash_handle hh;
};

static struct taker *find(const struct takers *t, uint64_t path)
{
	struct taker *one;
	HASH_FIND(hh, t->by_path, &path, sizeof path, one);
	return one;
}

static uint64_t hash_of(const char *path)
{
	return sum64(view_of(path, strlen(path)));
}

void takers_put(struct takers *t, const char *path, const struct stat *st)
{
	uint64_t hash = hash_of(path);
	struct taker *one = find(t, hash);

	if (!one) {
		one = mem_zalloc(sizeof *one);
		if (!one)
			return;
		one->path = hash;
		HASH_ADD(hh, t->by_path, path, sizeof one->path, one);
		if (!one->hh.tbl) {
			mem_free(one);
			return;
		}
	}
	one->dev = st->st_dev;
	one->ino = st->st_ino;
}

bool takers_has_other(const struct takers *t, const char *path, const struct stat *st)
{
	const struct taker *one = find(t, hash_of(path));
	return one && (one->dev != st->st_dev || one->ino != st->st_ino);
}

void takers_deinit(struct takers *t)
{
	struct taker *one, *next;

	HASH_ITER(hh, t->by_path, one, next) {
		HASH_DELETE(hh, t->by_path, one);
		mem_free(one);
	}
}
