#include "pack.h"
#include "progress.h"
#include "say.h"
#include "steady.h"
#include "workbench.h"

#include "base/container.h"
#include "base/fd.h"
#include "frame/policy/policy.h"
#include "frame/policy/rules.h"

#include <fcntl.h>
#include <unistd.h>

/* A file in progress. */
struct pack {
	struct packer *p;
	struct output *out; /* owned until it is begun */
	int in;
	struct frame *frame;
	uint32_t chunk_size;
	struct policy policy;
	pthread_mutex_t lock; /* for the frame, except for frame_write, and for what follows */
	unsigned users;       /* jobs, and the reader, whose reference goes with the last job */
	int rc;               /* the first failure    */
};

/* A chunk in progress. */
struct job {
	struct pool_job job;
	struct job *next; /* free */
	struct pack *f;
	uint32_t n;
	uint64_t turn;
	struct buf plain; /* empty: this job only ends the file */
	bool last;        /* the reader is done with the file */
};

struct packer {
	struct pack_options o;
	struct pool *pool;
	pthread_mutex_t lock; /* for `free`    */
	pthread_cond_t freed; /* a job is free */
	struct job *free;     /* a list        */
	struct job *jobs;     /* all of them   */
	unsigned njobs;
};

int packer_open(struct packer **out, const struct pack_options *o)
{
	struct packer *p = mem_zalloc(sizeof *p);
	*out = p;
	if (!p)
		return -ENOMEM;
	p->o = *o;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->freed, NULL);
	uint64_t chunks = 3 * o->settings->chunksize;
	TRY(workbenches_open(&p->pool, o->workers, WORKBENCH_SPACE + chunks));
	p->njobs = pool_size(p->pool) ? 2 * pool_size(p->pool) : 2;
	p->jobs = mem_zalloc_array(p->njobs, sizeof *p->jobs);
	if (!p->jobs)
		return -ENOMEM;
	for (unsigned i = 0; i < p->njobs; i++) {
		p->jobs[i].next = p->free;
		p->free = &p->jobs[i];
	}
	return 0;
}

void packer_close(struct packer *p)
{
	if (!p)
		return;
	workbenches_close(p->pool);
	for (unsigned i = 0; p->jobs && i < p->njobs; i++)
		buf_free(&p->jobs[i].plain);
	mem_free(p->jobs);
	pthread_cond_destroy(&p->freed);
	pthread_mutex_destroy(&p->lock);
	mem_free(p);
}

static struct job *job_get(struct packer *p)
{
	pthread_mutex_lock(&p->lock);
	while (!p->free)
		pthread_cond_wait(&p->freed, &p->lock);
	struct job *j = p->free;
	p->free = j->next;
	pthread_mutex_unlock(&p->lock);
	j->plain.n = 0;
	j->last = false;
	return j;
}

static void job_put(struct packer *p, struct job *j)
{
	pthread_mutex_lock(&p->lock);
	j->next = p->free;
	p->free = j;
	pthread_cond_signal(&p->freed);
	pthread_mutex_unlock(&p->lock);
}

static int store(struct pack *f, uint32_t n, struct view cchunk)
{
	struct frame_place place;

	pthread_mutex_lock(&f->lock);
	int rc = frame_alloc(f->frame, n, (uint32_t)cchunk.n, &place);
	pthread_mutex_unlock(&f->lock);
	TRY(rc);
	rc = frame_write(f->frame, &place, cchunk);
	pthread_mutex_lock(&f->lock);
	if (rc < 0)
		frame_unalloc(f->frame, &place);
	else
		frame_put(f->frame, n, &place);
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
		.file_size = (uint64_t)f->out->item.st.st_size,
		.chunk_size = f->chunk_size,
	};
	struct pipeline p;

	if (bytes_are_zero(what.plain))
		return 0; /* stays a hole */
	TRY(policy_choose(&f->policy, b->s, &what, &p));
	/* The last chunk is divided among the workers: its file has no other work for them. */
	struct pool *pool = j->last ? f->p->pool : NULL;
	TRY(workbench_encode(b, pool, &p, what.plain));
	TRY(store(f, j->n, buf_view(&b->b)));
	progress_bytes(what.plain.n, b->b.n);
	return 0;
}

