#include "fs/options.h"

#include "base/buf.h"
#include "codec/chunk.h"
#include "fs/policy/wish.h"

#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What has to be judged together with other words, which may come in any order. */
struct words {
	const char *codec, *filter, *pipeline, *tune, *rules, *recompress;
	uint64_t level, typesize, blocksize;
	const char *profile;
	bool has_level;
};

struct copy {
	struct copy *next;
	char text[];
};

struct parse {
	struct options *o;
	struct words w;
	struct buf mount;  /* options for libfuse, with commas               */
	struct copy *copy; /* of each -o, cut into words: argv itself is what ps(1) shows */
};

enum kind { TEXT, SIZE, NUMBER, SECONDS };

#define SECONDS_A_DAY 86400

/* One row an option: how to read it, where it goes, what --help says. */
static const struct row {
	const char *name;
	enum kind kind;
	bool in_words; /* `at` is in struct words, else in struct options */
	size_t at;
	uint64_t min, max;
	const char *arg, *help;
} rows[] = {
#define OPT(field) false, offsetof(struct options, field)
#define WORD(field) true, offsetof(struct words, field)
	{"codec", TEXT, WORD(codec), 0, 0, "NAME", "blosclz, lz4, lz4hc, zlib or zstd (zstd)"},
	{"level", NUMBER, WORD(level), 0, 9, "N",
	 "0 store, 1 fast ... 9 small; auto: as small as the workers keep up with (1)"},
	{"filter", TEXT, WORD(filter), 0, 0, "NAME",
	 "none, shuffle, bitshuffle, delta, bytedelta, ... (cframe codecs lists them)"},
	{"typesize", NUMBER, WORD(typesize), 1, 255, "N", "bytes of an item, for the filters (1)"},
	{"pipeline", TEXT, WORD(pipeline), 0, 0, "TEXT",
	 "filter, item size, codec and level in one: shuffle:4+zstd:3"},
	{"tune", TEXT, WORD(tune), 0, 0, "AIM",
	 "choose filters by looking at the data: balanced, size, speed, off (balanced)"},
	{"profile", TEXT, WORD(profile), 0, 0, "NAME",
	 "random: blocks of 16K, for small random reads"},
	{"rules", TEXT, WORD(rules), 0, 0, "FILE",
	 "pipelines by name, in lines such as: *.fits shuffle:4+zstd:3"},
	{"chunksize", SIZE, OPT(chunksize), OPTIONS_CHUNKSIZE_MIN, OPTIONS_CHUNKSIZE_MAX, "SIZE",
	 "bytes of a chunk (1M)"},
	{"blocksize", SIZE, WORD(blocksize), OPTIONS_BLOCKSIZE_MIN, OPTIONS_BLOCKSIZE_MAX, "SIZE",
	 "bytes decoded at once (64K)"},
	{"recompress", TEXT, WORD(recompress), 0, 0, "WHEN",
	 "compress cold files again: idle, after 10 seconds without a request, or after so many"
	 " (off)"},
	{"cache", SIZE, OPT(cache), 1 << 20, UINT64_MAX, "SIZE",
	 "memory for decoded blocks (128M)"},
	{"dirty_max", SIZE, OPT(dirty_max), 1 << 20, UINT64_MAX, "SIZE",
	 "memory for unwritten data (64M)"},
	{"workers", NUMBER, OPT(workers), 1, 256, "N", "compression threads (one a core)"},
	{"commit", SECONDS, OPT(commit), 0, 3600, "SECONDS",
	 "time between background commits, 0 none (5)"},
	{"intent", SIZE, OPT(intent), 0, 1ull << 40, "SIZE",
	 "log of small fsyncs in the backing directory, 0 none (64M)"},
	{"readahead", SIZE, OPT(readahead), 0, 1 << 30, "SIZE",
	 "kernel read-ahead of the mount (2M)"},
	{"max_read", SIZE, OPT(max_read), 4096, 1 << 20, "SIZE",
	 "the kernel reads in pieces of this size (256K)"},
	{"entry_timeout", SECONDS, OPT(entry_timeout), 0, SECONDS_A_DAY, "SECONDS",
	 "how long the kernel keeps names (1)"},
	{"attr_timeout", SECONDS, OPT(attr_timeout), 0, SECONDS_A_DAY, "SECONDS",
	 "how long the kernel keeps attributes (1)"},
#undef OPT
#undef WORD
};

