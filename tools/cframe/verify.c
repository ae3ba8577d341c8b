/* Verifies frames: everything that can be checked. */
#include "args.h"
#include "cframe.h"
#include "crew.h"
#include "findings.h"
#include "listing.h"
#include "mounts.h"
#include "open.h"
#include "pieces.h"
#include "progress.h"
#include "say.h"
#include "steady.h"
#include "workbench.h"

#include "base/container.h"
#include "base/log.h"
#include "frame/frame.h"
#include "frame/names.h"
#include "frame/view_npy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * One thread walks the tree, and hands each frame to the workers. It also prints what they find, in
 * the order of the walk, so that a second run prints the same.
 */
struct verify {
	struct pool *pool;
	pthread_mutex_t lock;      /* for job.done                  */
	pthread_cond_t done;       /* a job is done                 */
	struct job *first, **last; /* in the order of the walk      */
	unsigned jobs;             /* how many are in that list     */
	unsigned frames;           /* found by the present walk     */
	unsigned depth;            /* of the walk                   */
	dev_t dev;                 /* of its directories            */
	unsigned bad;              /* frames and others with a line */
};

/* A frame to verify, or another line that is reported in its turn. */
struct job {
	struct pool_job job;
	struct verify *v;
	struct job *next;
	int dir; /* to which `name` is relative; owned, or AT_FDCWD */
	char *name;
	char *path;   /* in reports                     */
	bool in_tree; /* found by a walk: it may vanish */
	struct findings found;
	bool vanished;
	bool done; /* under v->lock; no worker uses it any more */
};

/* A frame that is being decoded. */
struct decoded {
	struct job *j;
	struct frame *f;
	atomic_uint_least64_t bytes;
};

static void note(struct job *j, uint32_t chunk, int rc)
{
	char why[TOOL_TEXT_MAX], line[TOOL_TEXT_MAX + 32];

	snprintf(line, sizeof line, "chunk %" PRIu32 ": %s", chunk, tool_err_text(rc, why));
	findings_add(&j->found, chunk, line);
}

static void note_of_all(struct job *j, int rc)
{
	char why[TOOL_TEXT_MAX];
	findings_add(&j->found, FINDING_OF_ALL, tool_err_text(rc, why));
}

/* The bytes are not needed: it is enough that they can be decoded. */
static int pass(void *arg, uint32_t n, uint32_t lo, struct view v)
{
	struct decoded *d = arg;
	progress_bytes(v.n, 0);
	d->bytes += v.n;
	return 0;
}

/* Notes a broken chunk. Negative: it could not be checked. */
static int decode_chunk(void *arg, uint32_t n)
{
	struct decoded *d = arg;
	if (frame_is_hole(d->f, n))
		return 0;
	struct workbench *bench = workbench_get();
	if (!bench)
		return -ENOMEM;
	err_clear();
	struct pieces p = {.f = d->f,
			   .s = bench->s,
			   .b = bench->b,
			   .strict = true,
			   .take = pass,
			   .arg = d};
	int rc = pieces_of_chunk(&p, n);
	bench->b = p.b;
	if (rc == -ENOMEM)
		return rc;
	if (rc < 0)
		note(d->j, n, rc);
	return 0;
}

static int decode(struct job *j, struct frame *f)
{
	struct decoded d = {.j = j, .f = f};
	int rc = crew_each(j->v->pool, 0, frame_nchunks(f), decode_chunk, &d);

	if (rc >= 0 && frame_went_back(f))
		findings_add(&j->found, FINDING_OF_ALL,
			     "corrupt: torn: shown as of its newest whole root");
	if (rc < 0 || findings_any(&j->found)) /* it may be checked once more */
		progress_take_back(d.bytes);
	return rc;
}

/* Variable-length metalayers are chunks of their own. Negative: no memory. */
static int check_metalayers(struct job *j, const struct frame *f)
{
	const char *name;
	struct view stored;
	struct workbench *bench = workbench_get();

	if (!bench)
		return -ENOMEM;
	for (uint32_t i = 0; frame_vlmeta_at(f, i, &name, &stored); i++) {
		char why[TOOL_TEXT_MAX], line[2 * TOOL_TEXT_MAX];
		struct pieces p = {.s = bench->s, .b = bench->b};
		err_clear();
		int rc = pieces_check(&p, stored);
		bench->b = p.b;
		if (rc == -ENOMEM)
			return rc;
		if (rc == 0)
			continue;
		snprintf(line, sizeof line, "metalayer %s: %s", name, tool_err_text(rc, why));
		findings_add(&j->found, FINDING_OF_ALL, line);
	}
	return 0;
}

