#include "frame/space.h"

#include "base/buf.h"
#include "base/container.h"

#include <assert.h>

/* In two treaps while free, in one while lent or put, on a list while retired or waiting. */
struct space_extent {
	uint64_t at, len;
	struct treap_node by_at, by_len; /* free: both. Busy: by_at */
	struct space_extent *next;       /* of the list */
	bool lent;
	bool marked; /* for the visitor of space_each_free: punched out, say */
};

static struct space_extent *of_at(const struct treap_node *e)
{
	return e ? CONTAINER_OF(e, struct space_extent, by_at) : NULL;
}

static struct space_extent *of_len(const struct treap_node *e)
{
	return e ? CONTAINER_OF(e, struct space_extent, by_len) : NULL;
}

static bool is_lower(const struct treap_node *a, const struct treap_node *b)
{
	return of_at(a)->at < of_at(b)->at;
}

/* Ties go to the lower offset. */
static bool is_shorter(const struct treap_node *a, const struct treap_node *b)
{
	const struct space_extent *l = of_len(a), *r = of_len(b);
	return l->len != r->len ? l->len < r->len : l->at < r->at;
}

/* The first extent that begins at or after `at`, and the last that begins before it. */
static struct space_extent *first_from(const struct treap *t, uint64_t at)
{
	const struct space_extent key = {.at = at};
	return of_at(treap_from(t, &key.by_at));
}

static struct space_extent *last_before(const struct treap *t, uint64_t at)
{
	const struct space_extent key = {.at = at};
	return of_at(treap_below(t, &key.by_at));
}

/*
 * The shortest free extent of at least `len` bytes; one of exactly `len` must begin at or after
 * `at`.
 */
static struct space_extent *best_fit(const struct space *sp, uint64_t len, uint64_t at)
{
	const struct space_extent key = {.at = at, .len = len};
	return of_len(treap_from(&sp->by_len, &key.by_len));
}

void space_init(struct space *sp, uint64_t end)
{
	*sp = (struct space){
		.end = end,
		.high = end,
		.by_at.before = is_lower,
		.by_len.before = is_shorter,
		.busy.before = is_lower,
	};
}

static struct space_extent *extent_new(uint64_t at, uint64_t len)
{
	struct space_extent *e = mem_zalloc(sizeof *e);
	if (e) {
		e->at = at;
		e->len = len;
	}
	return e;
}

static struct space_extent *list_pop(struct space_extent **list)
{
	struct space_extent *e = *list;
	if (e)
		*list = e->next;
	return e;
}

static void list_push(struct space_extent **list, struct space_extent *e)
{
	e->next = *list;
	*list = e;
}

/* Removes an arbitrary extent from the treap. */
static struct space_extent *pop_at(struct treap *t)
{
	struct space_extent *e = of_at(t->root);
	if (e)
		treap_remove(t, &e->by_at);
	return e;
}

/* Forgets whatever is free, retired or waiting. */
static void forget_idle(struct space *sp)
{
	struct space_extent *e;
	while ((e = pop_at(&sp->by_at)))
		mem_free(e);
	while ((e = list_pop(&sp->retired)))
		mem_free(e);
	while ((e = list_pop(&sp->waiting)))
		mem_free(e);
	sp->by_len.root = NULL;
	sp->nfree = sp->nretired = sp->nwaiting = 0;
}

void space_deinit(struct space *sp)
{
	struct space_extent *e;
	forget_idle(sp);
	while ((e = pop_at(&sp->busy)))
		mem_free(e);
	*sp = (struct space){0};
}

static void unlink_free(struct space *sp, struct space_extent *e)
{
	treap_remove(&sp->by_at, &e->by_at);
	treap_remove(&sp->by_len, &e->by_len);
	sp->nfree -= e->len;
}

static void link_free(struct space *sp, struct space_extent *e)
{
	treap_add(&sp->by_at, &e->by_at);
	treap_add(&sp->by_len, &e->by_len);
	sp->nfree += e->len;
}

