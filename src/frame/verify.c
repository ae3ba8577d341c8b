/* Verifies everything that a frame says about itself. */
#include "frame/frame_impl.h"

#include <inttypes.h>
#include <stdio.h>

#define PIECE (4u << 20) /* decoded bytes that are held at once, as far as blocks allow */

struct checker {
	struct frame *f;
	struct scratch *s;
	struct buf stored, plain;
	struct frame_report *report;
};

static void tell(struct checker *c, uint32_t chunk, int rc)
{
	char text[256], line[300];
	c->report->problems++;
	if (!c->report->problem)
		return;
	err_text(rc, text, sizeof text);
	if (chunk == FRAME_NO_CHUNK)
		snprintf(line, sizeof line, "%s", text);
	else
		snprintf(line, sizeof line, "chunk %" PRIu32 ": %s", chunk, text);
	c->report->problem(c->report->arg, line);
}

/* All blocks, in pieces: the chunk may have 2 GiB, and its content is not needed. */
static int decode_blocks(struct checker *c, struct frame_chunk at)
{
	for (struct run run = {0, 0}; run.first + run.n < at.c->nblocks;) {
		run = chunk_run_of(at.c, run.first + run.n, PIECE);
		uint32_t len = chunk_run_bytes(at.c, run);
		TRY(buf_reserve_fresh(&c->plain, len));
		TRY(frame_read_blocks(at, run, c->s, span_of(c->plain.p, len)));
	}
	return 0;
}

static int check_chunk(struct checker *c, uint32_t n)
{
	struct chunk chunk = {0};
	if (frame_slot(c->f, n) == SLOT_STORED && !c->f->info.sparse) {
		TRY(frame_read_raw(c->f, n, &c->stored));
		if (frame_sum(c->f, n))
			c->report->with_sum++;
		else
			c->report->without_sum++;
	}
	int rc = frame_load_chunk(c->f, n, c->s, &chunk);
	if (rc == 0)
		rc = decode_blocks(c, (struct frame_chunk){c->f, n, &chunk});
	chunk_deinit(&chunk);
	return rc;
}

int frame_verify(struct frame *f, struct frame_report *report)
{
	struct checker c = {.f = f, .report = report};
	report->problems = report->with_sum = report->without_sum = 0;
	report->recovered = f->recovered;
	TRY(scratch_open(&c.s));
	int rc = 0;
	for (uint32_t n = 0; rc == 0 && n < f->index.n; n++) {
		if (frame_is_hole(f, n))
			continue;
		int bad = check_chunk(&c, n);
		if (bad == -ENOMEM)
			rc = bad;
		else if (bad < 0)
			tell(&c, n, bad);
	}
	if (rc == 0 && f->recovered)
		tell(&c, FRAME_NO_CHUNK,
		     CORRUPT("torn: shown as of its newest whole root", f->seq));
	buf_free(&c.stored);
	buf_free(&c.plain);
	scratch_close(c.s);
	return rc;
}
