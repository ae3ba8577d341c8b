#include "fs/options.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/pool.h"
#include "fs/large.h"

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct copy {
	struct copy *next;
	char text[];
};

struct parse {
	struct options o;
	struct settings_words words; /* checked together; they come in any order */
	const char *recompress;
	struct buf mount;  /* options for libfuse, with commas               */
	struct copy *copy; /* of each -o, to be split into words: ps(1) shows argv itself */
	struct option_why why;
};

#define SECONDS_A_DAY 86400

/* In addition to those of settings.h. */
static const struct option_row rows[] = {
#define OPT(field) offsetof(struct parse, field)
	{"recompress", OPTION_TEXT, OPT(recompress), 0, 0, "WHEN",
	 "recompress files while the mount is idle: idle (after 10 seconds without a request), or"
	 " a number of seconds (off)"},
	{"cache", OPTION_SIZE, OPT(o.cache), 1 << 20, UINT64_MAX, "SIZE",
	 "memory for decoded blocks (128M)"},
	{"dirty_max", OPTION_SIZE, OPT(o.dirty_max), 1 << 20, UINT64_MAX, "SIZE",
	 "memory for data not yet written (64M)"},
	{"workers", OPTION_NUMBER, OPT(o.workers), 1, POOL_MOST, "N",
	 "compression threads (one per core)"},
	{"commit", OPTION_SECONDS, OPT(o.commit), 0, 3600, "SECONDS",
	 "time between background commits; 0: none (5)"},
	{"intent", OPTION_SIZE, OPT(o.intent), 0, 1ull << 40, "SIZE",
	 "size of the log for small fsyncs, in the backing directory; 0: none (64M)"},
	{"readahead", OPTION_SIZE, OPT(o.readahead), 0, 1 << 30, "SIZE",
	 "the kernel's read-ahead for this mount (2M)"},
	{"max_read", OPTION_SIZE, OPT(o.max_read), 4096, 1 << 20, "SIZE",
	 "largest read request of the kernel (256K)"},
	{"entry_timeout", OPTION_SECONDS, OPT(o.entry_timeout), 0, SECONDS_A_DAY, "SECONDS",
	 "how long the kernel caches names (1)"},
	{"attr_timeout", OPTION_SECONDS, OPT(o.attr_timeout), 0, SECONDS_A_DAY, "SECONDS",
	 "how long the kernel caches attributes (1)"},
#undef OPT
};

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define NROWS COUNT(rows)

/*
 * Words of fstab and mount(8) that mean nothing to a file system, and those that the kernel shows
 * for a FUSE mount and that come back with -o remount. Here and below, a word that ends in = or -
 * stands for all that begin with it.
 */
static const char *const ignored[] = {
	"defaults", "auto", "noauto", "user", "nouser", "users", "nousers", "owner", "group",
	"_netdev", "nofail", "relatime", "strictatime", "nostrictatime", "norelatime",
	"default_permissions", "lazytime", "nolazytime", "diratime", "nodiratime", "silent", "loud",
	"x-", "comment=", "user_id=", "group_id=", "rootmode=", "fd=", "blksize=", "user=",
};

/* Words that libfuse or the kernel understand. */
static const char *const passed_on[] = {
	"rw", "ro", "suid", "nosuid", "dev", "nodev", "exec", "noexec", "atime", "noatime",
	"sync", "async", "dirsync", "allow_other", "allow_root", "auto_unmount",
	"fsname=", "subtype=", "context=", "fscontext=", "defcontext=", "rootcontext=",
};

/* What other file systems call an option of ours. */
static const struct {
	const char *word, *meant;
} elsewhere[] = {
	{"compress", "codec"}, {"compression", "codec"}, {"threads", "workers"},
};

static int refuse(struct parse *p, const char *what, const char *word, const char *reason)
{
	return option_refuse(&p->why, what, word, reason);
}

static bool in_list(const char *word, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(list[i]);
		bool begins = list[i][len - 1] == '=' || list[i][len - 1] == '-';
		if (begins ? strncmp(word, list[i], len) == 0 : strcmp(word, list[i]) == 0)
			return true;
	}
	return false;
}

