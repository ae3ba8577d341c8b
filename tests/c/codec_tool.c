/*
 * Chunks from the command line and for tests.
 *
 *   codec_tool encode PIPELINE [blocksize [split [dict]]]   stdin -> chunk
 *   codec_tool decode [item]                                chunk -> bytes
 *   codec_tool blocks [item]                                the same, every block alone
 *   codec_tool serve                                        many requests, see below
 *
 * serve: a request is a head of 8 little-endian uint32: op (the letter e, d, b, p, w, g), length of
 * the text, length of the data, item, blocksize, split mode, dictionary, 0; then
 * text and data. The answer is int32 rc, uint32 length, and so many bytes: the result,
 * or the reason. Op p answers with the normal form of a pipeline's text. Op w is chunk_patch:
 * the data are a chunk and then, for each edit, first block, number of blocks and the bytes. Op g
 * is a longer one: a chunk, how many blocks stay, and the bytes of the new one; with GROW_KEPT the
 * last block that does not stay begins with the bytes that it had.
 *
 * All bytes handed to the codec lie in allocations of exactly their size, so
 * that a sanitizer sees an access outside. CPU_MASK names the kernels' level.
 */
#include "codec/chunk.h"
#include "cpu_levels.h"
#include "exact_chunk.h"

#include <stdio.h>
#include <stdlib.h>

#define DATA_MAX (1u << 30)

struct request {
	uint32_t op, ntext, ndata, item, blocksize, split, dict, spare;
};

static int fail(struct buf *out, int rc, const char *why)
{
	char text[ERR_TEXT_MAX];
	if (!why)
		why = err_text(rc, text);
	out->n = 0;
	if (buf_append(out, view_of(why, strlen(why))) < 0)
		abort();
	return rc;
}

static int pipeline_of(const struct request *rq, const char *text, struct pipeline *p,
		       struct buf *out)
{
	struct err_reason why = {""};
	pipeline_default(p);
	int rc = pipeline_parse(p, text, &why);
	if (rc < 0)
		return fail(out, rc, why.text);
	p->blocksize = rq->blocksize;
	if (rq->split)
		p->split_mode = (uint8_t)rq->split;
	p->use_dict = rq->dict;
	rc = pipeline_check(p, &why);
	return rc < 0 ? fail(out, rc, why.text) : 0;
}

static int do_encode(struct scratch *s, const struct request *rq, const char *text,
		     struct view data, struct buf *out)
{
	struct pipeline p;
	TRY(pipeline_of(rq, text, &p, out));
	int rc = chunk_encode(s, &p, data, out);
	return rc < 0 ? fail(out, rc, NULL) : 0;
}

static int do_format(const struct request *rq, const char *text, struct buf *out)
{
	struct pipeline p;
	char normal[PIPELINE_TEXT_MAX];
	TRY(pipeline_of(rq, text, &p, out));
	pipeline_format(&p, normal);
	return buf_append(out, view_of(normal, strlen(normal)));
}

/* Room for a result, poisoned so that bytes that are left out show. */
static int room_for(struct buf *out, uint32_t n)
{
	if (n > DATA_MAX)
		return -ENOMEM;
	TRY(buf_reserve_fresh(out, n ? n : 1));
	memset(out->p, 0xA5, n);
	out->n = n;
	return 0;
}

static int do_decode(struct scratch *s, const struct request *rq, struct view data, struct buf *out)
{
	uint32_t nbytes, cbytes;
	int rc = chunk_sizes(data, &nbytes, &cbytes);
	if (!rc)
		rc = room_for(out, nbytes);
	if (rc < 0)
		return fail(out, rc, NULL);
	uint8_t *dst = exact(nbytes);
	rc = chunk_decode_all(s, data, rq->item, span_of(dst, nbytes));
	if (!rc)
		memcpy(out->p, dst, nbytes);
	free(dst);
	return rc < 0 ? fail(out, rc, NULL) : 0;
}

static int decode_run(const struct chunk *c, struct scratch *s, struct view data, struct run run,
		      uint8_t *to)
{
	struct extent e = chunk_extent(c, run);
	uint32_t n = chunk_run_bytes(c, run);
	if ((uint64_t)e.off + e.len > data.n)
		abort();
	uint8_t *stored = exact_copy(data.p + e.off, e.len), *dst = exact(n);
	int rc = chunk_decode(c, s, run, view_of(stored, e.len), span_of(dst, n));
	if (!rc)
		memcpy(to, dst, n);
	free(stored);
	free(dst);
	return rc;
}

