#include "frame/space.h"

#include "base/buf.h"

#include <assert.h>

/* A node of two treaps while free, of one while busy, of a list while it waits. */
struct space_extent {
	uint64_t at, len;
	uint32_t weight;
	bool lent;
	bool marked; /* the visitor's: such as punched out */
	struct space_extent *kid[2][2];
};

enum { BY_AT, BY_LEN };

typedef struct space_extent node;

void space_init(struct space *sp, uint64_t end)
{
	*sp = (struct space){.end = end, .high = end, .seed = 1};
}

static node *node_new(struct space *sp, uint64_t at, uint64_t len)
{
	node *e = mem_zalloc(sizeof *e);
	if (!e)
		return NULL;
	sp->seed = sp->seed * 1664525 + 1013904223; /* Numerical Recipes */
	e->weight = sp->seed >> 4; /* its low bits are the least random */
	e->at = at;
	e->len = len;
	return e;
}

static bool before(int by, const node *a, const node *b)
{
	if (by == BY_LEN && a->len != b->len)
		return a->len < b->len;
	return a->at < b->at;
}

/* Everything before `key` to *l, the rest to *r. */
static void split(int by, node *t, const node *key, node **l, node **r)
{
	while (t) {
		if (before(by, t, key)) {
			*l = t;
			l = &t->kid[by][1];
			t = *l;
		} else {
			*r = t;
			r = &t->kid[by][0];
			t = *r;
		}
	}
	*l = *r = NULL;
}

static node *join(int by, node *l, node *r)
{
	node *top = NULL, **at = &top;
	while (l && r) {
		if (l->weight > r->weight) {
			*at = l;
			at = &l->kid[by][1];
			l = *at;
		} else {
			*at = r;
			at = &r->kid[by][0];
			r = *at;
		}
	}
	*at = l ? l : r;
	return top;
}

static void insert(int by, node **t, node *e)
{
	node *l, *r;
	e->kid[by][0] = e->kid[by][1] = NULL;
	split(by, *t, e, &l, &r);
	*t = join(by, join(by, l, e), r);
}

static void erase(int by, node **t, node *e)
{
	while (*t != e) {
		assert(*t);
		t = &(*t)->kid[by][before(by, *t, e)];
	}
	*t = join(by, e->kid[by][0], e->kid[by][1]);
}

/* The first that is not before `key`, or the last that is. */
static node *first_from(int by, node *t, const node *key)
{
	node *found = NULL;
	while (t) {
		bool low = before(by, t, key);
		if (!low)
			found = t;
		t = t->kid[by][low];
	}
	return found;
}

static node *last_before(int by, node *t, const node *key)
{
	node *found = NULL;
	while (t) {
		bool low = before(by, t, key);
		if (low)
			found = t;
		t = t->kid[by][low];
	}
	return found;
}

static void free_tree(int by, node *t)
{
	if (!t)
		return;
	free_tree(by, t->kid[by][0]);
	free_tree(by, t->kid[by][1]);
	mem_free(t);
}

/* Lists are chained by kid[0][0]. */
static node *list_pop(node **list)
{
	node *e = *list;
	if (e)
		*list = e->kid[0][0];
	return e;
}

static void list_push(node **list, node *e)
{
	e->kid[0][0] = *list;
	*list = e;
}

static void forget_free(struct space *sp)
{
	node *e;
	free_tree(BY_AT, sp->by_at);
	while ((e = list_pop(&sp->pending)))
		mem_free(e);
	while ((e = list_pop(&sp->root)))
		mem_free(e);
	sp->by_at = sp->by_len = NULL;
	sp->nfree = sp->npending = sp->nroot = 0;
}

void space_deinit(struct space *sp)
{
	forget_free(sp);
	free_tree(BY_AT, sp->busy);
	*sp = (struct space){0};
}

static void unlink_free(struct space *sp, node *e)
{
	erase(BY_AT, &sp->by_at, e);
	erase(BY_LEN, &sp->by_len, e);
	sp->nfree -= e->len;
}

static void link_free(struct space *sp, node *e)
{
	insert(BY_AT, &sp->by_at, e);
	insert(BY_LEN, &sp->by_len, e);
	sp->nfree += e->len;
}