#define IN_LIST(word, list) in_list((word), (list), COUNT(list))

/*
 * libfuse takes the character after a backslash literally, so a trailing one would swallow the
 * comma before the next word.
 */
static int pass_on(struct parse *p, const char *word)
{
	if (p->mount.n)
		TRY(buf_append(&p->mount, view_of(",", 1)));
	for (; *word; word++) {
		if (*word == '\\')
			TRY(buf_append(&p->mount, view_of("\\", 1)));
		TRY(buf_append(&p->mount, view_of(word, 1)));
	}
	return 0;
}

/* Refuses a word that is unknown. */
static int refuse_unknown(struct parse *p, const char *word)
{
	struct nearest near = nearest_to(view_of(word, strcspn(word, "=")));
	char text[64] = "see --help";

	for (size_t i = 0; i < COUNT(elsewhere); i++)
		nearest_offer(&near, elsewhere[i].word, elsewhere[i].meant);
	for (size_t i = 0; i < SETTINGS_ROWS; i++)
		nearest_offer(&near, settings_rows[i].name, settings_rows[i].name);
	for (size_t i = 0; i < NROWS; i++)
		nearest_offer(&near, rows[i].name, rows[i].name);
	for (size_t i = 0; i < COUNT(passed_on); i++)
		nearest_offer(&near, passed_on[i], passed_on[i]);
	if (near.meant)
		snprintf(text, sizeof text, "did you mean '%s'?", near.meant);
	return refuse(p, "unknown option", word, text);
}

static int parse_mount_word(struct parse *p, const char *word)
{
	if (IN_LIST(word, ignored))
		return 0;
	if (strcmp(word, "remount") == 0) {
		p->o.remount = true;
		return 0;
	}
	if (strcmp(word, "nonempty") == 0) {
		p->o.nonempty = true;
		return 0;
	}
	if (strcmp(word, "ro") == 0 || strcmp(word, "rw") == 0)
		p->o.read_only = word[1] == 'o';
	if (strcmp(word, "sync") == 0 || strcmp(word, "async") == 0)
		p->o.synchronous = word[0] == 's';
	if (IN_LIST(word, passed_on))
		return pass_on(p, word);
	return refuse_unknown(p, word);
}

static int parse_word(struct parse *p, char *word)
{
	char *value = strchr(word, '=');
	struct view name = view_of(word, strcspn(word, "="));
	void *to = &p->words;
	const struct option_row *row = option_find(settings_rows, SETTINGS_ROWS, name);

	if (!row) {
		to = p;
		row = option_find(rows, NROWS, name);
	}
	if (!row)
		return parse_mount_word(p, word);
	if (strcmp(row->name, "max_read") != 0) /* shown by the kernel, so a remount passes it */
		p->o.own = row->name;
	if (!value || !value[1])
		return refuse(p, "option", row->name, "needs a value");
	return option_read(row, value + 1, to, &p->why);
}

static int parse_list(struct parse *p, const char *list)
{
	struct copy *c = mem_zalloc(sizeof *c + strlen(list) + 1);
	char *word;

	if (!c)
		return -ENOMEM;
	strcpy(c->text, list);
	c->next = p->copy;
	p->copy = c;
	char *rest = c->text;

	while ((word = strsep(&rest, ",")))
		if (*word)
			TRY(parse_word(p, word));
	return 0;
}

#define IDLE 10 /* seconds */

static int judge_recompress(struct parse *p)
{
	const char *word = p->recompress;

	if (!word || strcmp(word, "off") == 0)
		return 0;
	p->o.recompress = IDLE;
	if (strcmp(word, "idle") == 0)
		return 0;
	if (option_parse_seconds(word, SECONDS_A_DAY, &p->o.recompress) < 0 || p->o.recompress == 0)
		return refuse(p, "option recompress", word,
			      "is none of: idle, off, a number of seconds up to 86400");
	return 0;
}

/*
 * While a block is decoded, memory holds its stored bytes, two buffers between its filters, and the
 * block itself: at most what large_most (large.h) grants.
 */
#define BLOCK_COPIES 5

static uint64_t whole_mib(uint64_t bytes)
{
	return bytes & ~((1ull << 20) - 1);
}

