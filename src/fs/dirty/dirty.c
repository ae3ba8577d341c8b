#include "fs/dirty/dirty.h"

#include "fs/read/read.h"

#include <assert.h>

struct dirty_chunk *dirty_find_flushing(const struct dirty *d, uint32_t n)
{
	return dirty_set_find(&d->flushing, n);
}

static struct dirty_chunk *find_dirty(const struct dirty *d, uint32_t n)
{
	return dirty_set_find(&d->dirty, n);
}

struct dirty_chunk *dirty_find(const struct dirty *d, uint32_t n)
{
	struct dirty_chunk *c = find_dirty(d, n);
	return c ? c : dirty_find_flushing(d, n);
}

bool dirty_is_outdated(const struct file *f, const struct dirty_chunk *c)
{
	return c->n >= frame_nchunks(f->frame) || frame_chunk_span(f->frame, c->n).len != c->len;
}

static bool holds_up(const struct dirty_set *s)
{
	const struct dirty_chunk *c;

	DIRTY_SET_EACH(s, 0, n, c)
		if (c->must_store)
			return true;
	return false;
}

bool dirty_holds_up(const struct dirty *d)
{
	return holds_up(&d->dirty) || holds_up(&d->flushing);
}

/* Only chunks that are part of the file count: one that was cut off may still be FLUSHING. */
static uint32_t first_unshown(const struct dirty_set *s, const struct file *f, uint32_t from)
{
	uint32_t end = frame_nchunks(f->frame);
	const struct dirty_chunk *c;

	DIRTY_SET_EACH(s, from, n, c) {
		if (n >= end)
			break;
		if (frame_is_hole(f->frame, n) || frame_slot_is_new(f->frame, n))
			return n;
	}
	return UINT32_MAX;
}

uint32_t dirty_first_unshown(const struct file *f, uint32_t from)
{
	uint32_t dirty = first_unshown(&f->dirty.dirty, f, from);
	uint32_t flushing = first_unshown(&f->dirty.flushing, f, from);
	return dirty < flushing ? dirty : flushing;
}

/* Counts the memory of a chunk in the budget. */
static void charge(struct dirty_chunk *c)
{
	size_t now = sizeof *c + c->bytes.cap + pages_memory(&c->pages);

	if (now == c->charged)
		return;
	budget_add(c->file->fs->budget, (int64_t)now - (int64_t)c->charged);
	c->charged = now;
}

static void drop_bytes(struct file *f, struct dirty_chunk *c)
{
	if (c->bytes.cap >= f->chunk_size)
		spare_give(f->fs->spare, &c->bytes);
	else
		buf_free(&c->bytes);
}

void dirty_free(struct file *f, struct dirty_chunk *c)
{
	budget_add(f->fs->budget, -(int64_t)c->charged);
	pages_drop(&c->pages, 0);
	drop_bytes(f, c);
	mem_free(c);
}

void dirty_drop(struct file *f, struct dirty_chunk *c)
{
	dirty_set_remove(&f->dirty.dirty, c);
	dirty_free(f, c);
}

/* Makes room for `need` bytes, by doubling, so that a small file stays small. */
static int reserve(struct dirty_chunk *c, uint32_t need)
{
	struct file *f = c->file;
	size_t before = c->bytes.cap;
	size_t limit = max_u64(f->chunk_size, need);

	if (need <= before)
		return 0;
	if (need <= limit / 2)
		return buf_reserve(&c->bytes, max_u64(need, min_u64(limit, before * 2)));
	struct buf all = spare_take(f->fs->spare, limit);
	if (!all.p) {
		TRY(buf_reserve(&all, limit));
		(void)mem_populate(all.p, all.cap);
	}
	all.n = c->bytes.n;
	if (all.n)
		memcpy(all.p, c->bytes.p, all.n);
	buf_free(&c->bytes);
	c->bytes = all;
	return 0;
}

/*
 * For a whole copy: makes room for [0, hi), with zeros in a gap up to lo. The caller fills [lo,
 * hi).
 */
static int stretch(struct dirty_chunk *c, uint32_t lo, uint32_t hi)
{
	TRY(reserve(c, hi));
	if (lo > c->bytes.n)
		memset(c->bytes.p + c->bytes.n, 0, lo - c->bytes.n);
	c->bytes.n = max_u64(c->bytes.n, hi);
	return 0;
}

