/* Extracts files from frames without a mount: what a mount of the directory would show. */
#include "args.h"
#include "cframe.h"
#include "mounts.h"
#include "open.h"
#include "outputs.h"
#include "progress.h"
#include "say.h"
#include "steady.h"
#include "unpack.h"
#include "workbench.h"

#include "base/container.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct extract {
	struct walk walk;
	struct outputs *outputs;
	struct pool *pool; /* its workers fill the drafts */
	struct last_listing last;
	/*
	 * Held while a draft is filled; for writing while a file that has found the disk full is
	 * tried once more, alone: by then a larger one may have failed, too, and have freed enough
	 * space.
	 */
	pthread_rwlock_t filling;
	bool verbose;
	bool salvage; /* zeros in place of what is damaged */
	bool later;   /* this is not the first path        */
	bool beside;  /* it was named, and goes into its own directory */
};

/* A file in progress. */
struct job {
	struct pool_job job;
	struct extract *x;
	struct output *out;
	int in;
	struct frame *frame; /* NULL: the file is copied as it is */
	uint64_t lost;       /* bytes of it that are damaged      */
};

static int open_frame(int fd, enum node_kind kind, struct frame **f)
{
	struct io *io;
	if (kind != NODE_SPARSE) {
		TRY(io_file_open(&io, fd));
		return frame_open_take(f, io);
	}
	int own = dup(fd);
	return own < 0 ? -errno : frame_open_sparse_take(f, own);
}

static bool is_current(struct listing *l, const struct entry *e, const struct item *i,
		       const struct stat *there)
{
	uint64_t size, stored;
	return listing_size(l, e, &size, &stored) >= 0 && size == (uint64_t)there->st_size;
}

/* The attributes that a mount would show. */
static struct stat shown_attributes(const struct entry *e)
{
	struct stat st = e->st;
	if (e->kind == NODE_ARRAY || e->kind == NODE_SPARSE)
		st.st_mode &= ~(mode_t)0222;
	if (e->kind == NODE_SPARSE)
		st.st_mode &= ~(mode_t)07111;
	return st;
}

static int open_source(struct job *j)
{
	const struct item *i = &j->out->item;

	if (i->kind == NODE_PLAIN || (i->kind == NODE_FRAME && i->st.st_size == 0))
		return 0;
	TRY(open_frame(j->in, i->kind, &j->frame));
	if (frame_went_back(j->frame))
		tool_say("%s: its newest state is torn; the one before is extracted", i->from);
	return 0;
}

static int unpack(struct job *j)
{
	const struct item *i = &j->out->item;

	err_clear();
	if (j->frame)
		return unpack_frame(j->frame, i->kind == NODE_ARRAY, j->x->pool, i->draft.fd,
				    j->x->salvage ? &j->lost : NULL);
	return unpack_plain(j->in, i->draft.fd);
}

/* Its copy gets an older time, even on FAT: --update must not take it for complete. */
#define AGED 2 /* seconds */

static void note_lost(struct job *j)
{
	j->out->item.st.st_mtim.tv_sec -= AGED;
	tool_say("%s: damaged: %llu bytes are zeros in its copy", j->out->item.from,
		 (unsigned long long)j->lost);
	j->x->walk.failed = true;
}

/* True: the source is still what the walk has seen. */
static bool is_unchanged(const struct job *j)
{
	const struct item *i = &j->out->item;
	struct stat now;

	bool known = fstat(j->in, &now) == 0;
	if (known && i->kind == NODE_SPARSE)
		frame_stat_sparse(j->in, &now);
	return known && stat_is_same(&now, &i->st);
}

