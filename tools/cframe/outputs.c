#include "outputs.h"
#include "say.h"
#include "workbench.h"

#include "base/container.h"
#include "base/pool.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/*
 * This many outputs are worth a sync of the whole file system, which may have other data to write.
 */
#define SYNC_ALL 4

struct outputs {
	struct walk *walk;
	struct outputs_how how;
	struct pool *namer; /* the thread that gives names */
	struct pool_job name_job;
	pthread_mutex_t lock; /* for what follows             */
	pthread_cond_t left;  /* one is no longer in `busy`   */
	struct output **busy; /* begun, and not ended         */
	unsigned files;
	struct output *ready; /* whole, and waiting for names */
	bool naming;          /* `name_job` is on its way     */
	struct outputs_totals totals;
};

void output_free(struct output *o)
{
	extras_free(&o->item.extras);
	mem_free((void *)o->item.from);
	mem_free((void *)o->item.to);
	mem_free((void *)o->item.name);
	mem_free(o);
}

struct output *output_new(const struct item *i)
{
	struct output *o = mem_zalloc(sizeof *o);

	if (!o)
		return NULL;
	o->item = *i;
	o->item.from = mem_strdup(i->from);
	o->item.to = mem_strdup(i->to);
	o->item.name = mem_strdup(i->name);
	if (o->item.from && o->item.to && o->item.name)
		return o;
	output_free(o);
	return NULL;
}

int outputs_open(struct outputs **out, struct walk *walk, struct outputs_how how)
{
	struct outputs *p = mem_zalloc(sizeof *p);
	*out = p;
	if (!p)
		return -ENOMEM;
	p->walk = walk;
	p->how = how;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->left, NULL);
	p->busy = mem_zalloc_array(FILES_MAX, sizeof(struct output *));
	if (!p->busy)
		return -ENOMEM;
	int rc = pool_open(&p->namer, 1);
	return rc == -EAGAIN ? pool_open(&p->namer, 0) : rc;
}

void outputs_close(struct outputs *p)
{
	if (!p)
		return;
	pool_close(p->namer);
	mem_free(p->busy);
	pthread_cond_destroy(&p->left);
	pthread_mutex_destroy(&p->lock);
	mem_free(p);
}

