/* Extracts files from frames without a mount: what a mount of the directory would show. */
#include "args.h"
#include "cframe.h"
#include "mounts.h"
#include "open.h"
#include "progress.h"
#include "say.h"
#include "steady.h"
#include "unpack.h"
#include "walk.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct extract {
	struct walk walk; /* must be first: the functions of `ops` find the rest by it */
	struct scratch *s;
	struct last_listing last;
	bool verbose;
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

static int unpack(struct extract *x, const struct entry *e, int in, int out)
{
	struct frame *f;
	if (e->kind == NODE_PLAIN)
		return unpack_plain(in, out);
	if (e->kind == NODE_FRAME && e->st.st_size == 0)
		return 0;
	TRY(open_frame(in, e->kind, &f));
	if (frame_went_back(f))
		tool_say("%s: its newest state is torn; the one before is taken",
			 (const char *)x->walk.from.p);
	int rc = unpack_frame(f, e->kind == NODE_ARRAY, x->s, out);
	frame_close(f);
	return rc;
}

static bool is_current(struct listing *l, const struct entry *e, const struct item *i,
		       const struct stat *there)
{
	uint64_t size, stored;
	return listing_size(l, e, &size, &stored) >= 0 && size == (uint64_t)there->st_size;
}

/* As the mount shows them. */
static struct stat shown_attributes(const struct entry *e)
{
	struct stat st = e->st;
	if (e->kind == NODE_ARRAY || e->kind == NODE_SPARSE)
		st.st_mode &= ~(mode_t)0222;
	if (e->kind == NODE_SPARSE)
		st.st_mode &= ~(mode_t)07111;
	return st;
}

static int extract_bytes(struct extract *x, struct listing *l, const struct entry *e,
			 struct item *i)
{
	struct stat now;
	int in = openat(l->fd, e->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (in < 0)
		return -errno;
	err_clear();
	int rc = unpack(x, e, in, i->draft.fd);
	bool known = fstat(in, &now) == 0;
	if (known && e->kind == NODE_SPARSE)
		frame_stat_sparse(in, &now);
	if (!known || !stat_is_same(&now, &e->st))
		rc = -ESTALE;
	if (rc >= 0 && e->kind != NODE_SPARSE) /* whose own are those of a directory */
		extras_load(&i->extras, in);
	close(in);
	return rc;
}

static int make_draft(struct extract *x, struct listing *l, const struct entry *e, struct item *i)
{
	int rc = item_make_link(&x->walk, l, e, i), dir = i->folder->fd;
	if (rc != 0)
		return rc;
	if (!S_ISREG(e->st.st_mode) && e->kind == NODE_PLAIN)
		return draft_node(&i->draft, dir, &e->st);
	TRY(draft_open(&i->draft, dir));
	rc = extract_bytes(x, l, e, i);
	if (rc < 0)
		draft_drop(&i->draft);
	return rc;
}

static void make(struct walk *w, struct listing *l, const struct entry *e, struct item *i)
{
	struct extract *x = (struct extract *)w;
	int rc = make_draft(x, l, e, i);

	i->st = shown_attributes(e);
	if (rc >= 0 && item_finish(w, i) && x->verbose) {
		tool_print_path(i->to);
		putchar('\n');
	} else if (rc == -ESTALE) {
		walk_say(w, "is being changed; if it is mounted, copy it from there");
	} else if (rc < 0) {
		item_say_rc(w, i, rc);
	}
	extras_free(&i->extras);
}

static bool show(struct walk *w, struct listing *l, struct entry *e,
		 char name[static NAME_MAX + 1])
{
	bool shown = listing_show(l, e, name);
	if (shown && e->rc == 0 && S_ISREG(e->st.st_mode) && e->kind == NODE_PLAIN &&
	    names_may_be(e->name, S_IFREG) != NODE_PLAIN)
		walk_note(w, "is named like a frame, and taken as it is: it is none, or another "
			     "file has its name");
	return shown;
}

static bool is_sparse_frame(const char *path, const char *name)
{
	return names_may_be(name, S_IFDIR) == NODE_SPARSE && tool_is_sparse(path);
}

static const struct walk_ops ops = {
	.name = show,
	.is_file = is_sparse_frame,
	.is_current = is_current,
	.make = make,
};

/* Extracts one entry of a directory, by its name there or in a mount. */
static void extract_named(struct walk *w, int from, const char *name)
{
	struct last_listing *last = &((struct extract *)w)->last;
	struct entry *e;
	int rc = last_listing_find(last, from, name, true, &e);

	if (rc == 0)
		walk_one(w, &last->l, e);
	else
		walk_say_rc(w, rc);
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
static void extract_path(struct walk *w, const char *path)
{
	struct source from;

	walk_open_source(w, path, &from);
	if (from.fd < 0)
		return;
	(void)any_above(from.fd, told_of_newer, w);
	if (from.whole)
		walk_all(w, from.fd);
	else
		extract_named(w, from.fd, from.name);
	close(from.fd);
}

static int run(struct extract *x, const char *where, struct target t, char **path)
{
	int rc = walk_init(&x->walk, &ops, where, t);
	if (rc >= 0)
		rc = scratch_open(&x->s);
	if (rc < 0)
		return walk_fail(&x->walk, rc);
	if (!x->verbose) /* where each file has a line */
		progress_start();
	for (; *path; path++)
		extract_path(&x->walk, *path);
	/* Before anybody removes the frames. */
	rc = syncfs(x->walk.target.root) < 0 ? -errno : 0;
	progress_end();
	return rc < 0 ? walk_fail(&x->walk, rc) : x->walk.failed;
}

int extract_main(int argc, char **argv)
{
	static const struct option names[] = {{"force", no_argument, NULL, 'f'},
					      {"update", no_argument, NULL, 'u'},
					      {"verbose", no_argument, NULL, 'v'},
					      {0}};
	struct extract x = {.s = NULL};
	const char *where = ".";
	struct target t = {0};

	for (int got; (got = args_next(argc, argv, ":C:fuv", names)) != ARGS_END;) {
		switch (got) {
		case 'C': where = optarg; break;
		case 'f': t.force = true; break;
		case 'u': t.update = true; break;
		case 'v': x.verbose = true; break;
		default: return 1;
		}
	}
	if (argc == optind)
		return tool_usage(argv[0]);
	t.alone = argc - optind == 1;
	int code = run(&x, where, t, argv + optind);
	scratch_close(x.s);
	walk_deinit(&x.walk);
	listing_free(&x.last.l);
	return code;
}
