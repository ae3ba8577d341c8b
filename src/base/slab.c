#include "base/slab.h"

#include "base/buf.h"
#include "base/clock.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define ORDERS 9          /* SLAB_MIN << 8 is SLAB_MAX */
#define TOUCH (64u << 10) /* pages are taken from the system this many bytes at a time */
#define REGION (SLAB_MAX / SLAB_MIN) /* units of the largest piece; `fresh` advances in these */
#define NO_UNIT UINT32_MAX
#define LARGEST (ORDERS - 1)

/* The huge page size of most machines. Elsewhere asking for huge pages does nothing. */
#define HUGE_BYTES (2u << 20)
#define HUGE_UNITS (HUGE_BYTES / SLAB_MIN)

/*
 * Where huge pages pay, one takes 0.2 ms, and the same memory in small pages 0.8. But in virtual
 * machines whose host has to find the memory first, a huge page takes 1 to 12 ms, and small ones,
 * just used by others, no longer than usual. The kernel zeroes it in one go, and any thread queued
 * on this core waits for that. After a slow one no more are asked for.
 */
#define HUGE_SLOW_NS (400u * 1000)

/* One for each SLAB_MIN bytes. A piece is identified by its first unit, which has its fields. */
struct unit {
	uint32_t next, prev; /* in the list of its order, while free */
	uint8_t order;
	bool free;
	bool touched; /* at the first unit of each TOUCH bytes: those are populated */
	bool empty;   /* while free: the system has none of its pages in memory */
};

struct slab {
	pthread_mutex_t lock; /* for all below */
	uint8_t *base;        /* start of the first huge page in the mapping */
	size_t bytes;
	void *mapped;
	uint32_t nunits, fresh; /* units from `fresh` on were never handed out */
	bool slow_huge;         /* slab_warm takes small pages               */
	atomic_bool wants_warm;
	uint32_t list[ORDERS];
	struct unit *unit;
};

static unsigned order_of(size_t n)
{
	unsigned order = 0;
	while (((size_t)SLAB_MIN << order) < n)
		order++;
	return order;
}

size_t slab_size(size_t n)
{
	return n > SLAB_MAX ? 0 : (size_t)SLAB_MIN << order_of(n);
}

