/*
 * Shows what the tuner chooses for a file, beside everything that it could have chosen: sizes and
 * speeds of real chunks. The facts are collected once, as a JSON tree, and the table is printed
 * from it.
 */
#include "args.h"
#include "cframe.h"
#include "open.h"
#include "say.h"

#include "codec/chunk.h"
#include "codec/tune/tune.h"
#include "frame/io/io.h"

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (1u << 20)
#define FEW 6 /* chunks that are looked at without --all */
#define CANDIDATES_MAX 40

/* Bytes and seconds of one pipeline, over all chunks. */
struct sum {
	struct pipeline pipeline;
	uint64_t bytes, stored;
	double encode, decode;
};

struct work {
	struct scratch *s;
	struct io *io;
	uint64_t size;
	uint64_t step; /* bytes from chunk to chunk */
	struct tune_goal goal;
	struct tune_report first; /* of the first chunk */
	struct pipeline chosen;   /* for the first chunk */
	struct sum tuned;         /* as a daemon would write it: choosing again when due */
	cJSON *changes;           /* where another pipeline begins */
	double choosing;
	unsigned nchoices;
	struct sum each[CANDIDATES_MAX];
	unsigned n;
	struct buf chunk, stored, back;
};

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* a busy machine is not the codec's fault */
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Encodes and decodes the chunk, and adds the seconds of both. */
static int code(struct work *w, struct sum *sum)
{
	struct view v = buf_view(&w->chunk);
	double start = seconds();
	TRY(chunk_encode(w->s, &sum->pipeline, v, &w->stored));
	double coded = seconds();
	TRY(buf_reserve_fresh(&w->back, v.n));
	TRY(chunk_decode_all(w->s, buf_view(&w->stored), 0, span_of(w->back.p, v.n)));
	sum->encode += coded - start;
	sum->decode += seconds() - coded;
	return memcmp(w->back.p, v.p, v.n) ? -EIO : 0;
}

static int measure(struct work *w, struct sum *sum)
{
	struct sum first = *sum;

	/*
	 * The first run is not counted: it allocates memory and makes tables that later ones reuse.
	 */
	if (!sum->bytes)
		TRY(code(w, &first));
	TRY(code(w, sum));
	sum->bytes += w->chunk.n;
	sum->stored += w->stored.n;
	return 0;
}

static int load(struct work *w, uint64_t at)
{
	size_t n = (size_t)min_u64(CHUNK, w->size - at);
	TRY(buf_reserve_fresh(&w->chunk, n));
	w->chunk.n = n;
	int rc = io_pread(w->io, at, buf_span(&w->chunk));
	return rc == -EBADMSG ? -ESTALE : rc; /* a plain file got shorter; it is not corrupt */
}

static bool is_same_pipeline(const struct pipeline *a, const struct pipeline *b)
{
	return a->level == b->level && a->typesize == b->typesize && a->blocksize == b->blocksize &&
	       a->split_mode == b->split_mode && !memcmp(a->filter, b->filter, FILTER_SLOTS) &&
	       !memcmp(a->meta, b->meta, FILTER_SLOTS);
}

static void note_change(struct work *w, uint64_t at)
{
	char text[PIPELINE_TEXT_MAX];
	cJSON *one = cJSON_CreateObject();
	pipeline_format(&w->tuned.pipeline, text);
	cJSON_AddNumberToObject(one, "at", (double)at);
	cJSON_AddStringToObject(one, "pipeline", text);
	cJSON_AddItemToArray(w->changes, one);
}

/* As a daemon decides it (policy.h). */
static bool deserves_choice(const struct work *w, uint64_t at)
{
	return w->chunk.n >= TUNE_MIN || (!at && tune_stands_out(w->s, buf_view(&w->chunk)));
}

/* Even where a daemon would not choose, the report has what it would have found. */
static int choose(struct work *w, uint64_t at, struct tune_report *r)
{
	struct tune_input in = {buf_view(&w->chunk), at};
	struct pipeline before = w->tuned.pipeline;
	double start = seconds();
	TRY(tune_choose(w->s, &w->goal, &in, &w->tuned.pipeline, r));
	w->choosing += seconds() - start;
	if (deserves_choice(w, at)) {
		w->nchoices++;
	} else {
		w->tuned.pipeline = w->goal.base;
		tune_raise_level(&w->goal, &w->tuned.pipeline);
	}
	if (!at || !is_same_pipeline(&before, &w->tuned.pipeline))
		note_change(w, at);
	return 0;
}

/* Notes the choice for the first chunk, and all that could have been chosen for it. */
static void note_first(struct work *w, const struct tune_report *r)
{
	uint32_t item = r->period ? r->period : r->hint.record ? r->hint.record : r->hint.item;

	w->first = *r;
	w->chosen = w->tuned.pipeline;
	while (w->n < CANDIDATES_MAX &&
	       tune_candidate(&w->goal, item, w->n, &w->each[w->n].pipeline))
		w->n++;
}