/* Words of fstab and mount(8) that mean nothing to a file system. */
static const char *const ignored[] = {
	"defaults", "auto", "noauto", "user", "nouser", "users", "nousers", "owner", "group",
	"_netdev", "nofail", "relatime", "strictatime", "nostrictatime", "norelatime",
	"default_permissions", "lazytime", "nolazytime",
};

/* Words that libfuse or the kernel understand. */
static const char *const passed_on[] = {
	"rw", "ro", "suid", "nosuid", "dev", "nodev", "exec", "noexec", "atime", "noatime",
	"diratime", "nodiratime", "sync", "async", "dirsync", "allow_other", "allow_root",
	"auto_unmount",
};
/* What the kernel shows of a FUSE mount comes back with -o remount. */
static const char *const ignored_with_value[] = {
	"x-", "comment=", "user_id=", "group_id=", "rootmode=", "fd=", "blksize=", "user=",
};
static const char *const passed_on_with_value[] = {
	"fsname=", "subtype=", "context=", "fscontext=", "defcontext=", "rootcontext=",
};

static int complain(const char *what, const char *word, const char *why)
{
	fprintf(stderr, "cframefs: %s '%s': %s\n", what, word, why);
	return -EINVAL;
}

int options_parse_size(const char *text, uint64_t *out)
{
	static const char units[] = "KMGT";
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	uint64_t n = strtoull(text, &end, 10);
	if (errno)
		return -EINVAL;
	if (*end) {
		char letter = (char)(*end & ~0x20); /* upper case */
		const char *unit = strchr(units, letter);
		if (!unit || !letter || mul_overflows(n, 1ull << (10 * (unit - units + 1)), &n))
			return -EINVAL;
		end++;
		if (strcmp(end, "iB") == 0 || strcmp(end, "B") == 0)
			end = "";
	}
	if (*end)
		return -EINVAL;
	*out = n;
	return 0;
}

static int parse_seconds(const char *text, double max, double *out)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds >= 0) || seconds > max)
		return -EINVAL;
	*out = seconds;
	return 0;
}

/* 65536 as "64K". */
static void spell_size(uint64_t n, char out[static 24])
{
	static const char *const units[] = {"", "K", "M", "G", "T"};
	unsigned unit = 0;

	for (; n && n % 1024 == 0 && unit < 4; n /= 1024)
		unit++;
	snprintf(out, 24, "%llu%s", (unsigned long long)n, units[unit]);
}

static int complain_of_range(const struct row *row, const char *value)
{
	char least[24], most[24], why[160];

	spell_size(row->min, least);
	spell_size(row->max, most);
	if (row->max == UINT64_MAX)
		snprintf(why, sizeof why, "%s is less than %s", value, least);
	else
		snprintf(why, sizeof why, "%s is not from %s to %s", value, least, most);
	return complain("option", row->name, why);
}

static bool takes_auto(const struct row *row)
{
	return strcmp(row->name, "level") == 0;
}

static const char *wanted(const struct row *row)
{
	if (row->kind == SIZE)
		return "wants a size such as 64K or 1M";
	return takes_auto(row) ? "wants a whole number, or auto" : "wants a whole number";
}