/* Decodes parts of a block from its packed form: at both ends, in the middle, one byte, and all. */
static void check_parts(const struct chunk *c, struct scratch *s, struct view packed,
			const uint8_t *plain)
{
	uint32_t n = (uint32_t)packed.n;
	uint32_t cut[] = {0, 1, n / 3, n / 2 & ~63u, n / 2, n - n / 5, n - 1, n};
	for (size_t i = 0; i < 8; i++)
		for (size_t k = i + 1; k < 8; k++) {
			if (cut[k] <= cut[i] || cut[k] > n)
				continue;
			uint32_t len = cut[k] - cut[i];
			uint8_t *part = exact(len);
			if (chunk_unpack(c, s, packed, cut[i], span_of(part, len)) ||
			    memcmp(part, plain + cut[i], len))
				abort();
			free(part);
		}
}

/* Decodes block i, whose bytes are `plain`, without its last filter. */
static int check_packed(const struct chunk *c, struct scratch *s, struct view data, uint32_t i,
			const uint8_t *plain)
{
	if (!chunk_can_pack(c))
		return 0;
	struct extent e = chunk_extent(c, (struct run){i, 1});
	uint32_t n = chunk_block_bytes(c, i).len;
	uint8_t *stored = exact_copy(data.p + e.off, e.len), *packed = exact(n);
	int rc = chunk_decode_packed(c, s, i, view_of(stored, e.len), span_of(packed, n));
	if (!rc)
		check_parts(c, s, view_of(packed, n), plain);
	free(stored);
	free(packed);
	return rc;
}

/* Last block first, then all pairs: decoding must not depend on earlier calls. */
static int decode_singly(struct chunk *c, struct scratch *s, struct view data, struct buf *out)
{
	TRY(room_for(out, c->nbytes));
	TRY(exact_load_ref(c, s, data));
	for (uint32_t i = c->nblocks; i-- > 0;) {
		struct extent at = chunk_block_bytes(c, i);
		if (chunk_block_at(c, at.off) != i || chunk_block_at(c, at.off + at.len - 1) != i)
			abort();
		TRY(decode_run(c, s, data, (struct run){i, 1}, out->p + at.off));
		TRY(check_packed(c, s, data, i, out->p + at.off));
	}
	uint8_t *pair = exact(c->nbytes);
	int rc = 0;
	for (uint32_t i = 0; !rc && i + 2 <= c->nblocks && i < 64; i++) {
		struct run run = {i, 2};
		rc = decode_run(c, s, data, run, pair);
		if (!rc &&
		    memcmp(pair, out->p + chunk_block_bytes(c, i).off, chunk_run_bytes(c, run)))
			abort();
	}
	free(pair);
	return rc;
}

static int do_blocks(struct scratch *s, const struct request *rq, struct view data, struct buf *out)
{
	struct chunk c = {0};
	int rc = exact_parse(&c, data, rq->item, 0);
	if (!rc && chunk_footprint(&c) > 200000 + 20 * data.n)
		abort();
	if (!rc)
		rc = c.nbytes > DATA_MAX || c.nblocks > DATA_MAX / 64
			     ? -ENOMEM
			     : decode_singly(&c, s, data, out);
	chunk_deinit(&c);
	return rc < 0 ? fail(out, rc, NULL) : 0;
}

#define EDITS_MAX 64

/* Reads the edits that follow a chunk, and returns how many there are. */
static size_t read_edits(const struct chunk *c, struct view rest, struct chunk_edit *edit)
{
	size_t n = 0;
	for (struct cursor in = cursor_of(rest); cursor_left(&in) && n < EDITS_MAX; n++) {
		edit[n].run.first = cursor_le32(&in);
		edit[n].run.n = cursor_le32(&in);
		struct view v = cursor_bytes(&in, chunk_run_bytes(c, edit[n].run));
		if (in.bad)
			abort();
		edit[n].bytes = view_of(exact_copy(v.p, v.n), v.n);
	}
	return n;
}

static int patch_parsed(struct scratch *s, struct chunk *c, const struct pipeline *p,
			struct view data, struct buf *out)
{
	struct chunk_edit edit[EDITS_MAX];
	struct view rest = view_part(data, c->cbytes, data.n - c->cbytes);
	struct chunk_patch patch = {.chunk = c, .stored = view_of(data.p, c->cbytes),
				    .pipeline = p, .edit = edit, .nbytes = c->nbytes};
	patch.nedits = read_edits(c, rest, edit);
	int rc = exact_load_ref(c, s, data);
	if (!rc)
		rc = chunk_patch(s, &patch, out);
	for (size_t i = 0; i < patch.nedits; i++)
		free((void *)edit[i].bytes.p);
	return rc;
}

#define GROW_KEPT 0x80000000u

