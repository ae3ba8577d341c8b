#include "cframe.h"

#include "frame/stored.h"

#include <stdio.h>

#define STEP (4u << 20) /* decoded bytes that are held at once, as far as blocks allow */

static int put(struct view v)
{
	return fwrite(v.p, 1, v.n, stdout) == v.n ? 0 : -EIO;
}

static int cat_frame(struct frame *f, struct scratch *s)
{
	struct buf b = {0};
	uint64_t size = frame_size(f);
	int rc = buf_reserve(&b, min_u64(size, STEP));
	for (uint64_t at = 0; rc == 0 && at < size; at += STEP) {
		struct span part = {b.p, min_u64(STEP, size - at)};
		rc = frame_read(f, at, s, part);
		if (rc == 0)
			rc = put(span_view(part));
	}
	buf_free(&b);
	return rc;
}

static int cat_blocks(const struct stored *st, const struct chunk *c, struct scratch *s)
{
	struct buf b = {0};
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && c->nbytes && i < c->nblocks; i++) {
		struct run one = {i, 1};
		uint32_t n = chunk_run_bytes(c, one);
		rc = buf_reserve_fresh(&b, n);
		if (rc == 0)
			rc = stored_read(st, c, one, s, span_of(b.p, n));
		if (rc == 0)
			rc = put(view_of(b.p, n));
	}
	buf_free(&b);
	return rc;
}

static int cat_chunk(struct io *io, struct scratch *s)
{
	struct stored st = {.io = io};
	struct chunk c = {0};
	TRY(io_size(io, &st.room));
	int rc = stored_load(&st, 0, s, &c);
	if (rc == 0)
		rc = cat_blocks(&st, &c, s);
	chunk_deinit(&c);
	return rc;
}

static int fail(const char *file, int rc, bool chunk)
{
	char text[256];
	if (!chunk)
		return tool_fail(file, rc);
	fprintf(stderr, "cframe: %s: is not a Blosc2 frame; as a chunk: %s\n", file,
		err_text(rc, text, sizeof text));
	return 1;
}

int cat_main(int argc, char **argv)
{
	struct frame *f;
	struct io *io;
	struct scratch *s = NULL;
	if (argc != 2)
		return tool_usage(subcommand_find(argv[0]));
	int rc = tool_open(argv[1], &f, &io);
	if (rc == 0)
		rc = scratch_open(&s);
	if (rc == 0)
		rc = f ? cat_frame(f, s) : cat_chunk(io, s);
	if (rc == 0 && fflush(stdout) != 0)
		rc = -errno;
	bool chunk = io;
	scratch_close(s);
	frame_close(f);
	io_close(io);
	return rc < 0 ? fail(argv[1], rc, chunk) : 0;
}
