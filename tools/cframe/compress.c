/* Compresses files into frames without a mount: the same frames that a mount would write. */
#include "args.h"
#include "cframe.h"
#include "mounts.h"
#include "pack.h"
#include "progress.h"
#include "say.h"

#include "base/container.h"
#include "base/pool.h"
#include "frame/frame.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

struct compress {
	struct walk walk;
	struct outputs *outputs;
	struct packer *packer;
	struct last_listing last;
	const char *as; /* the name of a symlink on the command line, for the file behind it */
	bool is_named;  /* the entry was named on the command line */
	struct settings settings;
	unsigned workers;
	bool force, update, verbose;
	bool later; /* this is not the first source */
};

/* Why a directory or symlink cannot keep its name in a backing directory; NULL: it can. */
static const char *obstacle(struct listing *l, const struct entry *e)
{
	char stem[NAME_MAX + 1];
	size_t n;

	if (names_hides(e->name, e->st.st_mode))
		return "would be hidden by a mount, and is left out";
	if (suffix_of(e->name, &n) != SUFFIX_FRAME || strcmp(e->name + n, NAMES_NEW_SUFFIX) != 0 ||
	    !names_join(stem, e->name, n, ""))
		return NULL;
	struct entry *other = listing_find(l, stem);
	if (!other)
		return NULL;
	listing_stat(l, other);
	return S_ISREG(other->st.st_mode) ? "has the name of the frame of a file beside it, and is "
					    "left out"
					  : NULL;
}

static const char *own_name(const struct walk *w, const struct entry *e)
{
	const struct compress *c = CONTAINER_OF(w, struct compress, walk);
	return c->as ? c->as : e->name;
}

static bool name(struct walk *w, struct listing *l, struct entry *e, char out[static NAME_MAX + 1])
{
	const struct compress *c = CONTAINER_OF(w, struct compress, walk);
	mode_t type;

	listing_stat(l, e);
	snprintf(out, NAME_MAX + 1, "%s", own_name(w, e)); /* a truncated name fails below */
	type = e->st.st_mode & S_IFMT;
	if (e->rc < 0)
		return true;
	if (type == S_IFREG) {
		if (!names_join(out, out, strlen(out), NAMES_NEW_SUFFIX))
			e->rc = -ENAMETOOLONG;
		return true;
	}
	if (type != S_IFDIR && type != S_IFLNK) {
		(c->is_named ? walk_say : walk_note)(w,
						     "is not a file, directory or link: left out");
		return false;
	}
	const char *why = obstacle(l, e);
	if (why)
		walk_say(w, why);
	return !why;
}

/*
 * True: *other is an entry that claims the name `shown`; its possible names are tried from the
 * `first` on.
 */