static int parse_row(struct parse *p, const struct row *row, const char *value)
{
	char *at = (row->in_words ? (char *)&p->w : (char *)p->o) + row->at;
	uint64_t number;

	switch (row->kind) {
	case TEXT:
		*(const char **)(void *)at = value;
		return 0;
	case SECONDS:
		return parse_seconds(value, (double)row->max, (double *)(void *)at) < 0
			       ? complain("option", row->name, "wants a number of seconds")
			       : 0;
	case SIZE:
	case NUMBER:
		break;
	}
	if (takes_auto(row)) {
		p->o->level_auto = strcmp(value, "auto") == 0;
		p->w.has_level = !p->o->level_auto;
		if (p->o->level_auto)
			return 0;
	}
	if (options_parse_size(value, &number) < 0)
		return complain("option", row->name, wanted(row));
	if (number < row->min || number > row->max)
		return complain_of_range(row, value);
	*(uint64_t *)(void *)at = number;
	return 0;
}

static bool in_list(const char *word, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(word, list[i]) == 0)
			return true;
	return false;
}

static bool starts_in_list(const char *word, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strncmp(word, list[i], strlen(list[i])) == 0)
			return true;
	return false;
}

#define STARTS_IN_LIST(word, list) starts_in_list((word), (list), sizeof(list) / sizeof *(list))
#define IN_LIST(word, list) in_list((word), (list), sizeof(list) / sizeof *(list))

static int pass_on(struct parse *p, const char *word)
{
	if (p->mount.n)
		TRY(buf_append(&p->mount, view_of(",", 1)));
	return buf_append(&p->mount, view_of(word, strlen(word)));
}

static int parse_mount_word(struct parse *p, const char *word)
{
	if (IN_LIST(word, ignored) || STARTS_IN_LIST(word, ignored_with_value))
		return 0;
	if (strcmp(word, "remount") == 0) {
		p->o->remount = true;
		return 0;
	}
	if (strcmp(word, "nonempty") == 0) {
		p->o->nonempty = true;
		return 0;
	}
	if (strcmp(word, "ro") == 0 || strcmp(word, "rw") == 0)
		p->o->read_only = word[1] == 'o';
	if (IN_LIST(word, passed_on) || STARTS_IN_LIST(word, passed_on_with_value))
		return pass_on(p, word);
	return complain("unknown option", word, "see --help");
}

static int parse_word(struct parse *p, char *word)
{
	char *value = strchr(word, '=');
	size_t len = value ? (size_t)(value - word) : strlen(word);

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		if (strlen(rows[i].name) != len || strncmp(rows[i].name, word, len) != 0)
			continue;
		if (!value || !value[1])
			return complain("option", rows[i].name, "wants a value");
		return parse_row(p, &rows[i], value + 1);
	}
	return parse_mount_word(p, word);
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

#define SPELT_MAX (PIPELINE_TEXT_MAX * 2)

/* The pipeline in its text form, as `pipeline` says or the other words do. */
static void spell_pipeline(const struct words *w, char text[static SPELT_MAX])
{
	bool filtered = w->filter && strcmp(w->filter, "none") != 0;
	char level[8] = "";
	char typesize[32] = "";

	if (w->pipeline) {
		snprintf(text, SPELT_MAX, "%s", w->pipeline);
		return;
	}
	if (w->has_level)
		snprintf(level, sizeof level, ":%u", (unsigned)w->level);
	if (w->typesize)
		snprintf(typesize, sizeof typesize, ":%u", (unsigned)w->typesize);
	snprintf(text, SPELT_MAX, "%s%s%s%s%s", filtered ? w->filter : "",
		 filtered ? typesize : "", filtered ? "+" : "", w->codec ? w->codec : "zstd",
		 level);
}

static int judge_pipeline(struct parse *p)
{
	struct pipeline *line = &p->o->pipeline;
	char text[SPELT_MAX], why[160];

	pipeline_default(line);
	bool has_level = p->w.has_level || p->o->level_auto;
	if (p->w.pipeline && (p->w.codec || p->w.filter || has_level || p->w.typesize))
		return complain("option", "pipeline",
				"already says codec, level, filter and typesize");
	spell_pipeline(&p->w, text);
	if (pipeline_parse(line, text, why, sizeof why) < 0)
		return complain("pipeline", text, why);
	if (!p->w.pipeline && p->w.typesize)
		line->typesize = (uint32_t)p->w.typesize;
	p->o->free_level = !has_level && !p->w.pipeline;
	p->o->free_blocksize = !p->w.blocksize && !p->w.profile &&
			       p->o->chunksize >= OPTIONS_CHUNKSIZE_FREE;
	return 0;
}

