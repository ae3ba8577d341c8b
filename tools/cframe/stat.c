/*
 * Shows what a mount has done: the JSON of its extended attribute user.cframefs.stats, as it is or
 * as a table; with --watch again and again, with rates since the last look.
 */
#include "args.h"
#include "cframe.h"
#include "mounts.h"
#include "say.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/utf8.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define XATTR_MAX (64 << 10) /* of any extended attribute */

/* Two looks at one mount. */
struct looks {
	cJSON *now, *before;
	double seconds; /* between them; 0: this is the first look */
};

static double number(const cJSON *in, const char *group, const char *name)
{
	double v = cJSON_GetNumberValue(cJSON_GetObjectItem(cJSON_GetObjectItem(in, group), name));
	return isnan(v) ? 0 : v;
}

static double total(const struct looks *l, const char *group, const char *name)
{
	return number(l->now, group, name);
}

static void format_count(double v, char out[static 16])
{
	snprintf(out, 16, "%.0f", v);
}

/* Prints a total, and after the first look its rate per second. */
static void print_total(const struct looks *l, const char *group, const char *name,
			const char *label, void (*format)(double, char[static 16]))
{
	double v = total(l, group, name);
	char text[16];
	format(v, text);
	printf("  %-24s %14s", label, text);
	if (l->seconds > 0) {
		format((v - number(l->before, group, name)) / l->seconds, text);
		printf(" %12s/s", text);
	}
	printf("\n");
}

static void print_count(const struct looks *l, const char *group, const char *name,
			const char *label)
{
	print_total(l, group, name, label, format_count);
}

static void print_bytes(const struct looks *l, const char *group, const char *name,
			const char *label)
{
	print_total(l, group, name, label, tool_bytes_text);
}

static void print_requests(const struct looks *l)
{
	const cJSON *row;
	printf("\nrequests\n");
	cJSON_ArrayForEach(row, cJSON_GetObjectItem(l->now, "requests"))
	{
		if (cJSON_GetNumberValue(row) > 0)
			print_count(l, "requests", row->string, row->string);
	}
}

static void print_answers(const struct looks *l)
{
	static const char *const name[][2] = {{"dirty", "data not yet in the frame"},
					      {"hole", "holes"},
					      {"cache", "cached blocks"},
					      {"read_ahead", "blocks read ahead"},
					      {"miss", "decoded on demand"}};
	double all = 0;
	for (int i = 0; i < 5; i++)
		all += total(l, "answered_from", name[i][0]);
	printf("\nreads were answered from\n");
	for (int i = 0; i < 5; i++) {
		double v = total(l, "answered_from", name[i][0]);
		printf("  %-26s %12.0f %6.1f %%\n", name[i][1], v, all > 0 ? 100 * v / all : 0);
	}
}

static void print_data(const struct looks *l)
{
	printf("\nread\n");
	print_bytes(l, "read", "returned_bytes", "returned");
	print_bytes(l, "read", "decoded_bytes", "decoded");
	print_bytes(l, "read", "disk_bytes", "read from disk");
	print_count(l, "read", "disk_reads", "disk reads");
	print_bytes(l, "read", "pushed_bytes", "pushed");
	print_count(l, "read", "decoded_blocks", "blocks decoded");
	print_count(l, "read", "decoded_parts", "in part");
	print_count(l, "read", "preloaded_files", "files preloaded");
	printf("  %-24s %14.3f decoded, %.3f from disk\n", "per byte returned",
	       total(l, "amplification", "decoded_per_returned"),
	       total(l, "amplification", "disk_per_returned"));
	printf("\nwritten\n");
	print_bytes(l, "write", "application_bytes", "by applications");
	print_bytes(l, "write", "encoded_from", "encoded");
	print_bytes(l, "write", "encoded_to", "encoded to");
	print_bytes(l, "write", "disk_bytes", "written to disk");
	print_count(l, "write", "disk_writes", "disk writes");
	print_count(l, "write", "disk_syncs", "disk syncs");
	print_count(l, "write", "commits", "commits");
	if (total(l, "log", "records") > 0) {
		print_count(l, "log", "records", "intent log: records");
		print_bytes(l, "log", "bytes", "intent log: bytes");
		print_count(l, "log", "syncs", "intent log: syncs");
	}
	if (total(l, "recompress", "chunks") > 0) {
		print_bytes(l, "recompress", "from", "recompressed");
		print_bytes(l, "recompress", "to", "recompressed to");
	}
	printf("  %-24s %14.3f to disk\n", "per byte written",
	       total(l, "amplification", "disk_per_written"));
}

static void print_memory(const struct looks *l)
{
	static const char *const name[][3] = {{"cache_bytes", "cache_max", "decoded blocks"},
					      {"dirty_bytes", "dirty_max", "dirty data"}};
	char used[16], most[16];
	printf("\nmemory\n");
	for (int i = 0; i < 2; i++) {
		tool_bytes_text(total(l, "memory", name[i][0]), used);
		tool_bytes_text(total(l, "memory", name[i][1]), most);
		printf("  %-24s %14s of %s\n", name[i][2], used, most);
	}
	print_bytes(&(struct looks){.now = l->now}, "memory", "resident_bytes", "of the process");
}