void outputs_wait(struct outputs *p)
{
	pthread_mutex_lock(&p->lock);
	while (p->files)
		pthread_cond_wait(&p->left, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

static bool has_linked(const struct outputs *p, const struct stat *st)
{
	for (unsigned i = 0; i < p->files; i++)
		if (p->busy[i]->item.st.st_ino == st->st_ino &&
		    p->busy[i]->item.st.st_dev == st->st_dev)
			return true;
	return false;
}

void outputs_wait_linked(struct outputs *p, const struct stat *st)
{
	pthread_mutex_lock(&p->lock);
	while (has_linked(p, st))
		pthread_cond_wait(&p->left, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

static bool has_path(const struct outputs *p, const char *to, const char *suffix)
{
	size_t n = strlen(to);
	for (unsigned i = 0; i < p->files; i++)
		if (strncmp(p->busy[i]->item.to, to, n) == 0 &&
		    strcmp(p->busy[i]->item.to + n, suffix) == 0)
			return true;
	return false;
}

void outputs_wait_path(struct outputs *p, const char *to, const char *suffix)
{
	pthread_mutex_lock(&p->lock);
	while (has_path(p, to, suffix))
		pthread_cond_wait(&p->left, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

struct outputs_totals outputs_totals(struct outputs *p)
{
	pthread_mutex_lock(&p->lock);
	struct outputs_totals t = p->totals;
	pthread_mutex_unlock(&p->lock);
	return t;
}

void outputs_wait_room(struct outputs *p)
{
	unsigned most = workbench_files(p->walk->depth + 1);

	pthread_mutex_lock(&p->lock);
	while (p->files >= most)
		pthread_cond_wait(&p->left, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

void outputs_begin(struct outputs *p, struct output *o)
{
	folder_get(p->walk, o->item.folder);
	pthread_mutex_lock(&p->lock);
	assert(p->files < FILES_MAX);
	o->slot = p->files;
	p->busy[p->files++] = o;
	pthread_mutex_unlock(&p->lock);
}

static void count(struct outputs *p, const struct output *o)
{
	pthread_mutex_lock(&p->lock);
	p->totals.files++;
	p->totals.bytes += (uint64_t)o->item.st.st_size;
	p->totals.stored += o->stored;
	pthread_mutex_unlock(&p->lock);
}

static void tell(const struct outputs *p, const struct output *o)
{
	if (!p->how.tell)
		return;
	flockfile(stdout); /* one line, whatever other threads print */
	p->how.tell(o);
	funlockfile(stdout);
}

/* The output is no longer in progress, and others need not wait for it. Takes it. */
static void leave_take(struct outputs *p, struct output *o)
{
	folder_put(p->walk, o->item.folder);
	pthread_mutex_lock(&p->lock);
	struct output *moved = p->busy[--p->files];
	p->busy[o->slot] = moved;
	moved->slot = o->slot;
	pthread_cond_signal(&p->left);
	pthread_mutex_unlock(&p->lock);
	output_free(o);
}

static void drop_take(struct outputs *p, struct output *o)
{
	draft_drop(&o->item.draft);
	leave_take(p, o);
}

static void give_name_take(struct outputs *p, struct output *o)
{
	if (item_finish(p->walk, &o->item)) {
		count(p, o);
		tell(p, o);
	}
	leave_take(p, o);
}

static struct output *take_ready(struct outputs *p)
{
	pthread_mutex_lock(&p->lock);
	struct output *all = p->ready;
	p->ready = NULL;
	p->naming = all != NULL;
	pthread_mutex_unlock(&p->lock);
	return all;
}

static bool is_worth_sync_all(const struct output *o)
{
	unsigned n = 0;
	for (; o && n < SYNC_ALL; o = o->next)
		n++;
	return n == SYNC_ALL;
}

static bool sync_all(const struct walk *w)
{
	return !w->is_remote && syncfs(w->target.root) == 0;
}

/*
 * After a sync of the whole file system, checking this file for errors is enough: before Linux 5.8
 * syncfs does not report them, and each fsync would wait for the disk once more.
 */
static int sync_draft(int fd, bool all_synced)
{
	if (all_synced && sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE) == 0)
		return 0;
	if (all_synced && (errno == EIO || errno == ENOSPC || errno == EDQUOT))
		return -errno;
	return fsync(fd) < 0 ? -errno : 0;
}

static void sync_and_name_take(struct outputs *p, struct output *o, bool all_synced)
{
	int rc = sync_draft(o->item.draft.fd, all_synced && !o->elsewhere);
	if (rc >= 0) {
		give_name_take(p, o);
		return;
	}
	item_say_target(p->walk, &o->item, rc);
	drop_take(p, o);
}

static void give_names(struct pool_job *job)
{
	struct outputs *p = CONTAINER_OF(job, struct outputs, name_job);
	struct output *o, *next;

	while ((o = take_ready(p))) {
		bool all_synced = is_worth_sync_all(o) && sync_all(p->walk);
		for (; o; o = next) {
			next = o->next;
			sync_and_name_take(p, o, all_synced);
		}
	}
}

/* Hands it to the thread that gives names. */
static void hand_over(struct outputs *p, struct output *o)
{
	pthread_mutex_lock(&p->lock);
	o->next = p->ready;
	p->ready = o;
	bool wake = !p->naming;
	p->naming = true;
	pthread_mutex_unlock(&p->lock);
	if (!wake)
		return;
	p->name_job.run = give_names;
	pool_submit(p->namer, &p->name_job, POOL_SOON);
}

static void say_failed(struct outputs *p, const struct output *o, int rc)
{
	if (rc == -ESTALE)
		tool_say("%s: %s", o->item.from, p->how.stale);
	else
		item_say_rc(p->walk, &o->item, rc);
	p->walk->failed = true;
}

void outputs_end_take(struct outputs *p, struct output *o, int rc)
{
	struct stat st;

	if (rc >= 0 && fstat(o->item.draft.fd, &st) < 0)
		rc = -errno;
	if (rc < 0) {
		say_failed(p, o, rc);
		drop_take(p, o); /* at once: others may wait for its space */
		return;
	}
	o->stored = (uint64_t)st.st_size;
	o->elsewhere = !walk_sync_reaches(p->walk, st.st_dev);
	hand_over(p, o);
}