/*
 * For a frame that is named like an array: fails if a mount could not show it as one. That it is
 * not an array, is sparse, has its items elsewhere, or has a dtype that NumPy does not support, is
 * not damage.
 */
static int check_array(const struct job *j, const struct frame *f)
{
	struct view meta;
	if (path_suffix(j->name) != SUFFIX_ARRAY || frame_info(f)->sparse || !npy_meta(f, &meta))
		return 0;
	struct npy v = {0};
	int rc = npy_init(&v, f);
	npy_deinit(&v);
	return rc == -ENOTSUP ? 0 : rc;
}

/*
 * True: all that a power cut may leave of a file that was created and never synced; a mount shows
 * an empty file.
 */
static bool is_empty_file(const struct job *j)
{
	struct stat st;
	return path_suffix(j->name) == SUFFIX_FRAME &&
	       fstatat(j->dir, j->name, &st, 0) == 0 && S_ISREG(st.st_mode) && !st.st_size;
}

static bool is_well(void *arg)
{
	struct job *j = arg;
	struct frame *f;
	struct io *io;

	findings_clear(&j->found);
	err_clear();
	int rc = tool_open(j->dir, j->name, &f, &io);
	bool none = rc == 0 && !f && !is_empty_file(j);
	j->vanished = rc == -ENOENT;
	if (f)
		rc = decode(j, f);
	if (f && rc >= 0)
		rc = check_metalayers(j, f);
	if (f && rc >= 0)
		rc = check_array(j, f);
	frame_close(f);
	io_close(io);
	if (none)
		findings_add(&j->found, FINDING_OF_ALL, tool_no_frame_text(j->dir, j->name));
	if (rc < 0)
		note_of_all(j, rc);
	return !findings_any(&j->found);
}

static void end(struct job *j)
{
	struct verify *v = j->v;
	pthread_mutex_lock(&v->lock);
	j->done = true;
	pthread_cond_signal(&v->done);
	pthread_mutex_unlock(&v->lock);
}

static void run(struct pool_job *job)
{
	struct job *j = CONTAINER_OF(job, struct job, job);

	if (!look_until_steady(j->dir, j->name, is_well, j)) {
		findings_clear(&j->found);
		findings_add(&j->found, FINDING_OF_ALL,
			     "is being written, and could not be checked meanwhile");
	}
	if (j->in_tree && j->vanished) /* it was removed meanwhile */
		findings_clear(&j->found);
	else
		progress_file();
	workbench_trim();
	end(j);
}

static void job_free(struct job *j)
{
	if (j->dir >= 0)
		close(j->dir);
	findings_deinit(&j->found);
	mem_free(j->name);
	mem_free(j->path);
	mem_free(j);
}

static bool is_done(struct verify *v, const struct job *j, bool wait)
{
	pthread_mutex_lock(&v->lock);
	while (wait && !j->done)
		pthread_cond_wait(&v->done, &v->lock);
	bool done = j->done;
	pthread_mutex_unlock(&v->lock);
	return done;
}

/* Prints what was found so far, and waits until at most `leave` jobs are left. */
static void report(struct verify *v, unsigned leave)
{
	struct job *j;

	while ((j = v->first) && is_done(v, j, v->jobs > leave)) {
		v->bad += findings_any(&j->found);
		findings_print(&j->found, j->path);
		v->first = j->next;
		if (!v->first)
			v->last = &v->first;
		v->jobs--;
		job_free(j);
	}
}

/* NULL: out of memory, which has been reported. */
static struct job *job_new(struct verify *v, const char *name, const char *path)
{
	struct job *j = mem_zalloc(sizeof *j);

	if (j) {
		*j = (struct job){.v = v, .dir = AT_FDCWD};
		findings_init(&j->found);
		j->name = mem_strdup(name);
		j->path = mem_strdup(path);
	}
	if (j && j->name && j->path)
		return j;
	if (j)
		job_free(j);
	tool_fail(path, -ENOMEM);
	v->bad++;
	return NULL;
}

/* Waits until there are descriptors for one more job, or one more level of the tree. */
static void wait_room(struct verify *v)
{
	report(v, workbench_files(v->depth) - 1);
}

static void append(struct verify *v, struct job *j)
{
	*v->last = j;
	v->last = &j->next;
	v->jobs++;
}

static void add_error(struct verify *v, const char *path, const char *line)
{
	struct job *j = job_new(v, path, path);

	if (!j)
		return;
	findings_add(&j->found, FINDING_OF_ALL, line);
	j->done = true;
	append(v, j);
}

static void add_errno(struct verify *v, const char *path, int error)
{
	char text[TOOL_TEXT_MAX];
	add_error(v, path, tool_err_text(-error, text));
}