static void print_times(const struct looks *l)
{
	const cJSON *row;
	printf("\n%-12s %12s %10s %10s %10s %10s %12s\n", "us", "count", "mean", "median", "90 %",
	       "99 %", "longest");
	cJSON_ArrayForEach(row, cJSON_GetObjectItem(l->now, "latency_us"))
	{
		double v[6];
		static const char *const name[] = {"count", "mean", "p50", "p90", "p99", "max"};
		for (int i = 0; i < 6; i++)
			v[i] = cJSON_GetNumberValue(cJSON_GetObjectItem(row, name[i]));
		if (v[0] > 0)
			printf("%-12s %12.0f %10.1f %10.1f %10.1f %10.1f %12.1f\n", row->string,
			       v[0], v[1], v[2], v[3], v[4], v[5]);
	}
}

static void print_table(const char *mountpoint, const struct looks *l)
{
	const char *version = cJSON_GetStringValue(cJSON_GetObjectItem(l->now, "version"));
	tool_print_path(mountpoint);
	printf(": cframefs %s, %.0f s\n", version ? version : "",
	       cJSON_GetNumberValue(cJSON_GetObjectItem(l->now, "seconds")));
	print_requests(l);
	print_answers(l);
	print_data(l);
	print_memory(l);
	print_times(l);
}

/* If this is not a mount, anybody may have written the attribute. */
static void make_printable(cJSON *tree)
{
	for (; tree; tree = tree->next) {
		if (tree->string)
			utf8_make_printable(tree->string);
		if (tree->valuestring)
			utf8_make_printable(tree->valuestring);
		make_printable(tree->child);
	}
}

static int look(const char *mountpoint, cJSON **tree)
{
	*tree = NULL;
	char *text = mem_zalloc(XATTR_MAX + 1);
	if (!text)
		return -ENOMEM;
	int rc = getxattr(mountpoint, MOUNT_STATS, text, XATTR_MAX) < 0 ? -errno : 0;
	if (rc == 0)
		*tree = cJSON_Parse(text);
	mem_free(text);
	make_printable(*tree);
	return rc < 0 || *tree ? rc : -EBADMSG;
}

static int fail(const char *mountpoint, int rc)
{
	if (rc != -ENODATA && rc != -EOPNOTSUPP)
		return tool_fail(mountpoint, rc);
	tool_say("%s: is not the mount point of a cframefs", mountpoint);
	return 1;
}

static double clock_of(const cJSON *tree)
{
	return tree ? cJSON_GetNumberValue(cJSON_GetObjectItem(tree, "seconds")) : 0;
}

struct form {
	bool json;
	double every; /* seconds; 0: once */
};

static int print_look(const char *mountpoint, const struct looks *l, struct form form)
{
	if (form.json)
		return tool_print_json(l->now, form.every > 0 ? JSON_LINE : JSON_LINES);
	if (form.every > 0 && isatty(STDOUT_FILENO))
		printf("\033[H\033[J"); /* clears the screen */
	print_table(mountpoint, l);
	return 0;
}

static int show(const char *mountpoint, struct form form)
{
	struct looks l = {0};
	bool said, again = form.every > 0;
	int rc;
	do {
		rc = look(mountpoint, &l.now);
		l.seconds = l.before && l.now ? clock_of(l.now) - clock_of(l.before) : 0;
		if (rc == 0)
			rc = print_look(mountpoint, &l, form);
		cJSON_Delete(l.before);
		l = (struct looks){.before = l.now};
		said = fflush(stdout) == 0; /* if not, main reports it */
		if (rc == 0 && said && again)
			clock_sleep(clock_from_seconds(form.every));
	} while (rc == 0 && said && again);
	cJSON_Delete(l.before);
	return rc < 0 ? fail(mountpoint, rc) : 0;
}

/* True: the word is a number, and not the name of a mount point. */
static bool is_number(const char *word, double *v)
{
	char *end;
	*v = strtod(word, &end);
	return strchr("-.0123456789", *word) && end > word && !*end;
}

/* "--watch", "--watch 5", or "--watch=5". False: not a valid time, which has been reported. */
static bool read_watch(char **argv, double *every)
{
	bool next = !optarg && argv[optind] && is_number(argv[optind], every);

	optind += next;
	if (!optarg && !next)
		*every = 1;
	else if ((optarg && !is_number(optarg, every)) || !(*every >= 0.1 && *every <= 3600)) {
		tool_say("option '--watch': needs 0.1 to 3600 seconds");
		return false;
	}
	return true;
}

int stat_main(int argc, char **argv)
{
	static const struct option names[] = {{"json", no_argument, NULL, 'J'},
					      {"watch", optional_argument, NULL, 'w'},
					      {0}};
	struct form form = {0};

	for (int got; (got = args_next(argc, argv, "", names)) != ARGS_END;) {
		if (got == ARGS_WRONG)
			return 1;
		if (got == 'J')
			form.json = true;
		else if (!read_watch(argv, &form.every))
			return 1;
	}
	if (argc - optind != 1)
		return tool_usage(argv[0]);
	return show(argv[optind], form);
}