/* Makes an extent free, merged with its neighbours; at the very end, lowers sp->end instead. */
static void set_free(struct space *sp, struct space_extent *e)
{
	struct space_extent *low = last_before(&sp->by_at, e->at);
	struct space_extent *high = first_from(&sp->by_at, e->at);
	bool clash = (low && low->at + low->len > e->at) || (high && e->at + e->len > high->at);
	if (clash || e->at + e->len > sp->end) {
		mem_free(e); /* a hostile file: two chunks in one place */
		return;
	}
	e->marked = false;
	if (low && low->at + low->len == e->at) {
		unlink_free(sp, low);
		e->at = low->at;
		e->len += low->len;
		mem_free(low);
	}
	if (high && e->at + e->len == high->at) {
		unlink_free(sp, high);
		e->len += high->len;
		mem_free(high);
	}
	if (e->at + e->len == sp->end) {
		sp->end = e->at;
		mem_free(e);
		return;
	}
	link_free(sp, e);
}

static void lend(struct space *sp, struct space_extent *e, uint64_t at, uint64_t len)
{
	e->at = at;
	e->len = len;
	e->lent = true;
	treap_add(&sp->busy, &e->by_at);
	sp->nlent++;
}

/* Lends the first `len` bytes of a free extent; the rest stays free. */
static int carve(struct space *sp, struct space_extent *e, uint64_t len, uint64_t *at)
{
	struct space_extent *lent = e->len > len ? extent_new(e->at, len) : e;
	if (!lent)
		return -ENOMEM;
	*at = e->at;
	unlink_free(sp, e);
	if (lent != e) {
		e->at += len;
		e->len -= len;
		link_free(sp, e);
	}
	lend(sp, lent, *at, len);
	return 0;
}

static int take_end(struct space *sp, uint64_t len, uint64_t *at)
{
	uint64_t end;
	if (add_overflows(sp->end, len, &end) || end > INT64_MAX)
		return -EFBIG;
	struct space_extent *e = extent_new(0, 0);
	if (!e)
		return -ENOMEM;
	*at = sp->end;
	sp->end = end;
	sp->high = max_u64(sp->high, end);
	lend(sp, e, *at, len);
	return 0;
}

int space_take(struct space *sp, uint64_t len, uint64_t *at)
{
	assert(len > 0);
	struct space_extent *e = best_fit(sp, len, 0);
	return e ? carve(sp, e, len, at) : take_end(sp, len, at);
}

/* The lowest free extent of at least `len` bytes that begins at or after `least`. */
static struct space_extent *lowest_from(const struct space *sp, uint64_t len, uint64_t least)
{
	struct space_extent *e = first_from(&sp->by_at, least);
	while (e && e->len < len)
		e = first_from(&sp->by_at, e->at + 1);
	return e;
}

int space_take_after(struct space *sp, uint64_t len, uint64_t least, uint64_t *at)
{
	assert(len > 0 && least <= sp->end);
	struct space_extent *e = lowest_from(sp, len, least);
	return e ? carve(sp, e, len, at) : take_end(sp, len, at);
}

bool space_fits_between(const struct space *sp, uint64_t len, uint64_t least, uint64_t most)
{
	const struct space_extent *e = lowest_from(sp, len, least);
	return e && e->at + len <= most;
}

#define LOOKS_BELOW 16

int space_take_below(struct space *sp, uint64_t len, uint64_t most, uint64_t *at)
{
	struct space_extent *e = best_fit(sp, len, 0);
	/* Larger extents may lie lower: a few are worth a look. */
	for (int i = 0; e && e->at + len > most && i < LOOKS_BELOW; i++)
		e = best_fit(sp, e->len, e->at + 1);
	if (!e || e->at + len > most)
		return -ENOSPC;
	return carve(sp, e, len, at);
}

static struct space_extent *find_busy(const struct space *sp, uint64_t at)
{
	struct space_extent *e = first_from(&sp->busy, at);
	return e && e->at == at ? e : NULL;
}