void options_set_sizes_most(struct options *o)
{
	o->settings.chunksize_most = max_u64(whole_mib(o->dirty_max / 2), SETTINGS_CHUNKSIZE);
	o->settings.blocksize_most = whole_mib(large_most_beside(o->cache) / BLOCK_COPIES);
}

/*
 * In addition to its dirty bytes a chunk is in memory decoded, in its old stored form, and in its
 * new one.
 */
#define CHUNK_COPIES 5

uint64_t options_chunksize_writable(const struct options *o)
{
	uint64_t all = min_u64(o->cache, UINT64_MAX / 4) + o->dirty_max + LARGE_BEYOND;
	return max_u64(all / CHUNK_COPIES, o->settings.chunksize_most);
}

/* `share`: how `most` follows from the other options. */
static int judge_size(struct parse *p, const char *name, uint64_t bytes, uint64_t most,
		      const char *share)
{
	char size[OPTION_SIZE_MAX], why[80];

	if (bytes <= most)
		return 0;
	option_spell_size(most, size);
	snprintf(why, sizeof why, "is %s at most, %s", size, share);
	return refuse(p, "option", name, why);
}

static int judge_settings(struct parse *p)
{
	const struct settings *s = &p->o.settings;

	TRY(settings_judge(&p->o.settings, &p->words, &p->why));
	options_set_sizes_most(&p->o);
	TRY(judge_size(p, "chunksize", s->chunksize, s->chunksize_most, "half of dirty_max"));
	return judge_size(p, "blocksize", s->pipeline.blocksize, s->blocksize_most,
			  "a fifth of cache and 32M");
}

int options_set_read_only(struct options *o)
{
	struct buf all = {0};

	o->read_only = true;
	TRY(buf_print(&all, "%s%sro", o->mount_opts, *o->mount_opts ? "," : ""));
	int rc = buf_append(&all, view_of("", 1));
	char *opts = rc < 0 ? NULL : mem_strdup((char *)all.p);
	buf_free(&all);
	if (!opts)
		return -ENOMEM;
	mem_free(o->mount_opts);
	o->mount_opts = opts;
	return 0;
}

const char *options_path_error(int error)
{
	if (error == EACCES && geteuid() == 0)
		return "permission denied even to root: it may be in another user's FUSE mount";
	switch (error) {
	case ENOENT: return "there is no such directory; make it first (mkdir)";
	case ENOTCONN: return "its daemon is gone; umount it first";
	default: return strerror(error);
	}
}

static int judge_backing(struct parse *p, int argc, char **argv)
{
	struct options *o = &p->o;

	if (argc != 1)
		return refuse(p, "argument", "--recompress", "is for one BACKING directory");
	if (o->read_only)
		return refuse(p, "argument", "--recompress", "writes, which -o ro forbids");
	if (o->remount)
		return refuse(p, "argument", "--recompress", "is for no mount: -o remount");
	o->backing = realpath(argv[0], NULL);
	return o->backing ? 0
			  : refuse(p, "backing directory", argv[0], options_path_error(errno));
}

static int judge_paths(struct parse *p, int argc, char **argv)
{
	struct options *o = &p->o;
	static const char *const amiss[] = {"BACKING and MOUNTPOINT are missing",
					    "MOUNTPOINT is missing", NULL, "too many arguments"};

	if (o->recompress_all)
		return judge_backing(p, argc, argv);
	if (argc != 2) {
		snprintf(p->why.text, sizeof p->why.text, "%s; see --help",
			 amiss[argc < 3 ? argc : 3]);
		return -EINVAL;
	}
	o->backing = realpath(argv[0], NULL);
	if (!o->backing)
		return refuse(p, "backing directory", argv[0], options_path_error(errno));
	if (strncmp(argv[1], "/dev/fd/", 8) == 0) /* the descriptor of an existing mount */
		return refuse(p, "mount point", argv[1],
			      "drop_privileges is not supported; umount what mount(8) has left");
	o->mountpoint = realpath(argv[1], NULL);
	if (!o->mountpoint)
		return refuse(p, "mount point", argv[1], options_path_error(errno));
	return 0;
}