static int measure_chunks(struct work *w)
{
	struct tune_report r = {0};
	uint64_t since = 0;
	for (uint64_t at = 0; at < w->size; at += w->step) {
		TRY(load(w, at));
		if (!at || (w->chunk.n >= TUNE_MIN &&
			    !tune_still_good(w->s, &r, since, buf_view(&w->chunk)))) {
			TRY(choose(w, at, &r));
			since = 0;
		}
		if (!at)
			note_first(w, &r);
		TRY(measure(w, &w->tuned));
		since += w->step;
		for (unsigned i = 0; i < w->n; i++)
			TRY(measure(w, &w->each[i]));
	}
	return 0;
}

static void add_sum(cJSON *to, const struct sum *s, bool chosen)
{
	char text[PIPELINE_TEXT_MAX];
	pipeline_format(&s->pipeline, text);
	cJSON_AddStringToObject(to, "pipeline", text);
	cJSON_AddBoolToObject(to, "one_stream", s->pipeline.split_mode == SPLIT_NEVER);
	cJSON_AddNumberToObject(to, "blocksize", s->pipeline.blocksize);
	cJSON_AddNumberToObject(to, "bytes", (double)s->bytes);
	cJSON_AddNumberToObject(to, "stored", (double)s->stored);
	cJSON_AddNumberToObject(to, "encode_mb_s",
				s->encode > 0 ? (double)s->bytes / 1e6 / s->encode : 0);
	cJSON_AddNumberToObject(to, "decode_mb_s",
				s->decode > 0 ? (double)s->bytes / 1e6 / s->decode : 0);
	cJSON_AddBoolToObject(to, "chosen", chosen);
}

static void describe(cJSON *to, const char *file, struct work *w)
{
	cJSON_AddStringToObject(to, "file", file);
	cJSON_AddNumberToObject(to, "size", (double)w->size);
	cJSON_AddStringToObject(to, "format", w->first.hint.format ? w->first.hint.format : "");
	cJSON_AddNumberToObject(to, "item", w->first.hint.item);
	cJSON_AddNumberToObject(to, "period", w->first.period);
	cJSON_AddNumberToObject(to, "choices", w->nchoices);
	cJSON_AddNumberToObject(to, "choosing_ms", w->choosing * 1e3);
	struct sum tuned = w->tuned;
	tuned.pipeline = w->chosen;
	add_sum(cJSON_AddObjectToObject(to, "tuned"), &tuned, true);
	cJSON_AddItemToObject(to, "changes", w->changes);
	w->changes = NULL;
	cJSON *list = cJSON_AddArrayToObject(to, "candidates");
	for (unsigned i = 0; i < w->n; i++) {
		cJSON *one = cJSON_CreateObject();
		bool chosen = is_same_pipeline(&w->each[i].pipeline, &w->chosen);
		add_sum(one, &w->each[i], chosen);
		cJSON_AddItemToArray(list, one);
	}
}

static double number(const cJSON *in, const char *name)
{
	return cJSON_GetNumberValue(cJSON_GetObjectItem(in, name));
}

static void print_row(const cJSON *row, const char *note, bool chosen)
{
	double bytes = number(row, "bytes"), stored = number(row, "stored");
	bool joined = cJSON_IsTrue(cJSON_GetObjectItem(row, "one_stream"));
	char block[16] = "auto";
	if (number(row, "blocksize") > 0)
		snprintf(block, sizeof block, "%.0fK", number(row, "blocksize") / 1024);
	printf("%c %-34s %-7s %5s  %8.1f%%  %7.3f  %6.0f  %6.0f\n", chosen ? '*' : ' ',
	       note ? note : cJSON_GetStringValue(cJSON_GetObjectItem(row, "pipeline")),
	       joined ? "joined" : "", block, stored > 0 ? 100 * stored / bytes : 0,
	       stored > 0 ? bytes / stored : 0, number(row, "encode_mb_s"),
	       number(row, "decode_mb_s"));
}

static const char *tuned_pipeline(const cJSON *of)
{
	return cJSON_GetStringValue(
		cJSON_GetObjectItem(cJSON_GetObjectItem(of, "tuned"), "pipeline"));
}

