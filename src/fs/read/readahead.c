#include "fs/read/readahead.h"

#include "base/container.h"
#include "fs/read/read.h"

#include <assert.h>

/*
 * Requests of at least this length come from the kernel's read-ahead, or are parts of a long read:
 * they arrive several at a time, and out of order by up to DISORDER bytes.
 */
#define LONG_REQUEST (128u << 10)
#define DISORDER (4u << 20)

#define WINDOW_MIN (128u << 10)
#define WINDOW_MAX (8u << 20)
#define WINDOW_SHARE 4 /* at most this part of the cache: no block is evicted unread */

#define STEP (256u << 10) /* bytes that one job decodes */
#define JOBS_MAX 64
#define STRIDE_MAX (1ull << 30)
#define STRIDE_HITS 3 /* equal strides in a row, before the next ones are decoded ahead */
#define STRIDES 8     /* how many are decoded ahead */

struct job {
	struct pool_job job;
	struct file *file;
	const struct stream *stream; /* whose it is, while that has the same `born` */
	unsigned born;
	uint64_t at, len;
};

void readahead_init(struct readahead *r)
{
	*r = (struct readahead){0};
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->idle, NULL);
}

void readahead_deinit(struct readahead *r)
{
	assert(r->jobs == 0);
	pthread_cond_destroy(&r->idle);
	pthread_mutex_destroy(&r->lock);
}

void readahead_stop(struct readahead *r)
{
	pthread_mutex_lock(&r->lock);
	while (r->jobs)
		pthread_cond_wait(&r->idle, &r->lock);
	pthread_mutex_unlock(&r->lock);
}

/*
 * Where the part of a job begins that its reader has yet to ask for: what it has asked for by now
 * it has decoded itself. The end of the job if the reader has gone elsewhere.
 */
static uint64_t not_passed(struct readahead *r, const struct job *j)
{
	uint64_t end = j->at + j->len;

	pthread_mutex_lock(&r->lock);
	uint64_t at = j->stream->born == j->born ? max_u64(j->at, j->stream->next) : end;
	pthread_mutex_unlock(&r->lock);
	return min_u64(at, end);
}

static void job_run(struct pool_job *job)
{
	struct job *j = CONTAINER_OF(job, struct job, job);
	struct readahead *r = &j->file->readahead;

	uint64_t at = not_passed(r, j);
	if (at < j->at + j->len)
		file_decode_ahead(j->file, at, j->at + j->len - at);
	mem_free(j);
	pthread_mutex_lock(&r->lock);
	if (--r->jobs == 0)
		pthread_cond_broadcast(&r->idle);
	pthread_mutex_unlock(&r->lock); /* after this the file may be freed */
}

/* Under r->lock. False: no more jobs can be submitted now. */
static bool submit(struct file *f, const struct stream *s, uint64_t at, uint64_t len)
{
	struct readahead *r = &f->readahead;
	struct job *j = r->jobs < JOBS_MAX ? mem_zalloc(sizeof *j) : NULL;

	if (!j)
		return false;
	*j = (struct job){
		.job.run = job_run,
		.file = f,
		.stream = s,
		.born = s->born,
		.at = at,
		.len = len,
	};
	r->jobs++;
	pool_submit(f->fs->pool, &j->job, POOL_SOON);
	return true;
}

static bool goes_on(const struct stream *s, const struct file_request *q)
{
	if (!s->run)
		return false;
	if (q->len < LONG_REQUEST)
		return q->at == s->next;
	return q->at + DISORDER >= s->next && q->at <= s->next + DISORDER;
}

static bool strides_on(const struct stream *s, const struct file_request *q)
{
	return s->stride && q->at == s->last + s->stride;
}

static struct stream *find(struct readahead *r, const struct file_request *q,
			   bool (*matches)(const struct stream *, const struct file_request *))
{
	for (unsigned i = 0; i < READAHEAD_STREAMS; i++)
		if (matches(&r->stream[i], q))
			return &r->stream[i];
	return NULL;
}