/* Reads bytes that no page of `c` has: from the FLUSHING copy, or the frame. */
static int read_below(struct file *f, const struct dirty_chunk *c, uint32_t lo, struct span dst)
{
	const struct dirty_chunk *old = dirty_find_flushing(&f->dirty, c->n);

	if (old && old != c)
		return dirty_read(f, old, lo, dst);
	uint32_t end = frame_is_hole(f->frame, c->n) ? 0 : frame_stored_len(f->frame, c->n);
	size_t have = lo < end ? min_u64(end - lo, dst.n) : 0;
	memset(dst.p + have, 0, dst.n - have);
	return have ? file_read_stored(f, c->n, lo, span_of(dst.p, have)) : 0;
}

static int read_pages(struct file *f, const struct dirty_chunk *c, uint32_t lo, struct span dst)
{
	const struct dirty_pages *d = &c->pages;
	uint32_t hi = lo + (uint32_t)dst.n;

	for (uint32_t i = pages_from(d, lo), at = lo; at < hi; i++) {
		uint32_t next = i < d->n && d->page[i].at < hi ? d->page[i].at : hi;
		if (at < next)
			TRY(read_below(f, c, at, span_of(dst.p + (at - lo), next - at)));
		at = next + DIRTY_PAGE;
	}
	pages_overlay(d, lo, dst);
	return 0;
}

int dirty_read(struct file *f, const struct dirty_chunk *c, uint32_t lo, struct span dst)
{
	if (!c->whole)
		return read_pages(f, c, lo, dst);
	size_t have = lo < c->bytes.n ? min_u64(c->bytes.n - lo, dst.n) : 0;
	memcpy(dst.p, c->bytes.p + lo, have);
	memset(dst.p + have, 0, dst.n - have);
	return 0;
}

/*
 * Makes room for one more page, at `at`, and for putting an older copy back below it, which is with
 * the workers now and may fail to be stored.
 */
static int reserve_page(struct dirty_chunk *c, uint32_t at)
{
	const struct dirty_chunk *old = dirty_find_flushing(&c->file->dirty, c->n);
	uint64_t end = min_u64((uint64_t)at + DIRTY_PAGE, c->file->chunk_size);

	if (old && old->whole && end > old->bytes.cap)
		TRY(buf_reserve(&c->bytes, end));
	return pages_reserve(&c->pages, 1 + (old ? old->pages.n : 0));
}

/* Inserts a page for a write to *p, with the older bytes around the write. `len`: of the chunk. */
static int new_page(struct dirty_chunk *c, uint32_t i, const struct piece *p, uint32_t len)
{
	uint32_t at = p->lo - p->lo % DIRTY_PAGE,
		 end = (uint32_t)min_u64((uint64_t)at + DIRTY_PAGE, len);
	struct dirty_page page = {at, NULL};

	TRY(reserve_page(c, at));
	page.p = mem_zalloc(DIRTY_PAGE);
	if (!page.p)
		return -ENOMEM;
	int rc = p->lo > at ? read_below(c->file, c, at, span_of(page.p, p->lo - at)) : 0;
	if (rc >= 0 && p->hi < end)
		rc = read_below(c->file, c, p->hi, span_of(page.p + (p->hi - at), end - p->hi));
	if (rc < 0)
		mem_free(page.p);
	else
		pages_insert(&c->pages, i, page);
	return rc;
}

/* `src` NULL: zeros. */
static void put_bytes(uint8_t *to, const uint8_t *src, size_t n)
{
	if (src)
		memcpy(to, src, n);
	else
		memset(to, 0, n);
}

/* *done: the end of what was written, also after a failure. */
static int write_pages(struct dirty_chunk *c, const struct piece *p, const uint8_t *src,
		       uint32_t *done)
{
	uint32_t len = frame_chunk_span(c->file->frame, c->n).len;

	for (uint32_t i = pages_from(&c->pages, p->lo), at = p->lo; at < p->hi; i++) {
		struct piece part = {
			c->n, at,
			(uint32_t)min_u64((uint64_t)at - at % DIRTY_PAGE + DIRTY_PAGE, p->hi)};
		if (!pages_has(&c->pages, i, at))
			TRY(new_page(c, i, &part, len));
		put_bytes(c->pages.page[i].p + at % DIRTY_PAGE, src ? src + (at - p->lo) : NULL,
			  part.hi - at);
		*done = at = part.hi;
	}
	return 0;
}

