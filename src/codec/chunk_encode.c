/*
 * Encodes bytes into a chunk, in the steps of encoder.h. Blocks are filtered into the scratch and
 * encoded from there straight into place. If the result is not smaller than a plain copy, the bytes
 * are stored: as blocks of plain bytes with checksums, or as that copy.
 */
#include "codec/chunk.h"
#include "codec/dict.h"
#include "codec/encoder.h"
#include "codec/scratch_impl.h"

#include <assert.h>

/* Encodes the blocks from out->n on. 1: done. 0: encoder_store would not be larger. */
static int put_blocks(struct encoder *e, struct buf *out)
{
	size_t slot = encoder_slot(e), limit = encoder_most(e);
	for (uint32_t i = 0; i < e->nblocks; i++) {
		struct block b;
		struct view src = encoder_block(e, i, &b);
		ssize_t n = block_encode(&e->plan, e->s, &b, src, span_of(out->p + out->n, slot));
		if (n < 0)
			return (int)n;
		assert(n > 0);
		encoder_enter(e, i, encoder_sum(e, view_of(out->p + out->n, (size_t)n)), out);
		out->n += (size_t)n;
		if (out->n > limit)
			return 0;
	}
	return 1;
}

/* Encodes the chunk with its dictionary, if there is one. Returns as put_blocks. */
static int encode_regular(struct encoder *e, struct buf *out)
{
	if (encoder_wants_store(e))
		return 0;
	out->n = encoder_body(e);
	int rc = put_blocks(e, out);
	if (rc > 0)
		encoder_finish(e, out);
	return rc;
}

/*
 * Encodes with and without a dictionary, and keeps the smaller result: only then is it known
 * whether the dictionary pays. Returns as put_blocks.
 */
static int encode_with_dict(struct encoder *e, struct buf *out)
{
	struct scratch *s = e->s;
	const struct stream_coder *coder = &e->plan.coder;
	TRY(dict_make(e, &s->dict));
	int plain = encode_regular(e, out);
	if (plain < 0 || !s->dict.n)
		return plain;
	TRY(buf_reserve_fresh(&s->trial, out->cap));
	e->dict = buf_view(&s->dict);
	TRY(coder->codec->dict_set(coder->state, e->dict));
	int tried = encode_regular(e, &s->trial);
	TRY(coder->codec->dict_set(coder->state, (struct view){NULL, 0}));
	if (tried <= 0 || (plain && out->n <= s->trial.n))
		return tried < 0 ? tried : plain;
	struct buf other = *out;
	*out = s->trial;
	s->trial = other;
	return 1;
}

static int encode(struct scratch *s, const struct pipeline *p, struct view src, struct buf *out)
{
	struct encoder e;
	TRY(encoder_plan(&e, s, p, src));
	TRY(encoder_plan_cuts(&e));
	/* The last block may be written past the limit before that is noticed. */
	TRY(buf_reserve_fresh(out, encoder_store_most(&e) + encoder_slot(&e)));
	int done = p->use_dict && !encoder_wants_store(&e) ? encode_with_dict(&e, out)
							   : encode_regular(&e, out);
	TRY(done);
	if (!done)
		encoder_store(&e, out);
	return 0;
}

int chunk_encode(struct scratch *s, const struct pipeline *p, struct view src, struct buf *out)
{
	assert(src.n >= 1 && src.n <= CHUNK_MAX_NBYTES);
	int rc = encode(s, p, src, out);
	scratch_done(s);
	return rc;
}