static bool find_claimant(int dir, const char *shown, unsigned first,
			  char other[static NAME_MAX + 1])
{
	struct stat st;
	bool has = false;

	for (unsigned k = first; !has && names_claimant(shown, k, other); k++)
		has = *other && fstatat(dir, other, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		      names_may_be(other, st.st_mode) != NODE_PLAIN;
	return has;
}

/*
 * True: because of the entry *other, the frame of `shown` would not be shown by that name, or would
 * hide another one that is.
 */
static bool frame_is_crossed(int dir, const char *shown, char other[static NAME_MAX + 1])
{
	struct stat st;
	size_t stem;

	/* A file that is named like a frame is shown by another name. */
	if (fstatat(dir, shown, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    (suffix_of(shown, &stem) == SUFFIX_NONE || !S_ISREG(st.st_mode))) {
		strcpy(other, shown);
		return true;
	}
	return find_claimant(dir, shown, 1, other);
}

/* True: a new directory or link of that name would take the name of the frame *other. */
static bool frame_is_hidden(int dir, const char *name, char other[static NAME_MAX + 1])
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
	       find_claimant(dir, name, 0, other);
}

static void await(struct walk *w, const struct item *i)
{
	const struct compress *c = CONTAINER_OF(w, struct compress, walk);
	bool frame = S_ISREG(i->st.st_mode);

	outputs_wait_room(c->outputs);
	if (frame && i->st.st_nlink > 1) /* other names of a file wait for its first one */
		outputs_wait_linked(c->outputs, &i->st);
	if (c->later && !i->folder->made)
		outputs_wait_path(c->outputs, i->to, frame ? "" : NAMES_NEW_SUFFIX);
}

static bool may_stand(struct walk *w, const struct item *i)
{
	char shown[NAME_MAX + 1], other[NAME_MAX + 1], why[NAME_MAX + 64];
	bool frame = S_ISREG(i->st.st_mode), taken;
	int dir = i->folder->fd;

	if (i->folder->made)
		return true; /* by this source, whose names have been checked */
	if (frame && names_join(shown, i->name, strlen(i->name) - strlen(NAMES_NEW_SUFFIX), ""))
		taken = frame_is_crossed(dir, shown, other);
	else
		taken = frame_is_hidden(dir, i->name, other);
	/* Even with --force, which only replaces what has the same name in the target. */
	if (taken) {
		snprintf(why, sizeof why,
			 "would stand beside %s, which has the same name in a mount", other);
		item_say_taken(w, i, why);
	}
	return !taken;
}

static void make_file(struct compress *c, struct listing *l, const struct entry *e, struct item *i)
{
	const char *shown = own_name(&c->walk, e);
	int rc = 0, in = openat(l->fd, e->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (in < 0 || fstat(in, &i->st) < 0)
		rc = -errno;
	else if (!S_ISREG(i->st.st_mode))
		rc = -ESTALE; /* it was a regular file a moment ago */
	if (rc == 0 && item_hides_length(&c->walk, i, in)) {
		close(in);
	} else if (rc == 0) {
		pack_take(c->packer, in, shown, i);
	} else {
		item_say_rc(&c->walk, i, rc);
		if (in >= 0)
			close(in);
	}
}

static bool is_current(struct listing *l, const struct entry *e, const struct item *i,
		       const struct stat *there)
{
	struct frame_info info;
	struct io *io;
	int fd = openat(i->folder->fd, i->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int rc = fd < 0 ? -errno : io_file_open_take(&io, fd);
	if (rc >= 0) {
		rc = frame_probe(io, &info);
		io_close(io);
	}
	return rc >= 0 && info.nbytes == (uint64_t)e->st.st_size;
}

static void make(struct walk *w, struct listing *l, const struct entry *e, struct item *i)
{
	struct compress *c = CONTAINER_OF(w, struct compress, walk);

	int rc = item_make_link(w, l, e, i);
	if (rc < 0)
		item_say_rc(w, i, rc);
	else if (rc > 0)
		(void)item_finish(w, i);
	else
		make_file(c, l, e, i);
}

/* A new directory inherits its parent's wishes, as in a mount. */
static void hand_on(int parent, int fd)
{
	struct wish w = {0};
	wish_load(&w, parent);
	if (w.own)
		wish_inherit(parent, fd);
}

static const struct walk_ops ops = {
	.name = name,
	.await = await,
	.may_stand = may_stand,
	.is_current = is_current,
	.make = make,
	.made = hand_on,
};

/* Compresses the contents of a directory, or anything else as an entry of its directory. */
static void compress_path(struct compress *c, const char *path)
{
	struct walk *w = &c->walk;
	struct source from;
	struct entry *e;

	walk_open_source(w, path, &from);
	if (from.fd < 0)
		return;
	if (from.whole) {
		if (c->later) /* earlier sources may use the same directories */
			outputs_wait(c->outputs);
		walk_all(w, from.fd);
	} else {
		int rc = last_listing_find(&c->last, from.fd, from.name, &e);
		const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;
		c->as = *last ? last : NULL;
		c->is_named = true;
		if (rc == 0)
			walk_one(w, &c->last.l, e);
		else
			walk_say_rc(w, rc);
		c->is_named = false;
		c->as = NULL;
	}
	close(from.fd);
}

/* Why a mount makes the target unsuitable; NULL: none does. */
static const char *target_problem(const struct compress *c)
{
	int root = c->walk.target.root;

	if (any_above(root, is_mount_point, NULL))
		return "is a mount, which compresses what is copied to it";
	bool replaces = c->force || c->update;
	if (replaces && any_above(root, has_daemon, NULL))
		return "is mounted, and its daemon may write to what would be replaced: copy the "
		       "files into the mount, or unmount it first";
	if (replaces && any_above(root, has_unapplied_log, NULL))
		return "its daemon was killed, and its intent log is for files that would be "
		       "replaced; mount and unmount it first";
	return NULL;
}

static void print_sizes(uint64_t bytes, uint64_t stored)
{
	printf(": %" PRIu64 " -> %" PRIu64 " (%.1f %%)\n", bytes, stored,
	       bytes ? 100 * (double)stored / (double)bytes : 100);
}

/* Prints a line for a frame that was made. */
static void tell(const struct output *o)
{
	tool_print_path(o->item.from);
	print_sizes((uint64_t)o->item.st.st_size, o->stored);
}

/*
 * True: the user seems to expect one file to become this frame, and not a directory of that name.
 */
static bool is_for_one_file(const char *where)
{
	return path_is_named_as_frame(where) && access(where, F_OK) < 0;
}

static int run(struct compress *c, char **source, const char *where)
{
	if (is_for_one_file(where)) {
		tool_say("%s: is the name of a frame; the last argument is the directory for "
			 "frames", where);
		return 1;
	}
	int rc = walk_init(&c->walk, &ops, where,
			   (struct target){.force = c->force,
					   .update = c->update,
					   .alone = source[0] && !source[1]});
	if (rc < 0)
		return walk_fail(&c->walk, rc);
	const char *problem = target_problem(c);
	if (problem) {
		tool_say("%s: %s", where, problem);
		c->walk.failed = true;
		return 1;
	}
	if (!c->verbose) /* where each file has a line */
		progress_start();
	struct outputs_how how = {c->verbose ? tell : NULL,
				  "became shorter while it was read; left out"};
	rc = outputs_open(&c->outputs, &c->walk, how);
	if (rc >= 0)
		rc = packer_open(&c->packer, &(struct pack_options){&c->walk, &c->settings,
								     c->outputs, c->workers});
	for (; rc >= 0 && *source; source++, c->later = true)
		compress_path(c, *source);
	if (rc >= 0)
		outputs_wait(c->outputs);
	/* The frames are on the disk; now their names, before the user removes the files. */
	if (rc >= 0)
		rc = walk_sync(&c->walk);
	progress_end();
	return rc < 0 ? walk_fail(&c->walk, rc) : c->walk.failed;
}

static void tell_totals(const struct compress *c)
{
	struct outputs_totals t = outputs_totals(c->outputs);
	printf("%" PRIu64 " file%s", t.files, t.files == 1 ? "" : "s");
	print_sizes(t.bytes, t.stored);
}

/*
 * Options of the command line by name. Those that a mount also has are numbered by their row, from
 * here on.
 */
#define FIRST_SETTING 256

static const struct option *option_names(void)
{
	static struct option names[3 + SETTINGS_ROWS + 1] = {{"force", no_argument, NULL, 'f'},
							     {"update", no_argument, NULL, 'u'},
							     {"verbose", no_argument, NULL, 'v'}};
	for (int i = 0; i < SETTINGS_ROWS; i++)
		names[3 + i] = (struct option){settings_rows[i].name, required_argument, NULL,
					       FIRST_SETTING + i};
	return names;
}

static int read_workers(struct compress *c, const char *value, struct option_why *why)
{
	static const struct option_row row = {"-j", OPTION_NUMBER, 0, 1, POOL_MOST, "N", ""};
	uint64_t n;

	TRY(option_read(&row, value, &n, why));
	c->workers = (unsigned)n;
	return 0;
}

static int read_setting(const struct option_row *row, const char *value,
			struct settings_words *words, struct option_why *why)
{
	if (!*value)
		return option_refuse(why, "option", row->name, "needs a value");
	return option_read(row, value, words, why);
}

/* -EINVAL: one is wrong, which was reported, or is explained in why->text. */
static int read_options(struct compress *c, int argc, char **argv, struct option_why *why)
{
	struct settings_words words;

	settings_words_init(&words);
	for (int got; (got = args_next(argc, argv, ":fj:uv", option_names())) != ARGS_END;) {
		switch (got) {
		case 'f': c->force = true; break;
		case 'j': TRY(read_workers(c, optarg, why)); break;
		case 'u': c->update = true; break;
		case 'v': c->verbose = true; break;
		case ARGS_WRONG: return -EINVAL;
		default:
			TRY(read_setting(&settings_rows[got - FIRST_SETTING], optarg, &words, why));
		}
	}
	if (words.level == OPTION_AUTO)
		return option_refuse(why, "option", "level", "auto is for mounts");
	return settings_judge(&c->settings, &words, why);
}

int compress_main(int argc, char **argv)
{
	struct compress c = {.workers = pool_cores()};
	struct option_why why = {0};
	int code = 1;

	int rc = read_options(&c, argc, argv, &why);
	if (why.text[0]) {
		tool_say("%s", why.text);
	} else if (rc < 0) {
		if (rc != -EINVAL)
			tool_fail(argv[0], rc);
	} else if (argc - optind < 2) {
		code = tool_usage(argv[0]);
	} else {
		const char *where = argv[argc - 1];
		argv[argc - 1] = NULL;
		code = run(&c, argv + optind, where);
		if (c.verbose && c.outputs)
			tell_totals(&c);
		packer_close(c.packer);
		outputs_close(c.outputs);
		walk_deinit(&c.walk);
		listing_free(&c.last.l);
	}
	settings_deinit(&c.settings);
	return code;
}

void compress_help(void)
{
	printf("\nHow files are stored, as for a mount (defaults in parentheses):\n");
	option_help(settings_rows, SETTINGS_ROWS, "--");
}
