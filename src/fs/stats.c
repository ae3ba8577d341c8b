#include "fs/stats.h"

#include "fs/ops/ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

_Static_assert(STATS_REQUESTS + (int)OPS_KINDS <= METER_COUNTS, "more counters than the meter has");
_Static_assert(STATS_TIMERS <= METER_TIMERS, "more timers than the meter has");

#define OPS_NAME(name, params, args, timer) #name,
static const char *const kinds[] = {OPS_EACH(OPS_NAME)};

struct number {
	const char *name;
	uint64_t value;
};

static int print_group(struct buf *out, const char *name, const struct number *row, size_t n)
{
	TRY(buf_print(out, ",\n \"%s\": {", name));
	for (size_t i = 0; i < n; i++)
		TRY(buf_print(out, "%s\"%s\": %" PRIu64, i ? ", " : "", row[i].name, row[i].value));
	return buf_print(out, "}");
}

#define GROUP(out, name, ...)                                                                      \
	print_group(out, name, (struct number[]){__VA_ARGS__},                                     \
		    sizeof((struct number[]){__VA_ARGS__}) / sizeof(struct number))

static int print_requests(struct buf *out, const struct meter_sums *s)
{
	struct number row[OPS_KINDS];

	for (int i = 0; i < OPS_KINDS; i++)
		row[i] = (struct number){kinds[i], s->count[STATS_REQUESTS + i]};
	return print_group(out, "requests", row, OPS_KINDS);
}

static int print_timers(struct buf *out, const struct meter_sums *s)
{
	static const char *const name[STATS_TIMERS] = {
		[METER_DECODE] = "decode",	   [METER_COMMIT] = "commit",
		[STATS_TIME_READ] = "read",	   [STATS_TIME_WRITE] = "write",
		[STATS_TIME_SYNC] = "sync",	   [STATS_TIME_OTHER] = "other",
		[STATS_TIME_ENCODE] = "encode",
	};

	TRY(buf_print(out, ",\n \"latency_us\": {"));
	for (int i = 0; i < STATS_TIMERS; i++) {
		const struct meter_timer *t = &s->timer[i];
		TRY(buf_print(out, "%s\n  \"%s\": {\"count\": %" PRIu64 ", \"mean\": %.1f",
			      i ? "," : "", name[i], t->n,
			      t->n ? (double)t->ns / 1e3 / (double)t->n : 0));
		TRY(buf_print(out, ", \"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, \"max\": %.1f}",
			      (double)meter_percentile(t, 0.5) / 1e3,
			      (double)meter_percentile(t, 0.9) / 1e3,
			      (double)meter_percentile(t, 0.99) / 1e3, (double)t->most / 1e3));
	}
	return buf_print(out, "}");
}

