#include "pack.h"
#include "progress.h"
#include "say.h"
#include "steady.h"
#include "workbench.h"

#include "base/fd.h"
#include "frame/policy/policy.h"
#include "frame/stage.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * Files on their way, whose chunks wait for workers, or which wait for the disk: one sync is for
 * all that are whole when it begins. Each has two descriptors, and may be the last to need those of
 * its directory.
 */
#define FILES_MAX 512
#define FILE_FDS 4

/* So many are worth a sync of all the file system, which may have other things to write. */
#define SYNC_ALL 4

/* A file on its way. */
struct pack {
	struct packer *p;
	struct pack *next; /* ready */
	uint64_t stored;
	struct item item; /* with paths and name of its own */
	int in;
	struct frame *frame;
	uint32_t chunk_size;
	struct policy policy;
	unsigned slot; /* in packer.busy */
	bool elsewhere; /* on another file system than the target */
	pthread_mutex_t lock; /* for the frame, but for frame_write, and for what follows */
	unsigned users;       /* jobs, and the reader */
	int rc;               /* the first failure    */
};

/* A chunk on its way. */
struct job {
	struct pool_job job;
	struct job *next; /* free */
	struct pack *f;
	uint32_t n;
	uint64_t turn;
	struct buf plain; /* empty: there is nothing but the end of the file */
	bool last;        /* the reader is done with the file */
};

struct packer {
	struct pack_options o;
	struct pool *pool, *namer; /* the workers; the thread that gives names */
	struct pool_job name_job;
	pthread_mutex_t lock; /* for what follows */
	pthread_cond_t freed; /* a job is free, or a file done */
	struct job *job;      /* free ones                     */
	struct pack **busy;   /* files on their way            */
	unsigned files, files_max;
	struct pack *ready;   /* whole, and waiting for names  */
	bool naming;          /* `name_job` is on its way      */
	struct pack_totals totals;
	struct job *jobs;
	unsigned njobs;
	bool has_workbench;
};

static unsigned files_max(void)
{
	struct rlimit lim = {0};
	(void)getrlimit(RLIMIT_NOFILE, &lim);
	return (unsigned)max_u64(1, min_u64(FILES_MAX, lim.rlim_cur / FILE_FDS));
}

int packer_open(struct packer **out, const struct pack_options *o)
{
	struct packer *p = mem_zalloc(sizeof *p);
	*out = p;
	if (!p)
		return -ENOMEM;
	p->o = *o;
	p->njobs = 2 * o->workers;
	p->files_max = files_max();
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->freed, NULL);
	p->jobs = mem_zalloc_array(p->njobs, sizeof *p->jobs);
	p->busy = mem_zalloc_array(p->files_max, sizeof(struct pack *));
	if (!p->jobs || !p->busy)
		return -ENOMEM;
	for (unsigned i = 0; i < p->njobs; i++) {
		p->jobs[i].next = p->job;
		p->job = &p->jobs[i];
	}
	TRY(workbench_init());
	p->has_workbench = true;
	TRY(pool_open(&p->namer, 1));
	return pool_open(&p->pool, o->workers);
}

void packer_close(struct packer *p)
{
	if (!p)
		return;
	pool_close(p->pool);
	pool_close(p->namer);
	if (p->has_workbench)
		workbench_end();
	for (unsigned i = 0; p->jobs && i < p->njobs; i++)
		buf_free(&p->jobs[i].plain);
	mem_free(p->jobs);
	mem_free(p->busy);
	pthread_cond_destroy(&p->freed);
	pthread_mutex_destroy(&p->lock);
	mem_free(p);
}