void space_put(struct space *sp, uint64_t at, uint64_t len)
{
	struct space_extent *e = find_busy(sp, at);
	assert(e && e->lent && e->len == len);
	e->lent = false;
	sp->nlent--;
}

void space_give(struct space *sp, uint64_t at, uint64_t len)
{
	struct space_extent *e = find_busy(sp, at);
	assert(e && e->lent && e->len == len);
	sp->nlent--;
	treap_remove(&sp->busy, &e->by_at);
	set_free(sp, e);
}

void space_shorten(struct space *sp, uint64_t at, uint64_t len)
{
	struct space_extent *e = find_busy(sp, at);
	assert(e && e->lent && len > 0 && len <= e->len);
	uint64_t rest = e->len - len;
	e->len = len;
	struct space_extent *tail = rest ? extent_new(at + len, rest) : NULL;
	if (tail) /* no root ever referred to it */
		set_free(sp, tail);
}

bool space_is_busy(const struct space *sp)
{
	return sp->busy.root;
}

uint64_t space_busy_length(const struct space *sp, uint64_t at)
{
	struct space_extent *e = find_busy(sp, at);
	return e ? e->len : 0;
}

bool space_drop(struct space *sp, uint64_t at)
{
	struct space_extent *e = find_busy(sp, at);
	if (!e || e->lent)
		return false;
	treap_remove(&sp->busy, &e->by_at);
	set_free(sp, e);
	return true;
}

/* If memory is short, the bytes are forgotten until the file is opened again. */
static void list_add(struct space_extent **list, uint64_t *bytes, uint64_t at, uint64_t len)
{
	struct space_extent *e = len ? extent_new(at, len) : NULL;
	if (!e)
		return;
	list_push(list, e);
	*bytes += len;
}

void space_retire(struct space *sp, uint64_t at, uint64_t len)
{
	list_add(&sp->retired, &sp->nretired, at, len);
}

void space_wait(struct space *sp, uint64_t at, uint64_t len)
{
	list_add(&sp->waiting, &sp->nwaiting, at, len);
}

void space_use(struct space *sp)
{
	struct space_extent *lent = NULL, *e;
	while ((e = pop_at(&sp->busy)))
		if (e->lent)
			list_push(&lent, e);
		else
			mem_free(e);
	while ((e = list_pop(&lent)))
		treap_add(&sp->busy, &e->by_at);
}

void space_pass(struct space *sp)
{
	struct space_extent *e;
	while ((e = list_pop(&sp->retired)))
		list_push(&sp->waiting, e);
	sp->nwaiting += sp->nretired;
	sp->nretired = 0;
}

void space_durable(struct space *sp)
{
	struct space_extent *e;
	while ((e = list_pop(&sp->waiting)))
		set_free(sp, e);
	sp->nwaiting = 0;
}

void space_cut(struct space *sp, uint64_t end)
{
	assert(sp->nlent == 0 && !sp->busy.root);
	forget_idle(sp);
	sp->end = end;
	sp->high = max_u64(sp->high, end);
}

void space_each_free(struct space *sp, uint64_t len,
		     bool (*visit)(void *arg, uint64_t at, uint64_t len, bool *mark), void *arg)
{
	struct space_extent key = {.len = UINT64_MAX, .at = UINT64_MAX};
	for (;;) {
		struct space_extent *e = of_len(treap_below(&sp->by_len, &key.by_len));
		if (!e || e->len < len || !visit(arg, e->at, e->len, &e->marked))
			return;
		key = (struct space_extent){.len = e->len, .at = e->at};
	}
}

void space_check(const struct space *sp)
{
	uint64_t sum = 0;
	const struct space_extent *e, *last = NULL;
	for (uint64_t at = 0; (e = first_from(&sp->by_at, at)); at = e->at + 1) {
		assert(!last || last->at + last->len < e->at);
		assert(e->at + e->len < sp->end);
		sum += e->len;
		last = e;
	}
	assert(sum == sp->nfree);
	(void)last;
}