/* Becomes free, joined with its neighbours; free bytes at the very end are let go. */
static void set_free(struct space *sp, node *e)
{
	node *low = last_before(BY_AT, sp->by_at, e), *high = first_from(BY_AT, sp->by_at, e);
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

static void lend(struct space *sp, node *e, uint64_t at, uint64_t len)
{
	e->at = at;
	e->len = len;
	e->lent = true;
	insert(BY_AT, &sp->busy, e);
	sp->nlent++;
}

/* Lends part of a free extent; what is left on both sides stays free. */
static int carve(struct space *sp, node *e, uint64_t at, uint64_t len)
{
	uint64_t before_n = at - e->at, after_n = e->at + e->len - at - len;
	node *rest = NULL, *lent = e;
	if (before_n || after_n) {
		lent = node_new(sp, 0, 0);
		if (!lent)
			return -ENOMEM;
	}
	if (before_n && after_n) {
		rest = node_new(sp, at + len, after_n);
		if (!rest) {
			mem_free(lent);
			return -ENOMEM;
		}
	}
	unlink_free(sp, e);
	if (before_n)
		e->len = before_n;
	else if (after_n)
		*e = (node){
			.at = at + len, .len = after_n, .weight = e->weight, .marked = e->marked};
	if (lent != e)
		link_free(sp, e);
	if (rest) {
		rest->marked = e->marked;
		link_free(sp, rest);
	}
	lend(sp, lent, at, len);
	return 0;
}

static int take_end(struct space *sp, uint64_t len, uint64_t *at)
{
	uint64_t end;
	if (add_overflows(sp->end, len, &end) || end > INT64_MAX)
		return -EFBIG;
	node *e = node_new(sp, 0, 0);
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
	node *e = first_from(BY_LEN, sp->by_len, &(node){.len = len});
	if (!e)
		return take_end(sp, len, at);
	*at = e->at;
	return carve(sp, e, *at, len);
}

int space_take_behind(struct space *sp, uint64_t len, uint64_t least, uint64_t *at)
{
	assert(len > 0);
	node *e = last_before(BY_AT, sp->by_at, &(node){.at = least});
	if (!e || e->at + e->len <= least)
		e = first_from(BY_AT, sp->by_at, &(node){.at = least});
	while (e) {
		uint64_t from = max_u64(e->at, least);
		if (e->at + e->len - from >= len) {
			*at = from;
			return carve(sp, e, from, len);
		}
		e = first_from(BY_AT, sp->by_at, &(node){.at = e->at + 1});
	}
	assert(least <= sp->end);
	return take_end(sp, len, at);
}

#define LOOKS_BELOW 16

int space_take_below(struct space *sp, uint64_t len, uint64_t most, uint64_t *at)
{
	node *e = first_from(BY_LEN, sp->by_len, &(node){.len = len});
	/* Larger extents may lie lower: a few are worth a look. */
	for (int i = 0; e && e->at + len > most && i < LOOKS_BELOW; i++)
		e = first_from(BY_LEN, sp->by_len, &(node){.len = e->len, .at = e->at + 1});
	if (!e || e->at + len > most)
		return -ENOSPC;
	*at = e->at;
	return carve(sp, e, *at, len);
}

static node *find_busy(const struct space *sp, uint64_t at)
{
	node *e = first_from(BY_AT, sp->busy, &(node){.at = at});
	return e && e->at == at ? e : NULL;
}

void space_put(struct space *sp, uint64_t at, uint64_t len)
{
	node *e = find_busy(sp, at);
	assert(e && e->lent && e->len == len);
	e->lent = false;
	sp->nlent--;
}

void space_give(struct space *sp, uint64_t at, uint64_t len)
{
	node *e = find_busy(sp, at);
	assert(e && e->lent && e->len == len);
	sp->nlent--;
	erase(BY_AT, &sp->busy, e);
	set_free(sp, e);
}

void space_shorten(struct space *sp, uint64_t at, uint64_t len)
{
	node *e = find_busy(sp, at);
	assert(e && e->lent && len > 0 && len <= e->len);
	uint64_t rest = e->len - len;
	e->len = len;
	node *tail = rest ? node_new(sp, at + len, rest) : NULL;
	if (tail) /* nobody ever referred to it */
		set_free(sp, tail);
}

uint64_t space_busy_length(const struct space *sp, uint64_t at)
{
	node *e = find_busy(sp, at);
	return e ? e->len : 0;
}

bool space_drop(struct space *sp, uint64_t at)
{
	node *e = find_busy(sp, at);
	if (!e || e->lent)
		return false;
	erase(BY_AT, &sp->busy, e);
	set_free(sp, e);
	return true;
}

void space_retire(struct space *sp, uint64_t at, uint64_t len)
{
	node *e = len ? node_new(sp, at, len) : NULL;
	if (!e)
		return; /* forgotten until the file is opened again */
	list_push(&sp->pending, e);
	sp->npending += len;
}

void space_retire_old(struct space *sp, uint64_t at, uint64_t len)
{
	node *e = len ? node_new(sp, at, len) : NULL;
	if (!e)
		return;
	list_push(&sp->root, e);
	sp->nroot += len;
}

static void keep_lent(node *t, node **lent)
{
	if (!t)
		return;
	keep_lent(t->kid[BY_AT][0], lent);
	keep_lent(t->kid[BY_AT][1], lent);
	if (t->lent)
		list_push(lent, t);
	else
		mem_free(t);
}

void space_root(struct space *sp, bool sure)
{
	node *lent = NULL, *e;
	keep_lent(sp->busy, &lent);
	sp->busy = NULL;
	while ((e = list_pop(&lent)))
		insert(BY_AT, &sp->busy, e);
	if (!sure)
		return;
	while ((e = list_pop(&sp->pending)))
		list_push(&sp->root, e);
	sp->nroot += sp->npending;
	sp->npending = 0;
}

void space_durable(struct space *sp)
{
	node *e;
	while ((e = list_pop(&sp->root)))
		set_free(sp, e);
	sp->nroot = 0;
}

void space_cut(struct space *sp, uint64_t end)
{
	assert(sp->nlent == 0 && !sp->busy);
	forget_free(sp);
	sp->end = end;
	sp->high = max_u64(sp->high, end);
}

void space_each_free(struct space *sp, uint64_t len,
		     bool (*visit)(void *arg, uint64_t at, uint64_t len, bool *mark), void *arg)
{
	node key = {.len = UINT64_MAX, .at = UINT64_MAX};
	for (;;) {
		node *e = last_before(BY_LEN, sp->by_len, &key);
		if (!e || e->len < len || !visit(arg, e->at, e->len, &e->marked))
			return;
		key = (node){.len = e->len, .at = e->at};
	}
}

void space_check(const struct space *sp)
{
	uint64_t sum = 0;
	const node *last = NULL;
	for (node *e = first_from(BY_AT, sp->by_at, &(node){0}); e;
	     e = first_from(BY_AT, sp->by_at, &(node){.at = e->at + 1})) {
		assert(!last || last->at + last->len < e->at);
		assert(e->at + e->len < sp->end);
		sum += e->len;
		last = e;
	}
	assert(sum == sp->nfree);
	(void)last;
}
