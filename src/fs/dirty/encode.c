#include "fs/dirty/encode.h"

/*
 * What lies below dirty pages: the stored chunk, in ws->base, or its decoded bytes, in ws->plain.
 */
struct base {
	struct chunk chunk;
	bool stored;
};

/* In addition to enum encoded: nothing is encoded yet; ws->plain has what lies below the pages. */
#define BASE_DECODED (ENCODED_OUTDATED + 1)

/*
 * is_bloated: the stored chunk is much longer than any writer would make it (FORMAT.md 3.10). It
 * may be a 2 GiB hole except for a few bytes: that is read block by block, if at all.
 */
#define BLOATED_BLOCK 32u
#define BLOATED_SPARE (256u << 10)

static bool is_bloated(const struct chunk *c)
{
	uint64_t block = BLOATED_BLOCK + (c->split ? 4u * c->typesize : 0);

	return c->cbytes > 2ull * c->nbytes + block * c->nblocks + BLOATED_SPARE;
}

static int read_base_locked(struct file *f, const struct dirty_chunk *c, struct workspace *ws,
			    struct base *b)
{
	if (dirty_is_outdated(f, c))
		return ENCODED_OUTDATED;
	b->stored = frame_slot(f->frame, c->n) == SLOT_STORED;
	if (!b->stored)
		return frame_read_chunk(f->frame, c->n, ws->scratch, buf_span(&ws->plain));
	TRY(frame_load_chunk(f->frame, c->n, ws->scratch, &b->chunk));
	if (is_bloated(&b->chunk))
		return CORRUPT("stored size of a chunk", b->chunk.cbytes);
	return frame_read_raw(f->frame, c->n, &ws->base);
}

/* Needs the lock for the index only: the bytes of a stored chunk never change. */
static int read_base(struct file *f, const struct dirty_chunk *c, struct workspace *ws,
		     struct base *b)
{
	pthread_rwlock_rdlock(&f->lock);
	int rc = read_base_locked(f, c, ws, b);
	pthread_rwlock_unlock(&f->lock);
	return rc;
}

/* Decodes a run of whole blocks of the stored chunk to their place in ws->plain. */
static int decode_run(const struct chunk *base, struct workspace *ws, struct run run)
{
	struct extent in = chunk_extent(base, run);
	uint32_t at = chunk_block_bytes(base, run.first).off;

	return chunk_decode(base, ws->scratch, run,
			    view_part(buf_view(&ws->base), in.off, in.len),
			    span_of(ws->plain.p + at, chunk_run_bytes(base, run)));
}

/* Zeros what the chunk has grown by, below the pages that are laid over it. */
static void fill_end(const struct chunk *base, struct workspace *ws)
{
	memset(ws->plain.p + base->nbytes, 0, ws->plain.n - base->nbytes);
}

/*
 * Completes, in ws->plain, the block whose bytes are `at`; pages have some or all of them. *kept:
 * it is the last block of the stored chunk, and begins with its old bytes: the kernel sends whole
 * pages.
 */
static int fill_block(const struct dirty_chunk *c, const struct chunk *base, struct workspace *ws,
		      struct extent at, bool *kept)
{
	uint32_t b = at.off / base->blocksize;

	if (b < base->nblocks && !pages_cover(&c->pages, at.off, at.off + at.len)) {
		TRY(decode_run(base, ws, (struct run){b, 1}));
		if (b + 1 == base->nblocks) {
			struct view old = view_of(ws->plain.p + at.off, base->nbytes - at.off);
			*kept = pages_agree(&c->pages, at.off, old);
		}
	}
	pages_overlay(&c->pages, at.off, span_of(ws->plain.p + at.off, at.len));
	return 0;
}

/* True: pages have bytes of the block, or it is longer than in the stored chunk. */
static bool is_touched(const struct dirty_chunk *c, const struct chunk *base, struct extent at)
{
	return at.off + at.len > base->nbytes ||
	       pages_touch(&c->pages, at.off, at.off + at.len);
}

