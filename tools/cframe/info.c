/*
 * The facts about a frame, or about a chunk, are collected once, as a JSON tree. The readable form
 * is printed from the same tree, so that the two can never differ; it adds units to lengths, and a
 * word where 0 has a meaning.
 */
#include "args.h"
#include "cframe.h"
#include "open.h"
#include "say.h"
#include "steady.h"

#include "frame/stored.h"
#include "frame/view_npy.h"

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* An exact number, in plain digits: cJSON's numbers are doubles, and may be printed as 1e+15. */
static cJSON *number(uint64_t n)
{
	char digits[24];
	snprintf(digits, sizeof digits, "%" PRIu64, n);
	return cJSON_CreateRaw(digits);
}

static void add_number(cJSON *to, const char *name, uint64_t n)
{
	cJSON_AddItemToObject(to, name, number(n));
}

static void add_slots(cJSON *to, const struct frame *f)
{
	uint32_t count[SLOT_KINDS];
	frame_count_slots(f, count);
	cJSON_AddNumberToObject(to, "stored", count[SLOT_STORED]);
	cJSON_AddNumberToObject(to, "holes", count[SLOT_ZEROS] + count[SLOT_UNINIT]);
	cJSON_AddNumberToObject(to, "nan", count[SLOT_NAN]);
	cJSON_AddNumberToObject(to, "block_sums", frame_count_block_sums(f));
}

static void add_pipeline(cJSON *to, const struct pipeline *p)
{
	char text[PIPELINE_TEXT_MAX];
	pipeline_format(p, text);
	cJSON_AddStringToObject(to, "pipeline", text);
	cJSON_AddNumberToObject(to, "typesize", p->typesize);
	cJSON_AddNumberToObject(to, "blocksize", p->blocksize);
}

static void add_metas(cJSON *to, const struct frame *f)
{
	const char *name;
	struct view content;
	cJSON *fixed = cJSON_AddObjectToObject(to, "meta");
	for (uint32_t i = 0; frame_meta_at(f, i, &name, &content); i++)
		cJSON_AddNumberToObject(fixed, name, (double)content.n);
	cJSON *vl = cJSON_AddObjectToObject(to, "vlmeta");
	for (uint32_t i = 0; frame_vlmeta_at(f, i, &name, &content); i++)
		cJSON_AddNumberToObject(vl, name, (double)content.n);
}

static void add_shapes(cJSON *to, const struct ndarray *a)
{
	cJSON *shape = cJSON_AddArrayToObject(to, "shape");
	cJSON *chunks = cJSON_AddArrayToObject(to, "chunks");
	cJSON *blocks = cJSON_AddArrayToObject(to, "blocks");
	for (int i = 0; i < a->ndim; i++) {
		cJSON_AddItemToArray(shape, number(a->shape[i]));
		cJSON_AddItemToArray(chunks, number(a->chunkshape[i]));
		cJSON_AddItemToArray(blocks, number(a->blockshape[i]));
	}
}

/* If the array is damaged or unknown, the rest of the frame is still described. */
static void add_array(cJSON *to, const struct frame *f)
{
	char why[TOOL_TEXT_MAX], dtype[NDARRAY_MAX_DTYPE] = "";
	const struct frame_info *info = frame_info(f);
	struct view meta;
	struct ndarray a;
	if (!npy_meta(f, &meta))
		return;
	int rc = ndarray_parse(&a, meta, info->type_size, info->chunk_size, info->nbytes);
	if (rc < 0) {
		cJSON_AddStringToObject(to, "array", tool_err_text(rc, why));
		return;
	}
	cJSON *array = cJSON_AddObjectToObject(to, "array");
	add_shapes(array, &a);
	if (a.dtype.n)
		memcpy(dtype, a.dtype.p, a.dtype.n);
	cJSON_AddStringToObject(array, "dtype", dtype);
	add_number(array, "nbytes", a.nbytes);
}