/* Prints what the file was taken for. */
static void print_found(const cJSON *of)
{
	const char *format = cJSON_GetStringValue(cJSON_GetObjectItem(of, "format"));
	tool_print_path(cJSON_GetStringValue(cJSON_GetObjectItem(of, "file")));
	printf(": %.0f bytes", number(of, "size"));
	if (*format)
		printf(", %s", format);
	if (number(of, "item") > 0)
		printf(", items of %.0f bytes", number(of, "item"));
	if (number(of, "period") > 0)
		printf(", repeats every %.0f bytes", number(of, "period"));
	if (number(of, "size") > 0 && number(of, "choices") == 0)
		printf("; too small to choose for: %s", tuned_pipeline(of));
	else
		printf("; choosing took %.1f ms", number(of, "choosing_ms"));
	puts("; enc, dec in MB/s");
}

static void print_table(const cJSON *of)
{
	const cJSON *row, *tuned = cJSON_GetObjectItem(of, "tuned");
	print_found(of);
	printf("  %-34s %-7s %5s  %9s  %7s  %6s  %6s\n", "pipeline", "streams", "block", "stored",
	       "ratio", "enc", "dec");
	/* The choice for the first chunk says little if it changes in the course of the file. */
	bool one = cJSON_GetArraySize(cJSON_GetObjectItem(of, "changes")) == 1;
	cJSON_ArrayForEach(row, cJSON_GetObjectItem(of, "candidates"))
	{
		if (number(row, "bytes") > 0)
			print_row(row, NULL,
				  one && cJSON_IsTrue(cJSON_GetObjectItem(row, "chosen")));
	}
	print_row(tuned, "as tuned, chunk by chunk", true);
}

static void work_free(struct work *w)
{
	io_close(w->io);
	cJSON_Delete(w->changes);
	buf_free(&w->chunk);
	buf_free(&w->stored);
	buf_free(&w->back);
	mem_free(w);
}

static int open_plain(const char *file, struct io **io)
{
	mode_t type;
	int fd = tool_open_fd(AT_FDCWD, file, &type);
	TRY(fd);
	if (type == S_IFREG)
		return io_file_open_take(io, fd);
	close(fd);
	return -EISDIR;
}

static int tune_file(struct scratch *s, const char *file, bool all, cJSON *to)
{
	struct work *w = mem_zalloc(sizeof *w);
	if (!w)
		return -ENOMEM;
	w->s = s;
	w->goal = (struct tune_goal){.free_codec = true, .free_blocksize = true};
	pipeline_default(&w->goal.base);
	w->chosen = w->goal.base; /* of a file without bytes */
	w->changes = cJSON_CreateArray();
	int rc = open_plain(file, &w->io);
	if (rc == 0)
		rc = io_size(w->io, &w->size);
	if (rc == 0 && tool_is_frame(w->io) > 0)
		tool_say("%s: is a frame, compressed already: tune what a mount or cframe cat "
			 "makes of it",
			 file);
	uint64_t nchunks = ceil_div(w->size, CHUNK);
	w->step = CHUNK * (all || nchunks <= FEW ? 1 : nchunks / FEW);
	if (rc == 0 && w->size)
		rc = measure_chunks(w);
	if (rc == 0)
		describe(to, file, w);
	work_free(w);
	return rc;
}

static int show(cJSON *files, bool json)
{
	const cJSON *one;
	if (!json) {
		cJSON_ArrayForEach(one, files) print_table(one);
		return 0;
	}
	return tool_print_json(files, JSON_LINES) < 0 ? tool_fail("tune", -ENOMEM) : 0;
}

static int fail(const char *file, int rc)
{
	if (rc != -ESTALE)
		return tool_fail(file, rc);
	tool_say("%s: became shorter while it was read", file);
	return 1;
}

/* Adds the results for each file to `to`. Returns the exit code. */
static int tune_files(struct scratch *s, char **file, bool all, cJSON *to)
{
	int code = 0;

	for (; *file; file++) {
		cJSON *one = cJSON_CreateObject();
		int rc = one ? tune_file(s, *file, all, one) : -ENOMEM;
		if (rc < 0) {
			code = fail(*file, rc);
			cJSON_Delete(one);
		} else {
			cJSON_AddItemToArray(to, one);
		}
	}
	return code;
}

int tune_main(int argc, char **argv)
{
	static const struct option names[] = {
		{"all", no_argument, NULL, 'a'}, {"json", no_argument, NULL, 'J'}, {0}};
	bool json = false, all = false;
	struct scratch *s;

	for (int got; (got = args_next(argc, argv, "", names)) != ARGS_END;) {
		if (got == ARGS_WRONG)
			return 1;
		all |= got == 'a';
		json |= got == 'J';
	}
	if (argc == optind)
		return tool_usage(argv[0]);
	cJSON *files = cJSON_CreateArray();
	if (!files || scratch_open(&s) < 0) {
		cJSON_Delete(files);
		return tool_fail(argv[0], -ENOMEM);
	}
	int code = tune_files(s, argv + optind, all, files);
	code |= show(files, json);
	cJSON_Delete(files);
	scratch_close(s);
	return code;
}