/* Lists the runs of touched blocks in ws->edits, with their new bytes in ws->plain. */
static int list_edits(const struct dirty_chunk *c, const struct chunk *base, struct workspace *ws,
		      struct chunk_patch *p)
{
	struct chunk now = chunk_longer(base, c->len);

	ws->edits.n = 0;
	fill_end(base, ws);
	for (uint32_t b = 0; b < now.nblocks; b++) {
		uint32_t first = b;
		struct extent from = chunk_block_bytes(&now, b), to = from;
		for (; b < now.nblocks; b++) {
			struct extent at = chunk_block_bytes(&now, b);
			if (!is_touched(c, base, at))
				break;
			TRY(fill_block(c, base, ws, at, &p->kept));
			to = at;
		}
		if (b == first)
			continue;
		struct chunk_edit edit = {
			{first, b - first},
			view_of(ws->plain.p + from.off, to.off + to.len - from.off)};
		TRY(buf_append(&ws->edits, view_of(&edit, sizeof edit)));
		p->nedits++;
	}
	p->edit = (const struct chunk_edit *)(const void *)ws->edits.p;
	return 0;
}

/*
 * True: the chunk has grown, and is encoded as a whole. A chunk of one block has its length as the
 * block size, which is too small for the longer chunk.
 */
static bool grows_anew(const struct dirty_chunk *c, const struct chunk *base)
{
	struct file *f = c->file;

	if (c->len == base->nbytes)
		return false;
	return base->nblocks < 2 ||
	       (base->typesize > 1 &&
		policy_wants_bytewise(&f->policy, c->file_size, f->chunk_size));
}

/* True: patching pays off. If most blocks change, all are encoded again, by the present policy. */
static bool few_blocks(const struct dirty_chunk *c, const struct chunk *base)
{
	uint32_t touched = 0;

	if ((base->kind != CHUNK_REGULAR && base->kind != CHUNK_STORED) || base->is_vl ||
	    base->has_dict || grows_anew(c, base))
		return false;
	struct chunk now = chunk_longer(base, c->len);
	for (uint32_t b = 0; b < now.nblocks; b++)
		touched += is_touched(c, base, chunk_block_bytes(&now, b));
	return touched && touched <= now.nblocks / 2; /* none: it has its old length again */
}

/* 0: ws->stored has the chunk. 1: it has to be encoded as a whole. */
static int patch(const struct dirty_chunk *c, const struct chunk *base, struct workspace *ws)
{
	struct pipeline level = policy_beside(&c->file->policy, base->filter);
	struct chunk_patch p = {.chunk = base, .stored = buf_view(&ws->base), .pipeline = &level,
				.nbytes = c->len};

	if (!few_blocks(c, base))
		return 1;
	TRY(list_edits(c, base, ws, &p));
	return chunk_patch(ws->scratch, &p, &ws->stored);
}

/*
 * While chunks are waiting, each worker encodes one of its own. A chunk with none behind it is the
 * last of a file, or its only one: its blocks are divided among all workers, so that a thread
 * waiting for the file waits less.
 */
static int encode_blocks(struct file *f, const struct pipeline *p, struct view plain,
			 struct workspace *ws)
{
	struct parallel *all = NULL;

	if (plain.n >= PARALLEL_MIN && plain.n <= ENCODE_SHARED_MAX &&
	    !budget_buffers_wanted(f->fs->budget) && pool_is_idle(f->fs->pool))
		all = workspace_parallel(ws, f->fs->pool);
	return all ? parallel_encode(all, p, plain, &ws->stored)
		   : chunk_encode(ws->scratch, p, plain, &ws->stored);
}

static int encode_plain(struct file *f, const struct dirty_chunk *c, struct view plain,
			struct workspace *ws)
{
	struct policy_chunk what = {plain, c->turn, (uint64_t)c->n * f->chunk_size, c->file_size,
				    f->chunk_size};
	struct pipeline p;