static uint64_t resident_bytes(void)
{
	uint64_t all, resident = 0;

	FILE *in = fopen("/proc/self/statm", "re");
	if (!in)
		return 0;
	if (fscanf(in, "%" SCNu64 "%" SCNu64, &all, &resident) != 2)
		resident = 0;
	fclose(in);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int print_memory(struct fs *fs, struct buf *out)
{
	struct cache_counts cache;

	cache_counts(fs->cache, &cache);
	TRY(GROUP(out, "cache", {"hits", cache.hits}, {"misses", cache.misses},
		  {"evicted", cache.evicted}));
	return GROUP(out, "memory", {"cache_bytes", cache.bytes}, {"cache_max", fs->opt.cache},
		     {"dirty_bytes", budget_used(fs->budget)}, {"dirty_max", fs->opt.dirty_max},
		     {"resident_bytes", resident_bytes()});
}

static double over(uint64_t a, uint64_t b)
{
	return b ? (double)a / (double)b : 0;
}

static int print_data(struct buf *out, const uint64_t *c)
{
	TRY(GROUP(out, "answered_from", {"dirty", c[STATS_FROM_DIRTY]},
		  {"hole", c[STATS_FROM_HOLE]}, {"cache", c[STATS_FROM_CACHE]},
		  {"read_ahead", c[STATS_FROM_READAHEAD]}, {"miss", c[STATS_FROM_MISS]}));
	TRY(GROUP(out, "read", {"returned_bytes", c[STATS_READ_BYTES]},
		  {"decoded_blocks", c[METER_BLOCKS_DECODED]},
		  {"decoded_parts", c[METER_PARTS_DECODED]},
		  {"decoded_bytes", c[METER_BYTES_DECODED]}, {"disk_reads", c[METER_DISK_READS]},
		  {"disk_bytes", c[METER_DISK_READ_BYTES]},
		  {"plain_bytes", c[STATS_PLAIN_READ_BYTES]},
		  {"preloaded_files", c[STATS_PRELOADED]},
		  {"pushed_bytes", c[STATS_PUSHED_BYTES]}));
	TRY(GROUP(out, "write", {"application_bytes", c[STATS_WRITE_BYTES]},
		  {"chunks", c[STATS_CHUNKS_ENCODED]}, {"encoded_from", c[STATS_ENCODED_FROM]},
		  {"encoded_to", c[STATS_ENCODED_TO]}, {"disk_writes", c[METER_DISK_WRITES]},
		  {"disk_bytes", c[METER_DISK_WRITTEN_BYTES]}, {"disk_syncs", c[METER_DISK_SYNCS]},
		  {"commits", c[METER_COMMITS]}, {"plain_bytes", c[STATS_PLAIN_WRITE_BYTES]}));
	TRY(GROUP(out, "log", {"records", c[STATS_LOG_RECORDS]}, {"bytes", c[STATS_LOG_BYTES]},
		  {"syncs", c[STATS_LOG_SYNCS]}));
	TRY(GROUP(out, "recompress", {"chunks", c[STATS_RECOMPRESSED]},
		  {"from", c[STATS_RECOMPRESSED_FROM]}, {"to", c[STATS_RECOMPRESSED_TO]}));
	return buf_print(out,
			 ",\n \"amplification\": {\"disk_per_returned\": %.3f, "
			 "\"decoded_per_returned\": %.3f, "
			 "\"disk_per_written\": %.3f}",
			 over(c[METER_DISK_READ_BYTES], c[STATS_READ_BYTES]),
			 over(c[METER_BYTES_DECODED], c[STATS_READ_BYTES]),
			 over(c[METER_DISK_WRITTEN_BYTES] + c[STATS_LOG_BYTES],
			      c[STATS_WRITE_BYTES]));
}

static int print_all(struct fs *fs, struct buf *out, const struct meter_sums *s)
{
	TRY(buf_print(out, "{\"version\": \"%s\", \"pid\": %d, \"seconds\": %.3f", VERSION,
		      (int)getpid(), clock_to_seconds(meter_now() - fs->began)));
	TRY(print_requests(out, s));
	TRY(print_data(out, s->count));
	TRY(print_memory(fs, out));
	TRY(print_timers(out, s));
	return buf_print(out, "}\n");
}

uint64_t stats_all_requests(struct meter_sums *room)
{
	uint64_t sum = 0;

	meter_read(room);
	for (int i = 0; i < OPS_KINDS; i++)
		sum += room->count[STATS_REQUESTS + i];
	return sum;
}

uint64_t stats_requests(struct meter_sums *room)
{
	uint64_t all = stats_all_requests(room);

	return all - room->count[STATS_REQUESTS + (int)OPS_KIND_forget] -
	       room->count[STATS_REQUESTS + (int)OPS_KIND_forget_multi];
}

int stats_print(struct fs *fs, struct buf *out)
{
	struct meter_sums *s = mem_zalloc(sizeof *s);
	if (!s)
		return -ENOMEM;
	meter_read(s);
	int rc = print_all(fs, out, s);
	mem_free(s);
	return rc;
}