/* A file that finds the disk full is tried once more, see extract.filling. */
static void fill(struct pool_job *job)
{
	struct job *j = CONTAINER_OF(job, struct job, job);
	struct extract *x = j->x;
	struct output *out = j->out;

	pthread_rwlock_rdlock(&x->filling);
	int rc = open_source(j);
	if (rc >= 0)
		rc = unpack(j);
	if (err_is_full(rc) && ftruncate(out->item.draft.fd, 0) == 0) {
		pthread_rwlock_unlock(&x->filling);
		pthread_rwlock_wrlock(&x->filling);
		rc = unpack(j);
	}
	if (!is_unchanged(j))
		rc = -ESTALE;
	if (rc >= 0 && out->item.kind != NODE_SPARSE) /* whose attributes are a directory's */
		extras_load(&out->item.extras, j->in);
	if (rc >= 0 && j->lost)
		note_lost(j);
	frame_close(j->frame);
	close(j->in);
	outputs_end_take(x->outputs, out, rc);
	pthread_rwlock_unlock(&x->filling);
	mem_free(j);
	workbench_trim();
}

/* Hands a regular file to the workers. `in` is taken unless this fails. */
static int submit(struct extract *x, struct item *i, int in)
{
	struct job *j = mem_zalloc(sizeof *j);
	struct output *out = j ? output_new(i) : NULL;
	int rc = out ? draft_open(&out->item.draft, i->folder->fd) : -ENOMEM;

	if (rc < 0) {
		if (out)
			output_free(out);
		mem_free(j);
		return rc;
	}
	*j = (struct job){.job = {.run = fill}, .x = x, .out = out, .in = in};
	outputs_begin(x->outputs, out);
	pool_submit(x->pool, &j->job, POOL_LATER);
	return 0;
}