static const char *kind_of(const struct frame_info *info)
{
	return info->sparse ? "sparse" : info->beta ? "early beta" : "contiguous";
}

static double thousandths(uint64_t a, uint64_t b)
{
	return (double)(uint64_t)(1000 * (double)a / (double)b + 0.5) / 1000;
}

static void describe(cJSON *to, const struct frame *f)
{
	const struct frame_info *info = frame_info(f);
	cJSON_AddStringToObject(to, "kind", kind_of(info));
	cJSON_AddNumberToObject(to, "version", info->version);
	add_number(to, "nbytes", info->nbytes);
	add_number(to, "cbytes", info->cbytes);
	add_number(to, "frame_len", info->frame_len);
	if (info->frame_len)
		cJSON_AddNumberToObject(to, "ratio",
					thousandths(info->nbytes, frame_info_stored(info)));
	cJSON_AddNumberToObject(to, "header_len", info->header_len);
	cJSON_AddNumberToObject(to, "trailer_len", info->trailer_len);
	cJSON_AddNumberToObject(to, "chunksize", info->chunk_size);
	cJSON_AddNumberToObject(to, "nchunks", frame_nchunks(f));
	cJSON_AddBoolToObject(to, "vl_blocks", info->vl_blocks);
	cJSON_AddBoolToObject(to, "writable", frame_writable(f));
	add_slots(to, f);
	add_pipeline(to, &info->pipeline);
	add_metas(to, f);
	add_array(to, f);
}

/* As for a frame, but a chunk does not say which level it has. */
static void add_chunk_pipeline(cJSON *to, const struct chunk *c)
{
	struct pipeline p = {.codec = c->codec, .level = 1, .typesize = c->typesize};
	char text[PIPELINE_TEXT_MAX] = "store";
	if (c->kind == CHUNK_REGULAR) {
		memcpy(p.filter, c->filter, sizeof p.filter);
		memcpy(p.meta, c->meta, sizeof p.meta);
		pipeline_format(&p, text);
		char *level = strrchr(text, ':');
		if (level)
			*level = 0;
	}
	cJSON_AddStringToObject(to, "pipeline", text);
}

static void describe_chunk(cJSON *to, const struct chunk *c)
{
	static const char *const content[] = {
		[CHUNK_REGULAR] = "blocks",      [CHUNK_STORED] = "plain copy",
		[CHUNK_ZEROS] = "zeros",         [CHUNK_NAN] = "NaN",
		[CHUNK_VALUE] = "repeated item", [CHUNK_UNINIT] = "uninitialized"};
	bool blocks = c->kind == CHUNK_REGULAR;
	cJSON_AddStringToObject(to, "kind", "chunk");
	cJSON_AddNumberToObject(to, "version", c->version);
	cJSON_AddStringToObject(to, "content", content[c->kind]);
	cJSON_AddNumberToObject(to, "nbytes", c->nbytes);
	cJSON_AddNumberToObject(to, "cbytes", c->cbytes);
	cJSON_AddNumberToObject(to, "ratio", thousandths(c->nbytes, c->cbytes));
	cJSON_AddNumberToObject(to, "header_len", c->head_len);
	if (blocks || c->kind == CHUNK_STORED)
		add_chunk_pipeline(to, c);
	cJSON_AddNumberToObject(to, "typesize", c->typesize);
	if (!c->is_vl)
		cJSON_AddNumberToObject(to, "blocksize", c->blocksize);
	cJSON_AddNumberToObject(to, "nblocks", c->nblocks);
	cJSON_AddBoolToObject(to, "vl_blocks", c->is_vl);
	cJSON_AddBoolToObject(to, "split", blocks && c->split);
	cJSON_AddBoolToObject(to, "dictionary", blocks && c->has_dict);
}