/*
 * Hands a file to the workers, by its name relative to AT_FDCWD or to a directory of the walk; that
 * is duplicated, since the walk closes its own.
 */
static void add(struct verify *v, int dir, const char *name, const char *path)
{
	struct job *j = job_new(v, name, path);

	if (!j)
		return;
	wait_room(v);
	j->in_tree = dir != AT_FDCWD;
	if (j->in_tree)
		j->dir = fcntl(dir, F_DUPFD_CLOEXEC, 0);
	if (j->dir == -1) {
		add_errno(v, path, errno);
		job_free(j);
		return;
	}
	append(v, j);
	j->job.run = run;
	pool_submit(v->pool, &j->job, POOL_LATER);
}

static void verify_directory(struct verify *v, int fd, const char *path);

static void verify_subdirectory(struct verify *v, int dir, const char *name, const char *path)
{
	struct frame_info info;

	wait_room(v);
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		if (errno != ENOENT) /* else it was removed meanwhile */
			add_errno(v, path, errno);
		return;
	}
	int rc = frame_probe_sparse(fd, &info);
	err_clear(); /* not the reason for a later failure */
	if (rc >= 0) { /* of a damaged one the walk finds the index */
		v->frames++;
		add(v, dir, name, path);
	} else if (v->depth == LISTING_DEEPEST) {
		add_error(v, path, "is too deep, and left out");
	} else {
		v->depth++;
		verify_directory(v, fd, path);
		v->depth--;
	}
	close(fd);
}

static void verify_entry(struct verify *v, int dir, const char *name, const char *path)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			add_errno(v, path, errno);
	} else if (S_ISDIR(st.st_mode) && st.st_dev == v->dev) {
		verify_subdirectory(v, dir, name, path);
	} else if (S_ISREG(st.st_mode) && path_is_named_as_frame(name)) {
		v->frames++;
		add(v, dir, name, path);
	}
}

/* If it cannot all be listed, this is reported after what is found in it. */
static void verify_directory(struct verify *v, int fd, const char *path)
{
	struct buf below = {0};
	struct listing l;
	int rc = listing_read(&l, fd);

	for (size_t i = 0; i < l.n; i++) {
		const char *name = l.entry[i].name;
		int joined = path_join(&below, path, name);
		if (joined < 0) {
			rc = joined;
			break;
		}
		verify_entry(v, fd, name, (const char *)below.p);
		report(v, FILES_MAX);
	}
	if (rc < 0)
		add_errno(v, path, -rc);
	buf_free(&below);
	listing_free(&l);
}

/*
 * Verifies everything that a mount of this directory would show as frames. Other file systems below
 * it are left out: one of them may be that mount.
 */
static void verify_tree(struct verify *v, const char *directory)
{
	struct stat st;
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0) {
		add_errno(v, directory, errno);
		if (fd >= 0)
			close(fd);
		return;
	}
	report(v, 0);
	unsigned bad = v->bad;
	v->frames = 0;
	v->dev = st.st_dev;
	verify_directory(v, fd, directory);
	close(fd);
	report(v, 0);
	if (v->bad == bad && !v->frames)
		tool_say("%s: contains no frames", directory);
}

/* True: the directory shows plain files whose frames are elsewhere, so nothing would be checked. */
static bool is_in_mount(const char *directory)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool is = fd >= 0 && any_above(fd, is_mount_point, NULL);
	if (fd >= 0)
		close(fd);
	return is;
}

static void verify_path(struct verify *v, const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode) || tool_is_sparse(path))
		add(v, AT_FDCWD, path, path);
	else if (is_in_mount(path))
		add_error(v, path, "is in a mount: name the backing directory");
	else
		verify_tree(v, path);
}

int verify_main(int argc, char **argv)
{
	struct verify v = {.last = &v.first};

	if (args_next(argc, argv, "", NULL) == ARGS_WRONG)
		return 1;
	if (argc == optind)
		return tool_usage(argv[0]);
	log_init(LOG_LEVEL_ERR, LOG_SINK_STDERR); /* a torn frame has its line in the report */
	pthread_mutex_init(&v.lock, NULL);
	pthread_cond_init(&v.done, NULL);
	int rc = workbenches_open(&v.pool, pool_cores(), WORKBENCH_SPACE);
	if (rc < 0)
		return tool_fail(argv[0], rc);
	progress_start();
	for (int i = optind; i < argc; i++)
		verify_path(&v, argv[i]);
	report(&v, 0);
	progress_end();
	workbenches_close(v.pool);
	return v.bad != 0;
}