static int begin(struct extract *x, struct listing *l, const struct entry *e, struct item *i)
{
	int in = openat(l->fd, e->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (in < 0)
		return -errno;
	if (i->kind == NODE_PLAIN && item_hides_length(&x->walk, i, in)) {
		close(in);
		return 0;
	}
	int rc = submit(x, i, in);
	if (rc < 0)
		close(in);
	return rc;
}

static void print_made(const struct item *i)
{
	flockfile(stdout); /* one line, whatever other threads print */
	tool_print_path(i->to);
	putchar('\n');
	funlockfile(stdout);
}

static void tell(const struct output *o)
{
	print_made(&o->item);
}

/* Links and nodes are made right here, as they take no time. */
static void make(struct walk *w, struct listing *l, const struct entry *e, struct item *i)
{
	struct extract *x = CONTAINER_OF(w, struct extract, walk);
	bool file = S_ISREG(e->st.st_mode) || e->kind != NODE_PLAIN;
	int rc = item_make_link(w, l, e, i);
	bool done = rc > 0 || (rc == 0 && !file);

	if (rc == 0 && !file)
		rc = draft_node(&i->draft, i->folder->fd, &e->st);
	i->st = shown_attributes(e);
	if (rc == 0 && file)
		rc = begin(x, l, e, i);
	if (rc < 0)
		item_say_rc(w, i, rc);
	else if (done && item_finish(w, i) && x->verbose)
		print_made(i);
}

static void await(struct walk *w, const struct item *i)
{
	struct extract *x = CONTAINER_OF(w, struct extract, walk);
	outputs_wait_room(x->outputs);
	if (x->later) /* it may go where an earlier one does */
		outputs_wait_path(x->outputs, i->to, "");
	if (S_ISREG(i->st.st_mode) && i->st.st_nlink > 1)
		outputs_wait_linked(x->outputs, &i->st);
}

static bool show(struct walk *w, struct listing *l, struct entry *e,
		 char name[static NAME_MAX + 1])
{
	struct extract *x = CONTAINER_OF(w, struct extract, walk);
	/* the file that has its name may be an earlier extract of it */
	bool shown = x->beside ? listing_show_claim(l, e, name) : listing_show(l, e, name);
	x->beside = false;
	if (shown && e->rc == 0 && S_ISREG(e->st.st_mode) && e->kind == NODE_PLAIN &&
	    names_may_be(e->name, S_IFREG) != NODE_PLAIN) {
		walk_note(w, "is named like a frame, but copied as it is: it is not one, or "
			     "another file has its name");
		/* it may have been a frame, of which nothing can be salvaged */
		w->failed |= x->salvage;
	}
	return shown;
}

static bool is_sparse_frame(const char *path, const char *name)
{
	return names_may_be(name, S_IFDIR) == NODE_SPARSE && tool_is_sparse(path);
}

static const struct walk_ops ops = {
	.name = show,
	.is_file = is_sparse_frame,
	.await = await,
	.is_current = is_current,
	.make = make,
};

/* Extracts one entry of a directory, by its name there or in a mount. */
static void extract_named(struct walk *w, int from, const char *name)
{
	struct extract *x = CONTAINER_OF(w, struct extract, walk);
	struct stat st;
	struct entry *e;
	int rc = last_listing_find_shown(&x->last, from, name, &e);

	if (rc < 0) {
		walk_say_rc(w, rc);
		return;
	}
	x->beside = strcmp(e->name, name) == 0 && fstat(from, &st) == 0 &&
		    st.st_ino == w->root.st_ino && st.st_dev == w->root.st_dev;
	walk_one(w, &x->last.l, e);
}

/*
 * Reports what the frames lack: bytes that a daemon has not committed, or those in the log of one
 * that was killed. The frames are extracted all the same.
 */
static bool told_of_newer(void *arg, int dir)
{
	struct walk *w = arg;
	if (has_daemon(NULL, dir)) {
		walk_say(w, "is mounted: what is not committed yet is missing; copy from the "
			    "mount, or unmount it first");
		return true;
	}
	if (!has_unapplied_log(NULL, dir))
		return false;
	walk_say(w, "its daemon was killed, and its intent log may have bytes that its frames "
		    "lack; mount and unmount it first");
	return true;
}

/* Extracts the contents of a directory, or anything else as an entry of its directory. */
static void extract_path(struct extract *x, const char *path)
{
	struct walk *w = &x->walk;
	struct source from;

	walk_open_source(w, path, &from);
	if (from.fd < 0)
		return;
	(void)any_above(from.fd, told_of_newer, w);
	if (from.whole && x->later) /* earlier paths may use the same directories */
		outputs_wait(x->outputs);
	if (from.whole)
		walk_all(w, from.fd);
	else
		extract_named(w, from.fd, from.name);
	close(from.fd);
}

#define CHANGING "is being changed; if it is mounted, copy it from there"

static int run(struct extract *x, const char *where, struct target t, char **path)
{
	struct outputs_how how = {x->verbose ? tell : NULL, CHANGING};
	int rc = walk_init(&x->walk, &ops, where, t);
	if (rc >= 0)
		rc = outputs_open(&x->outputs, &x->walk, how);
	if (rc >= 0)
		rc = workbenches_open(&x->pool, pool_cores(), WORKBENCH_SPACE);
	if (rc < 0)
		return walk_fail(&x->walk, rc);
	if (!x->verbose) /* which prints a line per file */
		progress_start();
	for (; *path; path++, x->later = true)
		extract_path(x, *path);
	outputs_wait(x->outputs);
	/* The files are on the disk; now their names, before the user removes the frames. */
	rc = walk_sync(&x->walk);
	progress_end();
	return rc < 0 ? walk_fail(&x->walk, rc) : x->walk.failed;
}

int extract_main(int argc, char **argv)
{
	static const struct option names[] = {{"force", no_argument, NULL, 'f'},
					      {"salvage", no_argument, NULL, 's'},
					      {"update", no_argument, NULL, 'u'},
					      {"verbose", no_argument, NULL, 'v'},
					      {0}};
	struct extract x = {.pool = NULL};
	const char *where = ".";
	struct target t = {0};

	for (int got; (got = args_next(argc, argv, ":C:fsuv", names)) != ARGS_END;) {
		switch (got) {
		case 'C': where = optarg; break;
		case 'f': t.force = true; break;
		case 's': x.salvage = true; break;
		case 'u': t.update = true; break;
		case 'v': x.verbose = true; break;
		default: return 1;
		}
	}
	if (argc == optind)
		return tool_usage(argv[0]);
	pthread_rwlock_init(&x.filling, NULL);
	t.alone = argc - optind == 1;
	int code = run(&x, where, t, argv + optind);
	workbenches_close(x.pool);
	outputs_close(x.outputs);
	walk_deinit(&x.walk);
	listing_free(&x.last.l);
	pthread_rwlock_destroy(&x.filling);
	return code;
}