/* True: the fact is a number of bytes. `parent`: the group that contains it; NULL at the top. */
static bool is_length(const char *name, const char *parent)
{
	static const char *const lengths[] = {"nbytes",      "cbytes",    "frame_len", "header_len",
					      "trailer_len", "chunksize", "typesize",  "blocksize"};
	if (parent && (strcmp(parent, "meta") == 0 || strcmp(parent, "vlmeta") == 0))
		return true;
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		if (strcmp(name, lengths[i]) == 0)
			return true;
	return false;
}

static void print_fact(const cJSON *fact, const char *parent)
{
	bool automatic = strcmp(fact->string, "blocksize") == 0 && !parent &&
			 cJSON_GetNumberValue(fact) == 0;
	if (automatic) {
		printf("automatic\n");
		return;
	}
	char *text = cJSON_IsString(fact) ? NULL : cJSON_PrintUnformatted(fact);
	tool_print_line(text ? text : cJSON_IsString(fact) ? fact->valuestring : "?");
	printf("%s\n", is_length(fact->string, parent) ? " bytes" : "");
	free(text);
}

/* Prints a name in its column; names of metalayers may contain anything. */
static void print_name(const char *name, int indent)
{
	printf("%*s", indent, "");
	tool_print_line(name);
	printf("%*s ", strlen(name) < 12 ? 12 - (int)strlen(name) : 0, "");
}

static void print_plain(const cJSON *item, int indent)
{
	const cJSON *child;
	cJSON_ArrayForEach(child, item)
	{
		if (!cJSON_IsObject(child)) {
			print_name(child->string, indent);
			print_fact(child, item->string);
		} else if (child->child) {
			printf("%*s%s\n", indent, "", child->string);
			print_plain(child, indent + 2);
		}
	}
}

struct wanted {
	const char *file;
	cJSON *facts;
	bool is_chunk; /* it is not a frame, and was read as a single chunk */
	int rc;
};

static int look_at_chunk(cJSON *to, struct io *io)
{
	struct stored st = {.io = io};
	struct chunk chunk = {0};
	struct scratch *s;
	TRY(io_size(io, &st.room));
	TRY(scratch_open(&s));
	int rc = stored_load_head(&st, 0, s, &chunk);
	if (rc == 0)
		describe_chunk(to, &chunk);
	chunk_deinit(&chunk);
	scratch_close(s);
	return rc;
}

static bool is_described(void *arg)
{
	struct wanted *w = arg;
	struct frame *f;
	struct io *io;

	cJSON_Delete(w->facts);
	w->facts = cJSON_CreateObject();
	w->rc = tool_open(AT_FDCWD, w->file, &f, &io);
	w->is_chunk = io;
	if (w->rc == 0 && !w->facts)
		w->rc = -ENOMEM;
	else if (f)
		describe(w->facts, f);
	else if (io)
		w->rc = look_at_chunk(w->facts, io);
	frame_close(f);
	io_close(io);
	return w->rc == 0;
}

static int print_facts(const struct wanted *w, bool json)
{
	if (w->rc < 0)
		return w->is_chunk ? tool_no_chunk(w->file, w->rc) : tool_fail(w->file, w->rc);
	int rc = 0;
	if (json)
		rc = tool_print_json(w->facts, JSON_LINES);
	else
		print_plain(w->facts, 0);
	return rc < 0 ? tool_fail(w->file, rc) : 0;
}

int info_main(int argc, char **argv)
{
	static const struct option names[] = {{"json", no_argument, NULL, 'J'}, {0}};
	bool json = false;

	for (int got; (got = args_next(argc, argv, "", names)) != ARGS_END; json = true)
		if (got == ARGS_WRONG)
			return 1;
	if (argc - optind != 1)
		return tool_usage(argv[0]);
	struct wanted w = {.file = argv[optind]};
	bool steady = look_until_steady(AT_FDCWD, w.file, is_described, &w);
	int code = steady ? print_facts(&w, json) : tool_busy(w.file);
	cJSON_Delete(w.facts);
	return code;
}
