#include "base/meter.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define STEP_LOG 3
#define STEPS (1u << STEP_LOG) /* buckets per doubling          */
#define LOWEST 7               /* one bucket for all below 2^7 ns */

typedef _Atomic uint64_t cell;

/* Written only by its thread, read by any. */
struct block {
	cell count[METER_COUNTS];
	struct {
		cell n, ns, most;
		cell bucket[METER_BUCKETS];
	} timer[METER_TIMERS];
	struct block *next, **link; /* under lock */
	bool listed;                /* only for its own thread */
};

static __thread struct block mine;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks;    /* of living threads; under lock */
static struct meter_sums ended; /* under lock */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static uint64_t get(cell *c)
{
	return atomic_load_explicit(c, memory_order_relaxed);
}

/* There is one writer, so no atomic read-modify-write is needed. */
static void put(cell *c, uint64_t v)
{
	atomic_store_explicit(c, v, memory_order_relaxed);
}

static void add_block(struct meter_sums *to, struct block *b)
{
	for (int i = 0; i < METER_COUNTS; i++)
		to->count[i] += get(&b->count[i]);
	for (int i = 0; i < METER_TIMERS; i++) {
		struct meter_timer *t = &to->timer[i];
		uint64_t most = get(&b->timer[i].most);
		t->n += get(&b->timer[i].n);
		t->ns += get(&b->timer[i].ns);
		t->most = most > t->most ? most : t->most;
		for (int k = 0; k < METER_BUCKETS; k++)
			t->bucket[k] += get(&b->timer[i].bucket[k]);
	}
}

/* Runs when the thread ends, and its block with it. */
static void leave(void *p)
{
	struct block *b = p;

	pthread_mutex_lock(&lock);
	add_block(&ended, b);
	*b->link = b->next;
	if (b->next)
		b->next->link = b->link;
	pthread_mutex_unlock(&lock);
	memset(b, 0, sizeof *b); /* another destructor may still count */
}

static void make_key(void)
{
	(void)pthread_key_create(&key, leave);
}

static void enlist(void)
{
	pthread_once(&once, make_key);
	if (pthread_setspecific(key, &mine) != 0)
		return; /* not counted: better than a dangling block in the list */
	pthread_mutex_lock(&lock);
	mine.next = blocks;
	mine.link = &blocks;
	if (blocks)
		blocks->link = &mine.next;
	blocks = &mine;
	mine.listed = true;
	pthread_mutex_unlock(&lock);
}

void meter_add(unsigned count, uint64_t n)
{
	assert(count < METER_COUNTS);
	if (!mine.listed)
		enlist();
	put(&mine.count[count], get(&mine.count[count]) + n);
}

/* The top bit selects the doubling; the bits below it select the bucket in that. */
static unsigned bucket_of(uint64_t ns)
{
	if (ns < 1u << LOWEST)
		return 0;
	unsigned top = 63 - (unsigned)__builtin_clzll(ns);
	unsigned i = (top - LOWEST) * STEPS + (unsigned)(ns >> (top - STEP_LOG)) % STEPS;
	return i < METER_BUCKETS ? i : METER_BUCKETS - 1;
}

/* The middle of a bucket's range. */
static uint64_t bucket_middle(unsigned i)
{
	unsigned top = i / STEPS + LOWEST;
	return ((uint64_t)1 << top) + ((2 * (i % STEPS) + 1) << (top - STEP_LOG - 1));
}

void meter_time(unsigned timer, uint64_t start)
{
	uint64_t ns = meter_now() - start;

	assert(timer < METER_TIMERS);
	if (!mine.listed)
		enlist();
	cell *bucket = &mine.timer[timer].bucket[bucket_of(ns)];
	put(bucket, get(bucket) + 1);
	put(&mine.timer[timer].n, get(&mine.timer[timer].n) + 1);
	put(&mine.timer[timer].ns, get(&mine.timer[timer].ns) + ns);
	if (ns > get(&mine.timer[timer].most))
		put(&mine.timer[timer].most, ns);
}

void meter_read(struct meter_sums *out)
{
	pthread_mutex_lock(&lock);
	*out = ended;
	for (struct block *b = blocks; b; b = b->next)
		add_block(out, b);
	pthread_mutex_unlock(&lock);
}

uint64_t meter_percentile(const struct meter_timer *t, double share)
{
	uint64_t all = 0, below = 0;

	for (int i = 0; i < METER_BUCKETS; i++)
		all += t->bucket[i];
	for (unsigned i = 0; i < METER_BUCKETS; i++) {
		below += t->bucket[i];
		if (below && (double)below >= share * (double)all) {
			uint64_t ns = bucket_middle(i);
			return ns < t->most ? ns : t->most;
		}
	}
	return 0;
}
