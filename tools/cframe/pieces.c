#include "pieces.h"

#include <pthread.h>

/*
 * Held while a block larger than PIECE, or a chunk with a head larger than HEAD_MOST, is decoded:
 * several at a time may need gigabytes.
 */
static pthread_mutex_t large = PTHREAD_MUTEX_INITIALIZER;

#define HEAD_MOST (16u << 20) /* memory for all other heads: enough for 800,000 blocks */

/* Frees that memory, and releases the lock. */
static void end_large(struct pieces *p)
{
	buf_free(&p->b);
	scratch_trim(p->s);
	pthread_mutex_unlock(&large);
}

/*
 * Bytes of chunk n could not be read. Returns 0 if they are given up. Damage in the header of a
 * chunk may look like an unknown method or format.
 */
static int judge(struct pieces *p, uint32_t n, uint32_t lo, uint32_t len, int rc)
{
	if (!p->lose || (rc != -EBADMSG && rc != -EIO && rc != -ENOTSUP))
		return rc;
	p->lose(p->arg, n, lo, len, rc);
	return 0;
}

/* For a chunk that needs no decoder, however large its blocks are. */
static int take_within(struct pieces *p, struct frame_chunk from)
{
	for (uint32_t at = 0; at < from.c->nbytes; at += PIECE) {
		uint32_t len = (uint32_t)min_u64(PIECE, from.c->nbytes - at);
		TRY(buf_reserve_fresh(&p->b, len));
		int rc = frame_read_within(from, at, span_of(p->b.p, len));
		TRY(rc == 0 ? p->take(p->arg, from.n, at, view_of(p->b.p, len))
			    : judge(p, from.n, at, len, rc));
	}
	return 0;
}

static int take_run(struct pieces *p, struct frame_chunk from, struct run run)
{
	uint32_t len = chunk_run_bytes(from.c, run);
	uint32_t at = chunk_block_bytes(from.c, run.first).off;
	TRY(buf_reserve_fresh(&p->b, len));
	int rc = frame_read_blocks(from, run, p->s, span_of(p->b.p, len));
	if (rc == 0)
		return p->take(p->arg, from.n, at, view_of(p->b.p, len));
	if (run.n == 1 || !p->lose)
		return judge(p, from.n, at, len, rc);
	for (uint32_t i = 0; i < run.n; i++)
		TRY(take_run(p, from, (struct run){run.first + i, 1}));
	return 0;
}

/* `alone`: the lock is held. */
static int take_blocks(struct pieces *p, struct frame_chunk from, bool alone)
{
	const struct chunk *c = from.c;
	bool plain = false;
	/*
	 * A checksum of the whole chunk is otherwise verified only when all of it is read at once.
	 * If it does not match, no block can be trusted.
	 */
	int checked = p->lose || chunk_run_of(c, 0, PIECE).n < c->nblocks
			      ? frame_check_chunk(from) : 0;
	if (checked < 0)
		return judge(p, from.n, 0, c->nbytes, checked);
	for (struct run run = {0, 0}; run.first + run.n < c->nblocks;) {
		run = chunk_run_of(c, run.first + run.n, PIECE);
		plain |= chunk_run_is_plain(c, run);
		if (alone || chunk_run_bytes(c, run) <= PIECE) {
			TRY(take_run(p, from, run));
			continue;
		}
		pthread_mutex_lock(&large);
		int rc = take_run(p, from, run);
		end_large(p);
		TRY(rc);
	}
	/* Plain bytes are read without the length word in front of them, so check that, too. */
	return p->strict && plain ? frame_check_blocks(from, p->s) : 0;
}

/* A few bytes may stand for gigabytes of one value, again and again: there is nothing to check. */
static bool is_filled(const struct chunk *c)
{
	return c->kind != CHUNK_REGULAR && c->kind != CHUNK_STORED;
}

int pieces_of_chunk(struct pieces *p, uint32_t n)
{
	struct chunk c = {0};
	struct frame_chunk from = {p->f, n, &c};

	uint64_t most = scratch_bound(p->s, HEAD_MOST);
	int rc = frame_load_chunk(p->f, n, p->s, &c);
	scratch_bound(p->s, most);
	bool alone = rc == -E2BIG;
	if (alone) {
		pthread_mutex_lock(&large);
		rc = frame_load_chunk(p->f, n, p->s, &c);
	}
	if (rc < 0)
		rc = judge(p, n, 0, frame_chunk_span(p->f, n).len, rc);
	else if (!c.nbytes || (p->strict && is_filled(&c)))
		rc = frame_check_chunk(from);
	else
		rc = frame_can_read_within(from) ? take_within(p, from)
						 : take_blocks(p, from, alone);
	chunk_deinit(&c);
	if (alone)
		end_large(p);
	return rc;
}

static int decode_runs(struct pieces *p, struct chunk *c, struct view stored)
{
	if (chunk_wants_ref(c)) {
		struct extent e = chunk_extent(c, (struct run){0, 1});
		TRY(chunk_load_ref(c, p->s, view_part(stored, e.off, e.len)));
	}
	for (struct run run = {0, 0}; run.first + run.n < c->nblocks;) {
		run = chunk_run_of(c, run.first + run.n, PIECE);
		struct extent e = chunk_extent(c, run);
		uint32_t len = chunk_run_bytes(c, run);
		TRY(buf_reserve_fresh(&p->b, len));
		TRY(chunk_decode_checked(c, p->s, run, view_part(stored, e.off, e.len),
					 span_of(p->b.p, len)));
	}
	return 0;
}

int pieces_check(struct pieces *p, struct view stored)
{
	struct chunk c = {0};

	int rc = chunk_parse(&c, stored, stored.n, 0);
	bool alone = min_u64(c.blocksize, c.nbytes) > PIECE;
	if (alone)
		pthread_mutex_lock(&large);
	if (rc > 0)
		rc = CORRUPT("chunk is cut off", stored.n);
	else if (rc == 0 && c.cbytes != stored.n) /* the library refuses it */
		rc = CORRUPT("bytes after the chunk", c.cbytes);
	else if (rc == 0 && !is_filled(&c))
		rc = decode_runs(p, &c, stored);
	chunk_deinit(&c);
	if (alone)
		end_large(p);
	return rc;
}
