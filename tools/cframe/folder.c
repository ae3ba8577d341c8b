/* A directory of the target. */
#include "walk_impl.h"

#include <fcntl.h>
#include <unistd.h>

/* True: we may change its mode and times. */
static bool is_mine(const struct stat *st)
{
	return geteuid() == 0 || geteuid() == st->st_uid;
}

int folder_open(int dir, const char *name, bool *made)
{
	*made = mkdirat(dir, name, 0700) == 0;
	if (!*made && errno != EEXIST)
		return -errno;
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOTDIR || errno == ELOOP ? -EEXIST : -errno;
	struct stat st;
	if (fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700 && is_mine(&st))
		(void)fchmod(fd, (st.st_mode & 07777) | 0700);
	return fd;
}

struct folder *folder_new(struct walk *w, int fd, bool made, const struct stat *st)
{
	struct folder *f = mem_zalloc(sizeof *f);
	char *to = mem_strdup((const char *)w->to.p);
	if (!f || !to) {
		close(fd);
		mem_free(to);
		mem_free(f);
		return NULL;
	}
	*f = (struct folder){.fd = fd, .made = made, .users = 1, .st = *st, .to = to};
	return f;
}

void folder_get(struct walk *w, struct folder *f)
{
	pthread_mutex_lock(&w->lock);
	f->users++;
	pthread_mutex_unlock(&w->lock);
}

/*
 * True: the directory has its final attributes. An interrupted run leaves some without, which the
 * next run completes.
 */
static bool is_as_asked(const struct walk *w, const struct folder *f)
{
	struct stat now;

	return !f->made && fstat(f->fd, &now) == 0 &&
	       (!is_mine(&now) ||
		(now.st_mode == f->st.st_mode && now.st_uid == f->st.st_uid &&
		 now.st_gid == f->st.st_gid && is_stamp_of(w, now.st_mtim, f->st.st_mtim) &&
		 extras_are_those_of(&f->extras, f->fd)));
}

static void finish_folder(struct walk *w, struct folder *f)
{
	struct item i = {.from = *f->to ? f->to : w->where, .to = f->to};
	int rc = give_attributes(f->fd, &f->st, &f->extras);

	if (rc < 0)
		item_say_target(w, &i, rc);
	else
		item_say_extras(w, &i, &f->extras);
}

/* Syncs names and attributes on a file system that the final sync of the target does not reach. */
static void sync_elsewhere(struct walk *w, const struct folder *f)
{
	struct item i = {.from = *f->to ? f->to : w->where, .to = f->to};
	struct stat st;

	if (fstat(f->fd, &st) < 0 || walk_sync_reaches(w, st.st_dev))
		return;
	if (fsync(f->fd) < 0 && errno != EINVAL) /* EINVAL: directories need no sync there */
		item_say_target(w, &i, -errno);
}

void folder_put(struct walk *w, struct folder *f)
{
	pthread_mutex_lock(&w->lock);
	bool last = !--f->users;
	pthread_mutex_unlock(&w->lock);
	if (!last)
		return;
	if (!f->is_root && !is_as_asked(w, f))
		finish_folder(w, f);
	sync_elsewhere(w, f);
	extras_free(&f->extras);
	close(f->fd);
	mem_free(f->to);
	mem_free(f);
}