int options_parse_tune(const char *text, enum options_tune *out)
{
	static const char *const aims[] = {
		[OPTIONS_TUNE_OFF] = "off", [OPTIONS_TUNE_BALANCED] = "balanced",
		[OPTIONS_TUNE_SIZE] = "size", [OPTIONS_TUNE_SPEED] = "speed",
	};

	for (size_t i = 0; i < sizeof aims / sizeof *aims; i++)
		if (strcmp(text, aims[i]) == 0) {
			*out = (enum options_tune)i;
			return 0;
		}
	return -EINVAL;
}

/* Naming a filter or an item size leaves nothing to be chosen. */
static int judge_tune(struct parse *p)
{
	bool named = p->w.filter || p->w.typesize || p->w.pipeline;

	if (!p->w.tune) {
		p->o->tune =
			named || !p->o->pipeline.level ? OPTIONS_TUNE_OFF : OPTIONS_TUNE_BALANCED;
		return 0;
	}
	if (options_parse_tune(p->w.tune, &p->o->tune) < 0)
		return complain("option tune", p->w.tune, "is none of balanced, size, speed, off");
	return named && p->o->tune
		       ? complain("option", "tune", "filter, typesize and pipeline say it already")
		       : 0;
}

#define IDLE 10 /* seconds */

static int judge_recompress(struct parse *p)
{
	const char *word = p->w.recompress;

	if (!word || strcmp(word, "off") == 0)
		return 0;
	p->o->recompress = IDLE;
	if (strcmp(word, "idle") == 0)
		return 0;
	if (parse_seconds(word, SECONDS_A_DAY, &p->o->recompress) < 0 || p->o->recompress == 0)
		return complain("option recompress", word, "is none of idle, off, seconds");
	return 0;
}

#define CHUNKSIZE (1 << 20)         /* where none is given */
#define BLOCKSIZE_RANDOM (16 << 10) /* of profile=random   */

uint64_t options_chunksize_most(const struct options *o)
{
	return max_u64(o->dirty_max / 2 & ~((uint64_t)CHUNKSIZE - 1), CHUNKSIZE);
}

/* Beside its dirty bytes, a chunk is there decoded, as it was stored, and as it will be. */
#define CHUNK_COPIES 5
#define CHUNKS_BESIDE (32u << 20)

uint64_t options_chunksize_writable(const struct options *o)
{
	uint64_t all = min_u64(o->cache, UINT64_MAX / 4) + o->dirty_max + CHUNKS_BESIDE;
	return max_u64(all / CHUNK_COPIES, options_chunksize_most(o));
}

static int complain_of_chunksize(uint64_t most)
{
	char size[24], why[80];

	spell_size(most, size);
	snprintf(why, sizeof why, "is %s at most, half of dirty_max", size);
	return complain("option", "chunksize", why);
}

/* Block and chunk sizes: a block is whole items, a chunk whole blocks. */
static int judge_sizes(struct parse *p)
{
	struct options *o = p->o;
	uint64_t item = o->pipeline.typesize;
	uint64_t usual = p->w.profile ? BLOCKSIZE_RANDOM : OPTIONS_BLOCKSIZE;
	uint64_t block = p->w.blocksize ? p->w.blocksize : min_u64(usual, o->chunksize);
	char why[160];

	if (p->w.profile && strcmp(p->w.profile, "random") != 0)
		return complain("option profile", p->w.profile, "is none of: random");
	if (o->chunksize > options_chunksize_most(o))
		return complain_of_chunksize(options_chunksize_most(o));
	if (p->w.blocksize > o->chunksize)
		return complain("option", "blocksize", "is larger than the chunk");
	o->pipeline.blocksize = (uint32_t)(block - block % item);
	if (pipeline_check(&o->pipeline, why, sizeof why) < 0)
		return complain("option", "pipeline", why);
	return 0;
}