	if (bytes_are_zero(plain))
		return ENCODED_HOLE;
	TRY(policy_choose(&f->policy, ws->scratch, &what, &p));
	if (f->policy.level_auto && p.level)
		p.level = (uint8_t)budget_level(f->fs->budget);
	TRY(encode_blocks(f, &p, plain, ws));
	return ENCODED;
}

/*
 * 0: the stored chunk, whose bytes the copy begins with, is in ws->base. 1: it has other bytes, or
 * cannot be appended to.
 */
static int read_kept_locked(struct file *f, const struct dirty_chunk *c, struct workspace *ws,
			    struct chunk *base)
{
	if (dirty_is_outdated(f, c) || !dirty_has_kept(f, c))
		return 1;
	TRY(frame_load_chunk(f->frame, c->n, ws->scratch, base));
	if (!chunk_can_append(base, c->len))
		return 1;
	return frame_read_raw(f->frame, c->n, &ws->base);
}

static int append_to(const struct dirty_chunk *c, const struct chunk *base, struct workspace *ws)
{
	struct pipeline level = policy_beside(&c->file->policy, base->filter);
	struct chunk_edit all = {{0, 1}, buf_view(&c->bytes)};
	struct chunk_patch p = {.chunk = base, .stored = buf_view(&ws->base), .pipeline = &level,
				.edit = &all, .nedits = 1, .nbytes = c->len, .kept = true};

	return chunk_patch(ws->scratch, &p, &ws->stored);
}

/* Longer blocks, which are rare and take memory that was not counted, are encoded. */
#define APPEND_BLOCK (256u << 10)

/*
 * Appends to a stored chunk of one block, mostly a line to a log. True: the new bytes were added to
 * its stored form. After any failure, the whole chunk can still be encoded from memory.
 */
static bool append_kept(struct file *f, const struct dirty_chunk *c, struct workspace *ws)
{
	struct chunk base = {0};

	if (!c->kept.n || c->bytes.n != c->len ||
	    c->len > min_u64(policy_block_most(&f->policy), APPEND_BLOCK))
		return false;
	pthread_rwlock_rdlock(&f->lock);
	int rc = read_kept_locked(f, c, ws, &base);
	pthread_rwlock_unlock(&f->lock);
	if (rc == 0)
		rc = append_to(c, &base, ws);
	chunk_deinit(&base);
	if (rc == 0)
		policy_pass(&f->policy, c->turn);
	err_clear();
	return rc == 0;
}

static int encode_whole(struct file *f, const struct dirty_chunk *c, struct workspace *ws)
{
	if (append_kept(f, c, ws))
		return ENCODED;
	if (c->bytes.n == c->len)
		return encode_plain(f, c, buf_view(&c->bytes), ws);
	if (bytes_are_zero(buf_view(&c->bytes)))
		return ENCODED_HOLE;
	TRY(buf_reserve_fresh(&ws->plain, c->len));
	ws->plain.n = c->len;
	memcpy(ws->plain.p, c->bytes.p, c->bytes.n);
	memset(ws->plain.p + c->bytes.n, 0, c->len - c->bytes.n);
	return encode_plain(f, c, buf_view(&ws->plain), ws);
}

/*
 * Damage below a block that is completely replaced is no reason to lose the new data: the other
 * blocks are read one by one. Only if blocks have checksums, since otherwise damage cannot be told
 * from data, and the new chunk's checksums would vouch for it. The lock is held.
 */
static int read_blocks_around(struct file *f, const struct dirty_chunk *c, const struct chunk *base,
			      struct workspace *ws)
{
	struct frame_chunk below = {f->frame, c->n, base};

	fill_end(base, ws);
	for (uint32_t b = 0; b < base->nblocks; b++) {
		struct extent at = chunk_block_bytes(base, b);
		if (!pages_cover(&c->pages, at.off, at.off + at.len))
			TRY(frame_read_blocks(below, (struct run){b, 1}, ws->scratch,
					      span_of(ws->plain.p + at.off, at.len)));
	}
	return 0;
}