static int grow_parsed(struct scratch *s, struct chunk *c, const struct pipeline *p,
		       struct view data, struct buf *out)
{
	struct cursor in = cursor_of(view_part(data, c->cbytes, data.n - c->cbytes));
	uint32_t how = cursor_le32(&in), keep = how & ~GROW_KEPT;
	struct view rest = cursor_bytes(&in, cursor_left(&in));
	if (in.bad)
		abort();
	uint8_t *bytes = exact_copy(rest.p, rest.n);
	struct chunk longer = chunk_longer(c, (uint32_t)rest.n);
	size_t at = (size_t)keep * c->blocksize;
	struct chunk_edit edit = {{keep, longer.nblocks - keep},
				  view_of(bytes + at, rest.n - at)};
	struct chunk_patch patch = {.chunk = c, .stored = view_of(data.p, c->cbytes),
				    .pipeline = p, .edit = &edit, .nedits = 1,
				    .nbytes = (uint32_t)rest.n, .kept = how & GROW_KEPT};
	int rc = exact_load_ref(c, s, data);
	if (!rc)
		rc = chunk_patch(s, &patch, out);
	free(bytes);
	return rc;
}

typedef int change_parsed(struct scratch *s, struct chunk *c, const struct pipeline *p,
			  struct view data, struct buf *out);

static int do_change(struct scratch *s, const struct request *rq, const char *text,
		     struct view data, struct buf *out)
{
	change_parsed *change = rq->op == 'w' ? patch_parsed : grow_parsed;
	struct pipeline p;
	struct chunk c = {0};
	TRY(pipeline_of(rq, text, &p, out));
	int rc = chunk_parse(&c, data, data.n, rq->item);
	if (!rc)
		rc = change(s, &c, &p, data, out);
	chunk_deinit(&c);
	return rc < 0 ? fail(out, rc, NULL) : rc;
}

static int answer(struct scratch *s, const struct request *rq, const char *text, struct view data,
		  struct buf *out)
{
	out->n = 0;
	err_clear();
	switch (rq->op) {
	case 'e': return do_encode(s, rq, text, data, out);
	case 'd': return do_decode(s, rq, data, out);
	case 'b': return do_blocks(s, rq, data, out);
	case 'p': return do_format(rq, text, out);
	case 'w':
	case 'g': return do_change(s, rq, text, data, out);
	default: return fail(out, -EINVAL, "unknown op");
	}
}

static void put_exact(const void *p, size_t n)
{
	if (n && fwrite(p, 1, n, stdout) != n)
		exit(1);
}

static bool get_exact(void *p, size_t n)
{
	return !n || fread(p, 1, n, stdin) == n;
}

static int serve(struct scratch *s)
{
	struct request rq;
	struct buf out = {0};
	while (get_exact(&rq, sizeof rq)) {
		char *text = (char *)exact(rq.ntext + 1);
		uint8_t *data = exact(rq.ndata);
		if (!get_exact(text, rq.ntext) || !get_exact(data, rq.ndata))
			exit(1);
		text[rq.ntext] = 0;
		int32_t rc = answer(s, &rq, text, view_of(data, rq.ndata), &out);
		uint32_t n = (uint32_t)out.n;
		put_exact(&rc, sizeof rc);
		put_exact(&n, sizeof n);
		put_exact(out.p, n);
		fflush(stdout);
		free(text);
		free(data);
	}
	buf_free(&out);
	return 0;
}

static void read_all(struct buf *in)
{
	uint8_t part[65536];
	size_t n;
	while ((n = fread(part, 1, sizeof part, stdin)) > 0)
		if (buf_append(in, view_of(part, n)) < 0)
			abort();
}

static uint32_t number_at(int argc, char **argv, int i)
{
	return i < argc ? (uint32_t)strtoul(argv[i], NULL, 10) : 0;
}

static int once(struct scratch *s, int argc, char **argv)
{
	struct request rq = {.op = (uint8_t)argv[1][0]};
	struct buf in = {0}, out = {0};
	bool encode = rq.op == 'e';
	if (encode && argc < 3)
		return 2;
	if (encode) {
		rq.blocksize = number_at(argc, argv, 3);
		rq.split = number_at(argc, argv, 4);
		rq.dict = number_at(argc, argv, 5);
	} else {
		rq.item = number_at(argc, argv, 2);
	}
	read_all(&in);
	int rc = answer(s, &rq, encode ? argv[2] : "", buf_view(&in), &out);
	if (rc < 0)
		fprintf(stderr, "%.*s\n", (int)out.n, (char *)out.p);
	else
		put_exact(out.p, out.n);
	buf_free(&in);
	buf_free(&out);
	return rc < 0;
}

int main(int argc, char **argv)
{
	struct scratch *s;
	if (argc < 2) {
		fprintf(stderr, "usage: codec_tool encode|decode|blocks|serve ...\n");
		return 2;
	}
	if (scratch_open_cpu(&s, cpu_mask()) < 0)
		return 1;
	int rc = strcmp(argv[1], "serve") ? once(s, argc, argv) : serve(s);
	scratch_close(s);
	return rc;
}