static int judge_paths(struct options *o, int argc, char **argv)
{
	static const char *const amiss[] = {"BACKING and MOUNTPOINT are missing",
					    "MOUNTPOINT is missing", NULL, "too many arguments"};

	if (argc != 2) {
		fprintf(stderr, "cframefs: %s; see --help\n", amiss[argc < 3 ? argc : 3]);
		return -EINVAL;
	}
	o->backing = realpath(argv[0], NULL);
	if (!o->backing)
		return complain("backing directory", argv[0], strerror(errno));
	o->mountpoint = realpath(argv[1], NULL);
	if (!o->mountpoint)
		return complain("mount point", argv[1],
				errno == ENOTCONN ? OPTIONS_NO_DAEMON : strerror(errno));
	return 0;
}

static void set_defaults(struct options *o)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	*o = (struct options){
		.chunksize = CHUNKSIZE,
		.cache = 128 << 20,
		.dirty_max = 64 << 20,
		.workers = cores > 0 ? (uint64_t)cores : 1,
		.readahead = 2 << 20,
		.max_read = 256 << 10,
		.commit = 5,
		.intent = 64 << 20,
		.entry_timeout = 1,
		.attr_timeout = 1,
	};
}

static int parse_all(struct parse *p, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {0}};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "fdhVso:", long_options, NULL)) != -1) {
		switch (c) {
		case 'f': p->o->foreground = true; break;
		case 'd': p->o->debug = p->o->foreground = true; break;
		case 'h': p->o->help = true; break;
		case 'V': p->o->version = true; break;
		case 's': break; /* mount(8) passes it on: sloppy */
		case 'o': TRY(parse_list(p, optarg)); break;
		default:
			return complain("argument", argv[optind - 1],
					optopt == 'o' ? "wants options" : "unknown; see --help");
		}
	}
	if (p->o->help || p->o->version)
		return 0;
	TRY(judge_pipeline(p));
	TRY(judge_tune(p));
	TRY(judge_sizes(p));
	TRY(judge_recompress(p));
	if (p->w.rules)
		TRY(rules_read(&p->o->rules, p->w.rules));
	return judge_paths(p->o, argc - optind, argv + optind);
}

int options_parse(struct options *o, int argc, char **argv)
{
	set_defaults(o);
	struct parse p = {.o = o};
	int rc = parse_all(&p, argc, argv);
	if (rc >= 0)
		rc = buf_append(&p.mount, view_of("", 1));
	if (rc >= 0)
		o->mount_opts = mem_strdup((char *)p.mount.p);
	buf_free(&p.mount);
	while (p.copy) {
		struct copy *next = p.copy->next;
		mem_free(p.copy);
		p.copy = next;
	}
	if (rc >= 0 && !o->mount_opts)
		rc = -ENOMEM;
	return rc;
}

void options_free(struct options *o)
{
	free(o->backing); /* of realpath */
	free(o->mountpoint);
	mem_free(o->mount_opts);
	rules_free(o->rules);
	*o = (struct options){0};
}

void options_help(void)
{
	printf("usage: cframefs BACKING MOUNTPOINT [-f] [-d] [-o OPTION[,OPTION...]]\n"
	       "Mounts a directory of Blosc2 frames as plain files, read and write.\n\n"
	       "  -f             stay in the foreground, log to stderr\n"
	       "  -d             the same with debug messages\n"
	       "  -h, --help     this text\n"
	       "  -V, --version  versions of cframefs and its libraries\n\n"
	       "options for -o (default):\n");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char left[64];
		snprintf(left, sizeof left, "%s=%s", rows[i].name, rows[i].arg);
		printf("  %-22s %s\n", left, rows[i].help);
	}
	printf("  %-22s %s\n", "rw, ro, allow_other, noatime, nosuid, ...", "as for mount(8)");
}