static int commit(struct pack *f)
{
	struct pipeline p;
	if (policy_first_choice(&f->policy, &p))
		frame_set_pipeline(f->frame, &p);
	return frame_commit(f->frame, COMMIT_SYNC);
}

static void pack_free(struct pack *f)
{
	if (f->in >= 0)
		close(f->in);
	frame_close(f->frame);
	policy_deinit(&f->policy);
	pthread_mutex_destroy(&f->lock);
	mem_free(f);
}

/* Accepts what was read, unless the file is shorter than at the start. */
static int look_for_change(struct pack *f)
{
	struct stat now;
	if (fstat(f->in, &now) < 0)
		return -errno;
	if (now.st_size < f->out->item.st.st_size)
		return -ESTALE; /* the end may have been taken for a hole */
	if (stat_is_same(&now, &f->out->item.st))
		return 0;
	tool_say("%s: has changed while it was read", f->out->item.from);
	f->p->o.walk->failed = true;
	return 0;
}

/* All chunks are stored. */
static void finish(struct pack *f)
{
	struct outputs *to = f->p->o.outputs;
	struct output *out = f->out;
	int rc = f->rc;

	if (rc >= 0)
		rc = commit(f);
	if (rc >= 0)
		rc = look_for_change(f);
	pack_free(f);
	outputs_end_take(to, out, rc);
}

/* Drops this many references to the file. */
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
	struct job *j = CONTAINER_OF(job, struct job, job);
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

/*
 * The offset of the next data at or after `at`; `size`: there is none. `at` where the file system
 * cannot tell.
 */
static uint64_t next_data(int in, uint64_t at, uint64_t size)
{
	off_t data = lseek(in, (off_t)at, SEEK_DATA);
	if (data < 0)
		return errno == ENXIO ? size : at;
	return min_u64((uint64_t)data, size);
}

static int read_chunk(struct pack *f, struct job *j)
{
	uint64_t at = (uint64_t)j->n * f->chunk_size, size = (uint64_t)f->out->item.st.st_size;
	size_t len = (size_t)min_u64(f->chunk_size, size - at);

	TRY(buf_reserve_fresh(&j->plain, len));
	int rc = fd_pread(f->in, at, span_of(j->plain.p, len));
	if (rc < 0)
		return rc == -EBADMSG ? -ESTALE : rc;
	j->plain.n = len;
	return 0;
}

/*
 * Hands all chunks with data to the workers, the last one with the reader's reference to the file.
 */
static void feed(struct pack *f)
{
	uint64_t size = (uint64_t)f->out->item.st.st_size, at = 0;
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

/* Makes a frame as a mount would, as its directory and the rules ask for. */
static int make_frame(struct pack *f, const char *shown)
{
	struct item *i = &f->out->item;
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
	struct output *out = output_new(i);
	struct pack *f = out ? mem_zalloc(sizeof *f) : NULL;

	if (!f) {
		close(in);
		if (out)
			output_free(out);
		return NULL;
	}
	*f = (struct pack){.p = p, .out = out, .in = in, .users = 1};
	pthread_mutex_init(&f->lock, NULL);
	policy_init(&f->policy);
	return f;
}

void pack_take(struct packer *p, int in, const char *shown, const struct item *i)
{
	struct pack *f = pack_new(p, in, i);
	int rc = f ? make_frame(f, shown) : -ENOMEM;

	if (rc < 0) {
		item_say_rc(p->o.walk, i, rc);
		if (f) {
			output_free(f->out);
			pack_free(f);
		}
		return;
	}
	if (f->out->item.st.st_size > f->chunk_size)
		(void)posix_fadvise(in, 0, 0, POSIX_FADV_SEQUENTIAL);
	extras_load(&f->out->item.extras, in);
	outputs_begin(p->o.outputs, f->out);
	feed(f);
}