static void set_defaults(struct options *o)
{
	*o = (struct options){
		.cache = 128 << 20,
		.dirty_max = 64 << 20,
		.workers = pool_cores(),
		.readahead = 2 << 20,
		.max_read = 256 << 10,
		.commit = 5,
		.intent = 64 << 20,
		.entry_timeout = 1,
		.attr_timeout = 1,
	};
}

/*
 * Refuses what getopt did not accept: a letter, or else `word`. Mount options are often tried with
 * dashes.
 */
static int refuse_argument(struct parse *p, const char *word)
{
	const char letter[] = {'-', (char)optopt, 0};

	if (optopt == 'o')
		return refuse(p, "argument", letter, "needs options");
	if (optopt && !strchr("hVR", optopt)) /* not these: they come from --help=x */
		return refuse(p, "argument", letter, "unknown; see --help");
	bool dashes = strncmp(word, "--", 2) == 0;
	struct view name = dashes ? view_of(word + 2, strcspn(word + 2, "=")) : view_of("", 0);
	if (option_find(settings_rows, SETTINGS_ROWS, name) || option_find(rows, NROWS, name) ||
	    (dashes && IN_LIST(word + 2, passed_on)))
		return refuse(p, "argument", word, "options of a mount follow -o, without dashes");
	return refuse(p, "argument", word, "unknown; see --help");
}

static int parse_all(struct parse *p, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{"recompress", no_argument, NULL, 'R'},
		{0}};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "fdhVso:", long_options, NULL)) != -1) {
		switch (c) {
		case 'f': p->o.foreground = true; break;
		case 'd': p->o.debug = p->o.foreground = true; break;
		case 'h': p->o.help = true; break;
		case 'V': p->o.version = true; break;
		case 'R': p->o.recompress_all = true; break;
		case 's': break; /* mount(8) passes it on: sloppy */
		case 'o': TRY(parse_list(p, optarg)); break;
		default:
			return refuse_argument(p, argv[optind - 1]);
		}
	}
	if (p->o.help || p->o.version)
		return 0;
	TRY(judge_settings(p));
	TRY(judge_recompress(p));
	return judge_paths(p, argc - optind, argv + optind);
}

int options_parse(struct options *o, int argc, char **argv)
{
	struct parse p = {0};
	set_defaults(&p.o);
	settings_words_init(&p.words);
	int rc = parse_all(&p, argc, argv);
	if (p.why.text[0])
		log_tell("%s", p.why.text);
	if (rc >= 0)
		rc = buf_append(&p.mount, view_of("", 1));
	if (rc >= 0)
		p.o.mount_opts = mem_strdup((char *)p.mount.p);
	buf_free(&p.mount);
	while (p.copy) {
		struct copy *next = p.copy->next;
		mem_free(p.copy);
		p.copy = next;
	}
	*o = p.o;
	if (rc >= 0 && !o->mount_opts)
		rc = -ENOMEM;
	return rc;
}

void options_free(struct options *o)
{
	free(o->backing); /* of realpath */
	free(o->mountpoint);
	mem_free(o->mount_opts);
	settings_deinit(&o->settings);
	*o = (struct options){0};
}

void options_help(void)
{
	printf("usage: cframefs BACKING MOUNTPOINT [-f] [-d] [-o OPTION[,OPTION...]]\n"
	       "       cframefs --recompress BACKING [-d] [-o OPTION[,OPTION...]]\n"
	       "Mounts a directory of Blosc2 frames as plain files, for reading and writing.\n\n"
	       "  -f             stay in the foreground, log to stderr\n"
	       "  -d             the same, with debug messages\n"
	       "  --recompress   mount nothing: make all files as small as recompress=idle would\n"
	       "  -h, --help     show this help\n"
	       "  -V, --version  show the versions of cframefs and its libraries\n\n"
	       "Example: mkdir store files; cframefs store files; cp data files/; umount files\n\n"
	       "Options for -o (defaults in parentheses; see man cframefs for details):\n");
	option_help(settings_rows, SETTINGS_ROWS, "");
	option_help(rows, NROWS, "");
	printf("  %-22s %s\n", "rw, ro, allow_other, noatime, nosuid, ...", "as for mount(8)");
}