int slab_open(struct slab **out, size_t max_bytes)
{
	if (max_bytes > SIZE_MAX / 2)
		return -ENOMEM;
	struct slab *s = mem_zalloc(sizeof *s);
	if (!s)
		return -ENOMEM;
	s->bytes = (max_bytes + SLAB_MAX - 1) / SLAB_MAX * SLAB_MAX;
	s->nunits = (uint32_t)min_u64(s->bytes / SLAB_MIN, NO_UNIT / REGION * REGION);
	s->bytes = (size_t)s->nunits * SLAB_MIN;
	for (int i = 0; i < ORDERS; i++)
		s->list[i] = NO_UNIT;
	pthread_mutex_init(&s->lock, NULL);
	s->unit = mem_zalloc_array(s->nunits, sizeof *s->unit);
	void *p = mmap(NULL, s->bytes + HUGE_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	s->mapped = p == MAP_FAILED ? NULL : p;
	if (!s->unit || !s->mapped) {
		slab_close(s);
		return -ENOMEM;
	}
	s->base = (uint8_t *)s->mapped + (-(uintptr_t)s->mapped & (HUGE_BYTES - 1));
	atomic_init(&s->wants_warm, true);
	*out = s;
	return 0;
}

void slab_close(struct slab *s)
{
	if (!s)
		return;
	if (s->mapped)
		munmap(s->mapped, s->bytes + HUGE_BYTES);
	pthread_mutex_destroy(&s->lock);
	mem_free(s->unit);
	mem_free(s);
}

static void list_push(struct slab *s, uint32_t u, unsigned order)
{
	uint32_t next = s->list[order];
	s->unit[u].order = (uint8_t)order;
	s->unit[u].free = true;
	s->unit[u].prev = NO_UNIT;
	s->unit[u].next = next;
	if (next != NO_UNIT)
		s->unit[next].prev = u;
	s->list[order] = u;
}

static void list_remove(struct slab *s, uint32_t u)
{
	struct unit *x = &s->unit[u];
	assert(x->free);
	*(x->prev == NO_UNIT ? &s->list[x->order] : &s->unit[x->prev].next) = x->next;
	if (x->next != NO_UNIT)
		s->unit[x->next].prev = x->prev;
	x->free = false;
}

/* A largest piece was taken: asks for more while there is still one left. */
static void note_want(struct slab *s)
{
	uint32_t u = s->list[LARGEST];
	if ((u == NO_UNIT || s->unit[u].next == NO_UNIT) && s->fresh < s->nunits)
		atomic_store_explicit(&s->wants_warm, true, memory_order_relaxed);
}

/* Takes a piece of the order, split from the smallest that is large enough; NO_UNIT: none. */
static uint32_t take(struct slab *s, unsigned order)
{
	unsigned have = order;
	while (have < ORDERS && s->list[have] == NO_UNIT)
		have++;
	if (have == ORDERS) {
		if (s->fresh == s->nunits)
			return NO_UNIT;
		list_push(s, s->fresh, --have);
		s->unit[s->fresh].empty = true;
		s->fresh += REGION;
	}
	uint32_t u = s->list[have];
	list_remove(s, u);
	if (have == LARGEST)
		note_want(s);
	while (have > order) { /* the upper half goes back */
		have--;
		list_push(s, u + (1u << have), have);
		s->unit[u + (1u << have)].empty = s->unit[u].empty;
	}
	s->unit[u].order = (uint8_t)order;
	return u;
}

/* Marks these bytes as populated. True: some were not. */
static bool note_touch(struct slab *s, size_t at, size_t end)
{
	bool any = false;
	for (at -= at % TOUCH; at < end; at += TOUCH) {
		bool *touched = &s->unit[at / SLAB_MIN].touched;
		any |= !*touched;
		*touched = true;
	}
	return any;
}

void *slab_alloc(struct slab *s, size_t n)
{
	if (n > SLAB_MAX)
		return NULL;
	pthread_mutex_lock(&s->lock);
	uint32_t u = take(s, order_of(n));
	size_t at = (size_t)u * SLAB_MIN, end = at + slab_size(n);
	bool fresh = u != NO_UNIT && note_touch(s, at, end);
	pthread_mutex_unlock(&s->lock);
	if (u == NO_UNIT)
		return NULL;
	at -= at % TOUCH;
	if (fresh)
		(void)mem_populate(s->base + at, (end - at + TOUCH - 1) / TOUCH * TOUCH);
	return s->base + (size_t)u * SLAB_MIN;
}

void slab_free(struct slab *s, void *p, size_t n)
{
	unsigned order = order_of(n);
	pthread_mutex_lock(&s->lock);
	uint32_t u = (uint32_t)(((uint8_t *)p - s->base) / SLAB_MIN);
	assert(u < s->nunits && s->unit[u].order == order && !s->unit[u].free);
	for (; order + 1 < ORDERS; order++) { /* merge with a buddy that is free and whole */
		uint32_t other = u ^ (1u << order);
		if (!s->unit[other].free || s->unit[other].order != order)
			break;
		list_remove(s, other);
		u &= ~(1u << order);
	}
	list_push(s, u, order);
	s->unit[u].empty = false;
	pthread_mutex_unlock(&s->lock);
}

/*
 * Returns the pages of a free piece to the system. In smaller pieces than TOUCH, they will fault in
 * one by one.
 */
static void empty_piece(struct slab *s, uint32_t u, unsigned order)
{
	size_t at = (size_t)u * SLAB_MIN, len = (size_t)SLAB_MIN << order;
	if (madvise(s->base + at, len, MADV_DONTNEED) != 0)
		return;
	s->unit[u].empty = true;
	for (size_t end = at + len; len >= TOUCH && at < end; at += TOUCH)
		s->unit[at / SLAB_MIN].touched = false;
}

void slab_trim(struct slab *s)
{
	for (unsigned order = ORDERS; order-- > 0;) {
		pthread_mutex_lock(&s->lock);
		for (uint32_t u = s->list[order]; u != NO_UNIT; u = s->unit[u].next)
			if (!s->unit[u].empty)
				empty_piece(s, u, order);
		pthread_mutex_unlock(&s->lock);
	}
}

bool slab_wants_warm(struct slab *s)
{
	return atomic_load_explicit(&s->wants_warm, memory_order_relaxed) &&
	       atomic_exchange_explicit(&s->wants_warm, false, memory_order_relaxed);
}

/*
 * Gets the pages of a region from the system. Yields after each piece: a reader that has just been
 * woken on this core may need less time than all of this, and the scheduler by itself lets a
 * running thread go on for milliseconds.
 */
static bool get_region(uint8_t *p, size_t n, bool huge)
{
	size_t step = huge ? n : TOUCH, done = 0;

	if (huge)
		(void)madvise(p, n, MADV_HUGEPAGE);
	for (; done < n && mem_populate(p + done, step); done += step)
		(void)sched_yield();
	return done == n;
}

void slab_warm(struct slab *s)
{
	pthread_mutex_lock(&s->lock);
	uint32_t u = s->fresh, n = (uint32_t)min_u64(HUGE_UNITS - u % HUGE_UNITS, s->nunits - u);
	bool huge = n == HUGE_UNITS && !s->slow_huge;
	s->fresh += n;
	pthread_mutex_unlock(&s->lock);
	if (!n)
		return;
	uint64_t start = clock_read(CLOCK_THREAD_CPUTIME_ID);
	bool got = get_region(s->base + (size_t)u * SLAB_MIN, (size_t)n * SLAB_MIN, huge);
	bool slow = huge && clock_read(CLOCK_THREAD_CPUTIME_ID) - start > HUGE_SLOW_NS;
	pthread_mutex_lock(&s->lock);
	s->slow_huge |= slow;
	for (uint32_t i = 0; i < n; i++)
		s->unit[u + i].touched = got;
	for (uint32_t i = n; i > 0; i -= REGION) { /* so that the first one ends up on top */
		list_push(s, u + i - REGION, LARGEST);
		s->unit[u + i - REGION].empty = !got;
	}
	pthread_mutex_unlock(&s->lock);
}

bool slab_owns(const struct slab *s, const void *p)
{
	uintptr_t at = (uintptr_t)p, base = (uintptr_t)s->base;
	return at >= base && at - base < s->bytes;
}