/* True: the piece is a whole chunk and fills `own`, whose memory now belongs to the chunk. */
static bool take_buffer(struct dirty_chunk *c, const struct piece *p, struct buf *own)
{
	size_t n = p->hi - p->lo;

	if (!own || n != own->cap || n != c->file->chunk_size)
		return false;
	drop_bytes(c->file, c);
	c->bytes = *own;
	c->bytes.n = n;
	*own = (struct buf){0};
	return true;
}

/*
 * Updates c->kept before a write: the kernel sends whole pages, in which most bytes are unchanged.
 */
static void update_kept(struct dirty_chunk *c, const struct piece *p, const uint8_t *src)
{
	if (p->lo < c->kept.n &&
	    (!src || memcmp(src, c->bytes.p + p->lo, min_u64(p->hi, c->kept.n) - p->lo) != 0))
		c->kept.n = 0;
}

static int write_whole(struct dirty_chunk *c, const struct piece *p, const uint8_t *src,
		       struct buf *own)
{
	if (take_buffer(c, p, own)) {
		c->kept.n = 0;
		return 0;
	}
	update_kept(c, p, src);
	TRY(stretch(c, p->lo, p->hi));
	put_bytes(c->bytes.p + p->lo, src, p->hi - p->lo);
	return 0;
}

struct dirty_chunk *dirty_get(struct file *f, uint32_t n)
{
	struct dirty_chunk *c = find_dirty(&f->dirty, n);

	if (c)
		return c;
	c = mem_zalloc(sizeof *c);
	if (!c)
		return NULL;
	c->file = f;
	c->n = n;
	dirty_set_add(&f->dirty.dirty, c);
	charge(c);
	return c;
}

/* A write of at least an 8th of a chunk is not a small write, for which pages are meant. */
#define LARGE_PART 8

/*
 * True: this is a new chunk in a hole that will probably be filled, so that pages would be a
 * detour: it is written from its start, or in large pieces. (If an application's requests are not
 * aligned to chunks, the kernel sends the halves of a chunk in any order.)
 */
static bool wants_whole(const struct file *f, const struct dirty_chunk *c, const struct piece *p)
{
	bool starts = p->lo == 0 && !c->pages.n;
	bool large = p->hi - p->lo >= f->chunk_size / LARGE_PART;

	return (starts || large) && frame_is_hole(f->frame, c->n) &&
	       !dirty_find_flushing(&f->dirty, c->n);
}

bool dirty_has_kept(const struct file *f, const struct dirty_chunk *c)
{
	return frame_slot(f->frame, c->n) == SLOT_STORED &&
	       frame_stored_len(f->frame, c->n) == c->kept.n &&
	       frame_stored_sum(f->frame, c->n) == c->kept.sum;
}

/* True: if made whole now, the copy gets exactly the bytes of the stored chunk. */
static bool begins_as_stored(const struct file *f, const struct dirty_chunk *c)
{
	return !c->pages.n && !dirty_find_flushing(&f->dirty, c->n) &&
	       frame_stored_sum(f->frame, c->n) &&
	       frame_stored_len(f->frame, c->n) == frame_chunk_span(f->frame, c->n).len;
}

static int make_whole(struct file *f, struct dirty_chunk *c)
{
	uint32_t len = frame_chunk_span(f->frame, c->n).len;
	bool stored = begins_as_stored(f, c);
	struct recall_key key = {f->cache_owner, frame_stored_sum(f->frame, c->n)};

	if (!stored || c->bytes.p || !recall_take(&f->fs->recall, key, len, &c->bytes)) {
		TRY(reserve(c, len));
		TRY(read_pages(f, c, 0, span_of(c->bytes.p, len)));
	}
	c->bytes.n = len;
	c->whole = true;
	c->kept.n = stored ? len : 0;
	c->kept.sum = key.sum;
	pages_drop(&c->pages, 0);
	return 0;
}