void packer_wait(struct packer *p)
{
	pthread_mutex_lock(&p->lock);
	while (p->files)
		pthread_cond_wait(&p->freed, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

static bool has_linked(const struct packer *p, const struct stat *st)
{
	for (unsigned i = 0; i < p->files; i++)
		if (p->busy[i]->item.st.st_ino == st->st_ino &&
		    p->busy[i]->item.st.st_dev == st->st_dev)
			return true;
	return false;
}

void packer_wait_linked(struct packer *p, const struct stat *st)
{
	pthread_mutex_lock(&p->lock);
	while (has_linked(p, st))
		pthread_cond_wait(&p->freed, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

static bool has_path(const struct packer *p, const char *to, const char *suffix)
{
	size_t n = strlen(to);
	for (unsigned i = 0; i < p->files; i++)
		if (strncmp(p->busy[i]->item.to, to, n) == 0 &&
		    strcmp(p->busy[i]->item.to + n, suffix) == 0)
			return true;
	return false;
}

void packer_wait_path(struct packer *p, const char *to, const char *suffix)
{
	pthread_mutex_lock(&p->lock);
	while (has_path(p, to, suffix))
		pthread_cond_wait(&p->freed, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

struct pack_totals packer_totals(struct packer *p)
{
	pthread_mutex_lock(&p->lock);
	struct pack_totals t = p->totals;
	pthread_mutex_unlock(&p->lock);
	return t;
}

static struct job *job_get(struct packer *p)
{
	pthread_mutex_lock(&p->lock);
	while (!p->job)
		pthread_cond_wait(&p->freed, &p->lock);
	struct job *j = p->job;
	p->job = j->next;
	pthread_mutex_unlock(&p->lock);
	j->plain.n = 0;
	j->last = false;
	return j;
}

static void job_put(struct packer *p, struct job *j)
{
	pthread_mutex_lock(&p->lock);
	j->next = p->job;
	p->job = j;
	pthread_cond_signal(&p->freed);
	pthread_mutex_unlock(&p->lock);
}

static int store(struct pack *f, uint32_t n, struct view cchunk)
{
	uint32_t len = (uint32_t)cchunk.n;
	uint64_t at;

	pthread_mutex_lock(&f->lock);
	int rc = frame_alloc(f->frame, n, len, &at);
	pthread_mutex_unlock(&f->lock);
	TRY(rc);
	rc = frame_write(f->frame, at, cchunk);
	pthread_mutex_lock(&f->lock);
	if (rc < 0)
		frame_unalloc(f->frame, at, len);
	else
		frame_put(f->frame, n, at, len);
	pthread_mutex_unlock(&f->lock);
	return rc;
}

static int encode(struct job *j, struct workbench *b)
{
	struct pack *f = j->f;
	struct policy_chunk what = {
		.plain = buf_view(&j->plain),
		.turn = j->turn,
		.offset = (uint64_t)j->n * f->chunk_size,
		.file_size = (uint64_t)f->item.st.st_size,
		.chunk_size = f->chunk_size,
	};
	struct pipeline p;

	if (bytes_are_zero(what.plain))
		return 0; /* stays a hole */
	TRY(policy_choose(&f->policy, b->s, &what, &p));
	struct pool *pool = j->last ? f->p->pool : NULL; /* what else is there waits for its end */
	TRY(workbench_encode(b, pool, &p, what.plain));
	TRY(store(f, j->n, buf_view(&b->stored)));
	progress_bytes(what.plain.n, b->stored.n);
	return 0;
}

static int commit(struct pack *f)
{
	struct pipeline p;
	if (policy_first_choice(&f->policy, &p))
		frame_set_pipeline(f->frame, &p);
	return frame_commit(f->frame, COMMIT_SYNC);
}

static void tell(struct pack *f)
{
	struct packer *p = f->p;
	uint64_t bytes = (uint64_t)f->item.st.st_size, stored = f->stored;

	pthread_mutex_lock(&p->lock);
	p->totals.files++;
	p->totals.bytes += bytes;
	p->totals.stored += stored;
	pthread_mutex_unlock(&p->lock);
	if (!p->o.verbose)
		return;
	flockfile(stdout); /* one line, whoever else prints */
	tool_print_path(f->item.from);
	printf(": %" PRIu64 " -> %" PRIu64 " (%.1f %%)\n", bytes, stored,
	       bytes ? 100 * (double)stored / (double)bytes : 100);
	funlockfile(stdout);
}

static void pack_free(struct pack *f)
{
	if (f->in >= 0)
		close(f->in);
	frame_close(f->frame);
	policy_deinit(&f->policy);
	extras_free(&f->item.extras);
	pthread_mutex_destroy(&f->lock);
	mem_free((void *)f->item.from);
	mem_free((void *)f->item.to);
	mem_free((void *)f->item.name);
	mem_free(f);
}

static void say_failed(struct pack *f)
{
	struct walk *w = f->p->o.walk;
	if (f->rc == -ESTALE)
		tool_say("%s: got shorter while it was read; left out", f->item.from);
	else
		item_say_rc(w, &f->item, f->rc);
	w->failed = true;
}

/* It is on the disk. */
static void give_name(struct pack *f)
{
	struct packer *p = f->p;

	if (f->rc < 0) {
		say_failed(f);
		draft_drop(&f->item.draft);
	} else if (item_finish(p->o.walk, &f->item)) {
		tell(f);
		if (f->elsewhere) /* where the sync at the end does not reach */
			(void)fsync(f->item.folder->fd);
	}
	folder_put(p->o.walk, f->item.folder);
	pthread_mutex_lock(&p->lock);
	struct pack *moved = p->busy[--p->files];
	p->busy[f->slot] = moved;
	moved->slot = f->slot;
	pthread_cond_signal(&p->freed);
	pthread_mutex_unlock(&p->lock);
	pack_free(f);
}

static struct pack *take_ready(struct packer *p, unsigned *n)
{
	pthread_mutex_lock(&p->lock);
	struct pack *all = p->ready;
	p->ready = NULL;
	p->naming = all != NULL;
	pthread_mutex_unlock(&p->lock);
	*n = 0;
	for (struct pack *f = all; f; f = f->next)
		++*n;
	return all;
}

/*
 * After a sync of all the file system a look at what failed of this file is enough: before Linux
 * 5.8 syncfs does not tell, and each fsync waits for the disk once more.
 */
static int sync_draft(int fd, bool all_synced)
{
	if (all_synced && sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE) == 0)
		return 0;
	if (all_synced && (errno == EIO || errno == ENOSPC || errno == EDQUOT))
		return -errno;
	return fsync(fd) < 0 ? -errno : 0;
}

static void give_names(struct pool_job *job)
{
	struct packer *p = (struct packer *)((char *)job - offsetof(struct packer, name_job));
	struct pack *f, *next;
	unsigned n;

	while ((f = take_ready(p, &n))) {
		bool all = n >= SYNC_ALL && syncfs(p->o.walk->target.root) == 0;
		for (; f; f = next) {
			next = f->next;
			if (f->rc >= 0)
				f->rc = sync_draft(f->item.draft.fd, all && !f->elsewhere);
			give_name(f);
		}
	}
}

/* What was read is kept, if it is as much as there was in the beginning. */
static int look_for_change(struct pack *f)
{
	struct stat now;
	if (fstat(f->in, &now) < 0)
		return -errno;
	if (now.st_size < f->item.st.st_size)
		return -ESTALE; /* the end may have been taken for a hole */
	if (stat_is_same(&now, &f->item.st))
		return 0;
	tool_say("%s: has changed while it was read", f->item.from);
	f->p->o.walk->failed = true;
	return 0;
}

/* All chunks are there. */
static void finish(struct pack *f)
{
	struct packer *p = f->p;
	struct stat st;

	if (f->rc >= 0)
		f->rc = commit(f);
	if (f->rc >= 0 && fstat(f->item.draft.fd, &st) < 0)
		f->rc = -errno;
	if (f->rc >= 0) {
		f->stored = (uint64_t)st.st_size;
		f->elsewhere = st.st_dev != p->o.walk->root.st_dev;
		f->rc = look_for_change(f);
	}
	frame_close(f->frame);
	f->frame = NULL;
	close(f->in);
	f->in = -1;
	pthread_mutex_lock(&p->lock);
	f->next = p->ready;
	p->ready = f;
	bool wake = !p->naming;
	p->naming = true;
	pthread_mutex_unlock(&p->lock);
	if (!wake)
		return;
	p->name_job.run = give_names;
	pool_submit(p->namer, &p->name_job, POOL_SOON);
}

/* Gives back so many of the file's users. */
static void pack_put(struct pack *f, unsigned users, int rc)
{
	pthread_mutex_lock(&f->lock);
	if (rc < 0 && f->rc >= 0)
		f->rc = rc;
	f->users -= users;
	bool done = !f->users;
	pthread_mutex_unlock(&f->lock);
	if (done)
		finish(f);
}

static bool has_failed(struct pack *f)
{
	pthread_mutex_lock(&f->lock);
	bool failed = f->rc < 0;
	pthread_mutex_unlock(&f->lock);
	return failed;
}

static void run(struct pool_job *job)
{
	struct job *j = (struct job *)job;
	struct pack *f = j->f;
	struct packer *p = f->p;
	unsigned users = 1 + j->last;
	int rc = 0;

	if (j->plain.n) {
		struct workbench *b = workbench_get();
		err_clear();
		if (!has_failed(f))
			rc = b ? encode(j, b) : -ENOMEM;
		policy_pass(&f->policy, j->turn);
	}
	job_put(p, j);
	pack_put(f, users, rc);
	stage_trim();
}

static void submit(struct job *j, bool last)
{
	struct pack *f = j->f;

	j->job.run = run;
	j->last = last;
	if (j->plain.n)
		j->turn = policy_turn(&f->policy);
	pthread_mutex_lock(&f->lock);
	f->users++;
	pthread_mutex_unlock(&f->lock);
	pool_submit(f->p->pool, &j->job, POOL_LATER);
}

/* Where the next data is, from `at` on; `size`: nowhere. File systems may not tell. */
static uint64_t next_data(int in, uint64_t at, uint64_t size)
{
	off_t data = lseek(in, (off_t)at, SEEK_DATA);
	if (data < 0)
		return errno == ENXIO ? size : at;
	return min_u64((uint64_t)data, size);
}

static int read_chunk(struct pack *f, struct job *j)
{
	uint64_t at = (uint64_t)j->n * f->chunk_size, size = (uint64_t)f->item.st.st_size;
	size_t len = (size_t)min_u64(f->chunk_size, size - at);

	TRY(buf_reserve_fresh(&j->plain, len));
	int rc = fd_pread(f->in, at, span_of(j->plain.p, len));
	if (rc < 0)
		return rc == -EBADMSG ? -ESTALE : rc;
	j->plain.n = len;
	return 0;
}

/* Hands all chunks with data to the workers, the last one with the reader's share of the file. */
static void feed(struct pack *f)
{
	uint64_t size = (uint64_t)f->item.st.st_size, at = 0;
	struct job *held = NULL;
	int rc = 0;

	while (rc >= 0 && !has_failed(f) && (at = next_data(f->in, at, size)) < size) {
		if (held)
			submit(held, false);
		held = job_get(f->p);
		held->f = f;
		held->n = (uint32_t)(at / f->chunk_size);
		rc = read_chunk(f, held);
		at = ((uint64_t)held->n + 1) * f->chunk_size;
	}
	if (!held) {
		held = job_get(f->p);
		held->f = f;
	}
	if (rc < 0) {
		held->plain.n = 0;
		pthread_mutex_lock(&f->lock);
		f->rc = f->rc < 0 ? f->rc : rc;
		pthread_mutex_unlock(&f->lock);
	}
	submit(held, true);
}

/* As a mount makes a file: with what its directory and the rules ask for. */
static int make_frame(struct pack *f, const char *shown)
{
	struct item *i = &f->item;
	struct wish w = {0};
	struct io *io;

	TRY(draft_open(&i->draft, i->folder->fd));
	rules_match(f->p->o.settings->rules, shown, &w);
	wish_load(&w, i->folder->fd);
	if (w.own)
		wish_inherit(i->folder->fd, i->draft.fd);
	struct settings s = wish_apply(f->p->o.settings, &w);
	struct pipeline p = policy_for_header(&s);
	int rc = io_file_open_draft(&io, i->draft.fd);
	if (rc >= 0)
		rc = frame_create_take(&f->frame, io, &p, (uint32_t)s.chunksize);
	if (rc >= 0) {
		policy_follow(&f->policy, &s, f->frame);
		f->chunk_size = (uint32_t)s.chunksize;
		rc = frame_resize(f->frame, (uint64_t)i->st.st_size);
	}
	if (rc < 0)
		draft_drop(&i->draft);
	return rc;
}

static struct pack *pack_new(struct packer *p, int in, const struct item *i)
{
	struct pack *f = mem_zalloc(sizeof *f);

	if (!f) {
		close(in);
		return NULL;
	}
	*f = (struct pack){.p = p, .item = *i, .in = in, .users = 1};
	pthread_mutex_init(&f->lock, NULL);
	policy_init(&f->policy);
	f->item.from = mem_strdup(i->from);
	f->item.to = mem_strdup(i->to);
	f->item.name = mem_strdup(i->name);
	if (f->item.from && f->item.to && f->item.name)
		return f;
	pack_free(f);
	return NULL;
}

void pack_take(struct packer *p, int in, const char *shown, const struct item *i)
{
	struct pack *f = pack_new(p, in, i);
	int rc = f ? make_frame(f, shown) : -ENOMEM;

	if (rc < 0) {
		item_say_rc(p->o.walk, i, rc);
		if (f)
			pack_free(f);
		return;
	}
	if (f->item.st.st_size > f->chunk_size)
		(void)posix_fadvise(in, 0, 0, POSIX_FADV_SEQUENTIAL);
	extras_load(&f->item.extras, in);
	folder_get(p->o.walk, f->item.folder);
	pthread_mutex_lock(&p->lock);
	while (p->files >= p->files_max)
		pthread_cond_wait(&p->freed, &p->lock);
	f->slot = p->files;
	p->busy[p->files++] = f;
	pthread_mutex_unlock(&p->lock);
	feed(f);
}