/*
 * True: the stream has only one request, and `q` lies beyond it: the two may begin equal strides.
 */
static bool may_stride(const struct stream *s, const struct file_request *q)
{
	bool single = s->used && s->run <= s->next - s->last;
	return single && q->at > s->last && q->at - s->last <= STRIDE_MAX;
}

/*
 * A request that continues no stream begins a new one, in place of the one that was least recently
 * used. If the previous request did so as well, this one may be the second of equal strides, and
 * takes its place; so random access does not displace the other streams.
 */
static struct stream *begin(struct readahead *r, const struct file_request *q)
{
	struct stream *newest = &r->stream[0], *oldest = newest;

	for (struct stream *s = r->stream; s < r->stream + READAHEAD_STREAMS; s++) {
		newest = s->used > newest->used ? s : newest;
		oldest = s->used < oldest->used ? s : oldest;
	}
	bool strides = may_stride(newest, q);
	struct stream *s = strides ? newest : oldest;
	*s = (struct stream){
		.next = q->at + q->len,
		.run = q->len,
		.last = q->at,
		.stride = strides ? q->at - newest->last : 0,
		.born = r->clock,
	};
	return s;
}

static void ahead_of_run(struct file *f, struct stream *s)
{
	uint64_t window = min_u64(max_u64(s->run, WINDOW_MIN),
				  min_u64(WINDOW_MAX, f->fs->opt.cache / WINDOW_SHARE));
	uint64_t end = min_u64(s->next + window, file_size_locked(f));

	s->ahead = max_u64(s->ahead, s->next);
	while (s->ahead < end) {
		uint64_t len = min_u64(end - s->ahead, STEP - s->ahead % STEP);
		/* No small jobs: each should decode at least a block. */
		if (len < WINDOW_MIN / 2 && end < file_size_locked(f))
			break;
		if (!submit(f, s, s->ahead, len))
			break;
		s->ahead += len;
	}
}

static void ahead_of_strides(struct file *f, struct stream *s, uint64_t len)
{
	uint64_t size = file_size_locked(f);
	uint64_t end = s->last + s->stride * STRIDES;

	s->ahead = max_u64(s->ahead, s->last);
	for (uint64_t at = s->ahead + s->stride; at <= end && at < size; at += s->stride) {
		if (!submit(f, s, at, len))
			break;
		s->ahead = at;
	}
}

static bool kernel_reads_ahead(const struct file *f, const struct file_request *q)
{
	return !q->direct &&
	       atomic_load_explicit(&f->fs->kernel_reads_ahead, memory_order_relaxed);
}

static enum readahead_kind go_on(struct file *f, struct stream *s, const struct file_request *q)
{
	s->run += q->len;
	s->next = max_u64(s->next, q->at + q->len);
	s->last = q->at;
	s->stride = 0;
	if (kernel_reads_ahead(f, q))
		return READ_STREAM;
	ahead_of_run(f, s);
	return READ_AHEAD;
}

static enum readahead_kind stride_on(struct file *f, struct stream *s, const struct file_request *q)
{
	s->next = q->at + q->len;
	s->run = q->len;
	s->last = q->at;
	if (++s->hits < STRIDE_HITS)
		return READ_RANDOM;
	ahead_of_strides(f, s, q->len);
	return READ_STRIDES;
}

enum readahead_kind readahead_note(struct file *f, const struct file_request *q)
{
	struct readahead *r = &f->readahead;
	enum readahead_kind kind = READ_RANDOM;
	struct stream *s;

	pthread_mutex_lock(&r->lock);
	if ((s = find(r, q, goes_on)))
		kind = go_on(f, s, q);
	else if ((s = find(r, q, strides_on)))
		kind = stride_on(f, s, q);
	else
		s = begin(r, q);
	s->used = ++r->clock;
	pthread_mutex_unlock(&r->lock);
	return kind;
}