void dirty_free_stored(struct file *f, struct dirty_chunk *c)
{
	struct recall_key key = {f->cache_owner, frame_stored_sum(f->frame, c->n)};

	if (c->kept.n && c->bytes.n == c->len && key.sum)
		recall_give(&f->fs->recall, key, &c->bytes);
	dirty_free(f, c);
}

/* A chunk with must_store stays, even if it only adds zeros after the stored bytes. */
static void drop_empty(struct file *f, struct dirty_chunk *c)
{
	if (!c->whole && !c->pages.n && !c->must_store)
		dirty_drop(f, c);
}

int dirty_write(struct file *f, struct piece *p, const uint8_t *src, struct buf *own,
		struct dirty_chunk **out)
{
	struct dirty_chunk *c = dirty_get(f, p->chunk);
	uint32_t len = frame_chunk_span(f->frame, p->chunk).len;
	struct piece want = *p;
	int rc;

	assert(!own || own->p == src);
	p->hi = p->lo; /* so far */
	if (!c)
		return -ENOMEM;
	bool all = want.lo == 0 && want.hi == len;
	if (c->whole || all || wants_whole(f, c, &want)) {
		rc = c->pages.n && !all ? make_whole(f, c) : 0;
		if (rc >= 0)
			rc = write_whole(c, &want, src, own);
		if (rc >= 0 && !c->whole) {
			pages_drop(&c->pages, 0);
			c->whole = true;
		}
		if (rc >= 0)
			p->hi = want.hi;
	} else {
		rc = write_pages(c, &want, src, &p->hi);
	}
	charge(c);
	if (rc < 0)
		drop_empty(f, c);
	*out = c;
	return rc;
}

int dirty_get_whole(struct file *f, uint32_t n, struct dirty_chunk **out)
{
	struct dirty_chunk *c = *out = dirty_get(f, n);

	if (!c)
		return -ENOMEM;
	int rc = c->whole ? 0 : make_whole(f, c);
	charge(c);
	if (rc < 0)
		drop_empty(f, c);
	return rc;
}

void dirty_cut(struct dirty_chunk *c, uint32_t len)
{
	c->bytes.n = min_u64(c->bytes.n, len);
	if (len < c->kept.n)
		c->kept.n = 0;
	uint32_t i = pages_from(&c->pages, len);
	if (pages_has(&c->pages, i, len)) {
		memset(c->pages.page[i].p + len % DIRTY_PAGE, 0, DIRTY_PAGE - len % DIRTY_PAGE);
		i += len % DIRTY_PAGE > 0;
	}
	pages_drop(&c->pages, i);
	charge(c);
}

/* Copies the newer pages over the older, whole copy. */
static void take_pages(struct dirty_chunk *whole, struct dirty_chunk *newer)
{
	uint64_t end = (uint64_t)newer->pages.page[newer->pages.n - 1].at + DIRTY_PAGE;
	uint32_t len = frame_chunk_span(whole->file->frame, whole->n).len;

	end = min_u64(end, len);
	if (end > whole->bytes.cap) { /* reserve_page has put a larger buffer into newer->bytes */
		struct buf larger = newer->bytes;
		assert(end <= larger.cap);
		larger.n = whole->bytes.n;
		memcpy(larger.p, whole->bytes.p, larger.n);
		newer->bytes = whole->bytes;
		whole->bytes = larger;
	}
	if (end > whole->bytes.n) {
		memset(whole->bytes.p + whole->bytes.n, 0, end - whole->bytes.n);
		whole->bytes.n = end;
	}
	pages_overlay(&newer->pages, 0, buf_span(&whole->bytes));
	whole->kept.n = 0;
}

void dirty_put_back_take(struct file *f, struct dirty_chunk *c)
{
	struct dirty_chunk *newer = find_dirty(&f->dirty, c->n);

	if (newer) /* one of the two goes */
		newer->must_store = c->must_store = newer->must_store || c->must_store;
	if (!newer || (c->whole && !newer->whole)) {
		if (newer) {
			take_pages(c, newer);
			dirty_drop(f, newer);
		}
		charge(c);
		dirty_set_add(&f->dirty.dirty, c);
		return;
	}
	if (!newer->whole) {
		pages_give(&c->pages, &newer->pages); /* reserve_page has made room */
		charge(newer);
	}
	dirty_free(f, c);
}