static int read_around(struct file *f, const struct dirty_chunk *c, struct workspace *ws)
{
	struct chunk base = {0};

	pthread_rwlock_rdlock(&f->lock);
	int rc = dirty_is_outdated(f, c)
			 ? ENCODED_OUTDATED
			 : frame_load_chunk(f->frame, c->n, ws->scratch, &base);
	if (rc == 0)
		rc = base.sums ? read_blocks_around(f, c, &base, ws) : -EBADMSG;
	pthread_rwlock_unlock(&f->lock);
	chunk_deinit(&base);
	return rc == 0 ? BASE_DECODED : rc;
}

/* Frees each large buffer before it needs the next. */
static int patch_or_decode(const struct dirty_chunk *c, const struct chunk *base,
			   struct workspace *ws)
{
	int rc = patch(c, base, ws);

	if (rc == 0)
		return ENCODED;
	workspace_done(&ws->stored);
	if (rc > 0) {
		fill_end(base, ws);
		rc = decode_run(base, ws, (struct run){0, base->nblocks});
	}
	workspace_done(&ws->base);
	return rc < 0 ? rc : BASE_DECODED;
}

static int patch_or_read(struct file *f, const struct dirty_chunk *c, struct workspace *ws)
{
	struct base b = {0};
	int rc = read_base(f, c, ws, &b);

	if (rc == 0)
		rc = b.stored ? patch_or_decode(c, &b.chunk, ws) : BASE_DECODED;
	chunk_deinit(&b.chunk);
	return rc;
}

static bool is_unreadable(int rc)
{
	return rc == -EBADMSG || rc == -ENOTSUP;
}

/*
 * Wrong bytes may come from the way between the disk and us: they are read once more before the
 * data that was written over them is given up.
 */
static int patch_or_read_twice(struct file *f, const struct dirty_chunk *c, struct workspace *ws)
{
	int rc = patch_or_read(f, c, ws);

	if (is_unreadable(rc))
		rc = patch_or_read(f, c, ws);
	return rc == -EBADMSG ? read_around(f, c, ws) : rc;
}

/*
 * True: what was written over a chunk that could not be read is given up. A failing device may
 * answer the next time, if there is memory to wait for that. What must be stored waits in any case,
 * since there is no commit without it.
 */
static bool gives_up(struct file *f, const struct dirty_chunk *c, int rc)
{
	return !c->must_store &&
	       (is_unreadable(rc) || (rc == -EIO && budget_gives_up(f->fs->budget)));
}

static int encode_over(struct file *f, const struct dirty_chunk *c, struct workspace *ws,
		       bool *damaged)
{
	/* Other chunks must not wait for their turns while this reads and patches. */
	policy_pass(&f->policy, c->turn);
	int rc = patch_or_read_twice(f, c, ws);
	*damaged = gives_up(f, c, rc);
	if (rc != BASE_DECODED)
		return rc;
	err_clear();
	pages_overlay(&c->pages, 0, buf_span(&ws->plain));
	return encode_plain(f, c, buf_view(&ws->plain), ws);
}

static int encode_pages(struct file *f, const struct dirty_chunk *c, struct workspace *ws,
			bool *damaged)
{
	TRY(buf_reserve_fresh(&ws->plain, c->len));
	ws->plain.n = c->len;
	if (pages_cover(&c->pages, 0, c->len)) {
		pages_overlay(&c->pages, 0, buf_span(&ws->plain));
		return encode_plain(f, c, buf_view(&ws->plain), ws);
	}
	/* No bound: the data has been accepted, so the chunks are not too large (write.c). */
	uint64_t usual = scratch_bound(ws->scratch, UINT64_MAX);
	int rc = encode_over(f, c, ws, damaged);
	scratch_bound(ws->scratch, usual);
	return rc;
}

int encode_chunk(struct file *f, const struct dirty_chunk *c, struct workspace *ws, bool *damaged)
{
	*damaged = false;
	return c->whole ? encode_whole(f, c, ws) : encode_pages(f, c, ws, damaged);
}
