/*
 * Measures cells of the codec bench and prints one JSON object a line.
 *
 *   codec_cells LIBRARY versions
 *   codec_cells LIBRARY kernels ROUNDS
 *   codec_cells LIBRARY range FILE ROUNDS
 *   codec_cells LIBRARY cells FILE CHUNK ROUNDS THREADS BARE [TYPESIZE...]
 *
 * With CELLS in the environment, a pattern: only cells of such a name, as "shuffle:4 lz4:5".
 *
 * The sides take turns within a round; a sample repeats the call for some milliseconds and
 * counts the processor time of this thread (with several threads: the time on the wall), so
 * that other programs on the machine disturb little. The figure is the median of the rounds.
 */
#include "codec_sides.h"

#include "codec/block.h"
#include "codec/kernels/cpu.h"
#include "codec/versions.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS_MAX 64
#define SAMPLE_NS 2e6

static clockid_t the_clock = CLOCK_THREAD_CPUTIME_ID;

static double now(void)
{
	struct timespec t;
	clock_gettime(the_clock, &t);
	return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* A thing to time; `run` does it once. */
struct probe {
	void (*run)(struct probe *);
	struct bench *bench;
	enum side_id side;
	void *more;
	int repeat;
	double sample[ROUNDS_MAX];
};

/*
 * What the probe before left in the caches is not measured: short calls run once before the clock.
 */
static double sample(struct probe *p)
{
	if (p->repeat > 1)
		p->run(p);
	double t = now();
	for (int i = 0; i < p->repeat; i++)
		p->run(p);
	return (now() - t) / p->repeat;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Nanoseconds a call, the median, in sample[0]. */
static void measure(struct probe *p, int n, int rounds)
{
	if (rounds < 1 || rounds > ROUNDS_MAX)
		die("rounds: 1 to 64");
	for (int i = 0; i < n; i++) {
		p[i].repeat = 1;
		double t = sample(&p[i]);
		p[i].repeat = t > SAMPLE_NS ? 1 : (int)(SAMPLE_NS / (t + 1)) + 1;
	}
	for (int r = 0; r < rounds; r++)
		for (int i = 0; i < n; i++) {
			/* Who comes first finds what others left: the two sides do so in turn. */
			int other = i ^ (r % 2);
			struct probe *next = &p[other < n ? other : i];
			next->sample[r] = sample(next);
		}
	for (int i = 0; i < n; i++) {
		qsort(p[i].sample, (size_t)rounds, sizeof(double), compare);
		p[i].sample[0] = p[i].sample[rounds / 2];
	}
}

static double rate(const struct probe *p, size_t bytes)
{
	return 1e3 * (double)bytes / p->sample[0]; /* MB/s */
}

static void run_encode(struct probe *p)
{
	bench_encode(p->bench, p->side);
}

static void run_decode(struct probe *p)
{
	bench_decode(p->bench, p->side);
}

/* ---- bare codecs on filtered blocks ---- */

struct bare {
	struct buf filtered, payload[SIDES], out;
	uint32_t *stream; /* lengths */
	size_t nstreams, *len[SIDES];
};

static void run_bare_encode(struct probe *p)
{
	struct bare *x = p->more;
	size_t at = 0, bytes = 0;
	for (size_t i = 0; i < x->nstreams; i++) {
		struct view src = view_of(x->filtered.p + at, x->stream[i]);
		struct span dst = span_of(x->payload[p->side].p + bytes, src.n - 1);
		x->len[p->side][i] = bare_encode(p->bench, p->side, src, dst);
		at += src.n;
		bytes += x->len[p->side][i];
	}
	x->payload[p->side].n = bytes;
}

static void run_bare_decode(struct probe *p)
{
	struct bare *x = p->more;
	size_t at = 0, bytes = 0;
	for (size_t i = 0; i < x->nstreams; i++) {
		size_t n = x->len[p->side][i];
		if (n)
			bare_decode(p->bench, p->side, view_of(x->payload[p->side].p + bytes, n),
				    span_of(x->out.p + at, x->stream[i]));
		at += x->stream[i];
		bytes += n;
	}
}

/* Filters all blocks as the chunk has them, streams one after the other. */
static void bare_open(struct bare *x, struct bench *b)
{
	struct chunk c = {0};
	struct block_plan plan = {.typesize = b->cell.typesize};
	if (chunk_parse(&c, buf_view(&b->chunk[OURS]), b->chunk[OURS].n, 0))
		die("parse");
	for (unsigned i = 0; i < b->cell.nfilters; i++)
		block_add_filter(&plan, filter_by_id(b->cell.filters[i]),
				 b->cell.filters[i] == FILTER_BYTEDELTA ? b->cell.typesize : 0);
	*x = (struct bare){.stream = calloc(b->src.n, sizeof *x->stream)};
	for (uint32_t i = 0; i < c.nblocks; i++) {
		struct extent at = chunk_block_bytes(&c, i);
		struct block blk = {.nstreams = 1};
		struct view v;
		if (block_filter(&plan, b->scratch, &blk, view_part(b->src, at.off, at.len), &v) <
			    0 ||
		    buf_append(&x->filtered, v) < 0)
			die("no memory");
		uint32_t n = c.split && at.len == c.blocksize ? c.typesize : 1;
		for (uint32_t k = 0; k < n; k++)
			x->stream[x->nstreams++] = at.len / n;
	}
	for (int i = 0; i < SIDES; i++) {
		x->len[i] = calloc(x->nstreams + 1, sizeof *x->len[i]);
		if (buf_reserve(&x->payload[i], b->src.n + 64) < 0)
			die("no memory");
	}
	if (buf_reserve(&x->out, b->src.n) < 0)
		die("no memory");
	chunk_deinit(&c);
}

static void bare_close(struct bare *x)
{
	free(x->stream);
	buf_free(&x->filtered);
	buf_free(&x->out);
	for (int i = 0; i < SIDES; i++) {
		free(x->len[i]);
		buf_free(&x->payload[i]);
	}
}

/* What did not become smaller is stored as it is. */
static size_t bare_bytes(const struct bare *x, enum side_id side)
{
	size_t bytes = 0;
	for (size_t i = 0; i < x->nstreams; i++)
		bytes += x->len[side][i] ? x->len[side][i] : x->stream[i];
	return bytes;
}

static void print_bare(struct bench *b, int rounds)
{
	struct bare x;
	struct probe p[4];
	bare_open(&x, b);
	int n = 0;
	for (int way = 0; way < 2; way++)
		for (int side = 0; side < SIDES; side++)
			if (bare_exists(b, side))
				p[n++] = (struct probe){way ? run_bare_decode : run_bare_encode, b,
							side, &x};
	measure(p, n, rounds);
	for (int i = 0; i < n / 2; i++) {
		const char *who = p[i].side == OURS ? "ours" : "reference";
		printf(", \"bare_%s\": {\"encode\": %.1f, \"decode\": %.1f, \"bytes\": %zu}", who,
		       rate(&p[i], b->src.n), rate(&p[n / 2 + i], b->src.n),
		       bare_bytes(&x, p[i].side));
	}
	bare_close(&x);
}

/* ---- whole chunks ---- */

static const char *const codec_name[] = {"blosclz", "lz4", "lz4hc", "", "zlib", "zstd"};

static bool is_wanted(const struct cell *c)
{
	const char *pattern = getenv("CELLS");
	char name[80];
	snprintf(name, sizeof name, "%s%s%s:%d %s:%d",
		 c->nfilters ? filter_by_id(c->filters[0])->name : "none",
		 c->nfilters > 1 ? "+" : "",
		 c->nfilters > 1 ? filter_by_id(c->filters[1])->name : "", c->typesize,
		 codec_name[c->codec], c->level);
	return !pattern || !fnmatch(pattern, name, FNM_EXTMATCH);
}

static void print_cell(struct bench *b, int rounds, bool bare)
{
	static const char *const side[] = {"ours", "reference"};
	const struct cell *c = &b->cell;
	struct probe p[4] = {
		{run_encode, b, OURS}, {run_encode, b, REFERENCE},
		{run_decode, b, OURS}, {run_decode, b, REFERENCE},
	};
	measure(p, 4, rounds);
	printf("{\"codec\": \"%s\", \"level\": %d, \"filters\": \"", codec_name[c->codec],
	       c->level);
	for (unsigned i = 0; i < c->nfilters; i++)
		printf("%s%s", i ? "+" : "", filter_by_id(c->filters[i])->name);
	printf("\", \"typesize\": %d, \"threads\": %d, \"blocksize\": %u", c->typesize, c->threads,
	       b->pipeline.blocksize);
	for (int i = 0; i < SIDES; i++)
		printf(", \"%s\": {\"encode\": %.1f, \"decode\": %.1f, \"bytes\": %zu}", side[i],
		       rate(&p[i], b->src.n), rate(&p[2 + i], b->src.n), b->chunk[i].n);
	if (bare)
		print_bare(b, rounds);
	puts("}");
	fflush(stdout);
}

static struct view read_file(const char *name)
{
	struct buf b = {0};
	uint8_t part[65536];
	FILE *f = fopen(name, "rb");
	if (!f)
		die(name);
	for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
		if (buf_append(&b, view_of(part, n)) < 0)
			die("no memory");
	fclose(f);
	return buf_view(&b);
}

struct job {
	struct scratch *scratch;
	struct pool *pool;
	struct view src;
	int rounds, threads;
	bool bare;
};

static void each_cell(const struct job *j, uint8_t typesize)
{
	static const struct {
		uint8_t codec, level;
	} codec[] = {{0, 5}, {1, 5}, {2, 5}, {4, 5}, {5, 1}, {5, 5}};
	static const struct {
		uint8_t filters[2], n;
	} filter[] = {{{1, 0}, 1}, {{2, 0}, 1}, {{1, 35}, 2}, {{0, 0}, 0}};
	for (size_t i = 0; i < sizeof codec / sizeof codec[0]; i++)
		for (size_t k = 0; k < sizeof filter / sizeof filter[0]; k++) {
			struct cell c = {.codec = codec[i].codec, .level = codec[i].level,
					 .typesize = typesize, .threads = j->threads,
					 .nfilters = filter[k].n};
			memcpy(c.filters, filter[k].filters, 2);
			if (!is_wanted(&c))
				continue;
			struct bench b;
			bench_open(&b, &c, j->src, j->scratch, j->pool);
			print_cell(&b, j->rounds, j->bare);
			bench_close(&b);
		}
}

static int cells(int argc, char **argv)
{
	if (argc < 9)
		return 2;
	struct job j = {.rounds = atoi(argv[5]), .threads = atoi(argv[6]), .bare = atoi(argv[7])};
	struct view all = read_file(argv[3]);
	size_t len = strtoul(argv[4], NULL, 10);
	if (scratch_open(&j.scratch) < 0)
		die("no memory");
	if (j.threads > 1) {
		the_clock = CLOCK_MONOTONIC;
		if (pool_open(&j.pool, (unsigned)j.threads - 1) < 0)
			die("no threads");
	}
	for (size_t at = 0; at < all.n; at += len) {
		j.src = view_part(all, at, min_u64(len, all.n - at));
		for (int i = 8; i < argc; i++)
			each_cell(&j, (uint8_t)atoi(argv[i]));
	}
	pool_close(j.pool);
	scratch_close(j.scratch);
	free((void *)all.p);
	return 0;
}

/* ---- kernels ---- */

struct kernel_call {
	struct kernels *k;
	int which;
	size_t size, n;
	uint8_t *src, *dst;
};

static void run_kernel(struct probe *p)
{
	const struct kernel_call *c = p->more;
	void (*const ours[])(size_t, size_t, const uint8_t *, uint8_t *) = {
		c->k->shuffle, c->k->unshuffle, c->k->bitshuffle, c->k->bitunshuffle,
	};
	if (p->side == OURS)
		ours[c->which](c->size, c->n / c->size, c->src, c->dst);
	else
		ref.kernel[c->which]((int32_t)c->size, (int32_t)c->n, c->src, c->dst);
}

static void run_memcpy(struct probe *p)
{
	const struct kernel_call *c = p->more;
	memcpy(c->dst, c->src, c->n);
	__asm__ volatile("" : : "r"(c->dst) : "memory");
}

static int kernels(int argc, char **argv)
{
	static const char *const name[] = {"shuffle", "unshuffle", "bitshuffle", "bitunshuffle"};
	static const size_t size[] = {1, 2, 4, 8, 16};
	const size_t n = 64 << 10;
	struct kernels k;
	struct buf src = {0}, dst = {0};
	if (argc < 4 || buf_reserve(&src, n) < 0 || buf_reserve(&dst, n) < 0)
		return 2;
	kernels_init(&k, cpu_features());
	for (size_t i = 0; i < n; i++)
		src.p[i] = (uint8_t)(i * i >> 5);
	for (int which = 0; which < 4; which++)
		for (size_t s = which < 2; s < sizeof size / sizeof size[0]; s++) {
			struct kernel_call c = {&k, which, size[s], n, src.p, dst.p};
			struct probe p[3] = {{run_kernel, NULL, OURS, &c},
					     {run_kernel, NULL, REFERENCE, &c},
					     {run_memcpy, NULL, OURS, &c}};
			measure(p, 3, atoi(argv[3]));
			printf("{\"kernel\": \"%s\", \"typesize\": %zu, \"ours\": %.0f, "
			       "\"reference\": %.0f, \"memcpy\": %.0f}\n",
			       name[which], size[s], rate(&p[0], n), rate(&p[1], n),
			       rate(&p[2], n));
		}
	buf_free(&src);
	buf_free(&dst);
	return 0;
}

/* ---- 4 KiB out of 16 MiB ---- */

#define RANGE_CHUNK (16u << 20)
#define RANGE_BYTES 4096u

struct range {
	struct chunk chunk;
	uint32_t at;
	uint8_t *item;
	bool parsed;
};

/* As the daemon reads a little: no more of a block than it must, where that can be done. */
static void our_range(struct range *r, struct bench *b, const struct chunk *c)
{
	uint32_t first = chunk_block_at(c, r->at),
		 last = chunk_block_at(c, r->at + RANGE_BYTES - 1);
	uint32_t lo = r->at - chunk_block_bytes(c, first).off;
	struct run run = {first, last - first + 1};
	struct extent e = chunk_extent(c, run);
	struct view stored = view_of(b->chunk[OURS].p + e.off, e.len);
	struct span whole = span_of(b->back.p, chunk_run_bytes(c, run));
	struct span item = span_of(r->item, RANGE_BYTES);
	struct chunk_part part = {first, lo};
	if (run.n == 1 && chunk_has_parts(c, b->scratch) &&
	    chunk_decode_part(c, b->scratch, part, stored, item) == 0)
		return;
	if (run.n == 1 && chunk_can_pack(c)) {
		if (chunk_decode_packed(c, b->scratch, first, stored, whole) ||
		    chunk_unpack(c, b->scratch, span_view(whole), lo, item))
			die("decode");
		return;
	}
	if (chunk_decode(c, b->scratch, run, stored, whole))
		die("decode");
	memcpy(r->item, whole.p + lo, RANGE_BYTES);
}

static void run_range(struct probe *p)
{
	struct range *r = p->more;
	struct bench *b = p->bench;
	r->at = (r->at + 7777 * RANGE_BYTES) % (RANGE_CHUNK - RANGE_BYTES);
	r->at -= r->at % b->cell.typesize;
	const struct buf *in = &b->chunk[p->side];
	if (p->side == REFERENCE) {
		if (ref.getitem(b->dctx, in->p, (int32_t)in->n, (int)(r->at / b->cell.typesize),
				(int)(RANGE_BYTES / b->cell.typesize), r->item, RANGE_BYTES) < 0)
			die("getitem");
		return;
	}
	struct chunk once = {0}, *c = r->parsed ? &r->chunk : &once;
	if (!r->parsed && chunk_parse(c, buf_view(in), in->n, 0))
		die("parse");
	our_range(r, b, c);
	chunk_deinit(&once);
}

static void print_range(struct bench *b, int rounds)
{
	uint8_t item[RANGE_BYTES];
	struct range fresh = {.item = item}, parsed = {.item = item, .parsed = true},
		     theirs = fresh;
	if (chunk_parse(&parsed.chunk, buf_view(&b->chunk[OURS]), b->chunk[OURS].n, 0))
		die("parse");
	struct probe p[3] = {{run_range, b, OURS, &fresh}, {run_range, b, OURS, &parsed},
			     {run_range, b, REFERENCE, &theirs}};
	measure(p, 3, rounds);
	printf("{\"range\": \"4 KiB of 16 MiB\", \"codec\": %d, \"level\": %d, \"typesize\": %d, "
	       "\"blocksize\": %u, \"ours_us\": %.2f, \"ours_parsed_us\": %.2f, \"reference_us\": "
	       "%.2f}\n",
	       b->cell.codec, b->cell.level, b->cell.typesize, b->pipeline.blocksize,
	       p[0].sample[0] / 1e3, p[1].sample[0] / 1e3, p[2].sample[0] / 1e3);
	chunk_deinit(&parsed.chunk);
}

/* Our own choice of block size here, and the reference's: what a reader of each will meet. */
static int ranges(int argc, char **argv)
{
	static const struct cell cell[] = {
		{5, 1, {1, 0}, 1, 4, 1}, {1, 5, {1, 0}, 1, 4, 1}, {0, 5, {1, 0}, 1, 8, 1},
	};
	struct scratch *s;
	if (argc < 5 || scratch_open(&s) < 0)
		return 2;
	struct view file = read_file(argv[3]);
	struct buf src = {0};
	while (src.n < RANGE_CHUNK)
		if (buf_append(&src, file) < 0)
			die("no memory");
	src.n = RANGE_CHUNK;
	for (size_t i = 0; i < sizeof cell / sizeof cell[0]; i++) {
		struct bench b;
		bench_open(&b, &cell[i], buf_view(&src), s, NULL);
		print_range(&b, atoi(argv[4]));
		b.pipeline.blocksize = 0;
		bench_encode(&b, OURS);
		print_range(&b, atoi(argv[4]));
		bench_close(&b);
	}
	buf_free(&src);
	free((void *)file.p);
	scratch_close(s);
	return 0;
}

static int versions(void)
{
	printf("{\"ours\": {");
	for (unsigned i = 0; i < versions_count(); i++)
		printf("%s\"%s\": \"%s\"", i ? ", " : "", versions_at(i).library,
		       versions_at(i).version);
	printf("}, \"reference\": {\"lz4\": \"%s\", \"zstd\": \"%s\", \"zlib\": \"zlib-ng %s\"}}\n",
	       ref.lz4_version(), ref.zstd_version(), ref.zlib_version());
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	reference_open(argv[1]);
	if (!strcmp(argv[2], "versions"))
		return versions();
	if (!strcmp(argv[2], "kernels"))
		return kernels(argc, argv);
	if (!strcmp(argv[2], "range"))
		return ranges(argc, argv);
	return cells(argc, argv);
}
