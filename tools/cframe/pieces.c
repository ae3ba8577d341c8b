#include "pieces.h"

/* A chunk that needs no decoder, however large its blocks are. */
static int take_within(struct pieces *p, uint32_t n, const struct chunk *c)
{
	for (uint32_t at = 0; at < c->nbytes; at += PIECE) {
		uint32_t len = (uint32_t)min_u64(PIECE, c->nbytes - at);
		TRY(buf_reserve_fresh(&p->b, len));
		TRY(frame_read_within(p->f, n, c, at, span_of(p->b.p, len)));
		TRY(p->take(p->arg, n, at, view_of(p->b.p, len)));
	}
	return 0;
}

static int take_blocks(struct pieces *p, uint32_t n, const struct chunk *c)
{
	/* A checksum of the whole chunk is looked at only by those who read all of it at once. */
	if (chunk_run_of(c, 0, PIECE).n < c->nblocks)
		TRY(frame_check_chunk(p->f, n, c));
	for (struct run run = {0, 0}; run.first + run.n < c->nblocks;) {
		run = chunk_run_of(c, run.first + run.n, PIECE);
		uint32_t len = chunk_run_bytes(c, run);
		TRY(buf_reserve_fresh(&p->b, len));
		TRY(frame_read_blocks(p->f, n, c, run, p->s, span_of(p->b.p, len)));
		TRY(p->take(p->arg, n, chunk_block_bytes(c, run.first).off,
			    view_of(p->b.p, len)));
	}
	return 0;
}

int pieces_of_chunk(struct pieces *p, uint32_t n)
{
	struct chunk c = {0};

	int rc = frame_load_chunk(p->f, n, p->s, &c);
	if (rc == 0 && c.nbytes && frame_can_read_within(p->f, n, &c))
		rc = take_within(p, n, &c);
	else if (rc == 0 && c.nbytes)
		rc = take_blocks(p, n, &c);
	chunk_deinit(&c);
	return rc;
}
