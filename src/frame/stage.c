#include "frame/stage.h"

#include "base/buf.h"

#include <pthread.h>

/*
 * What a thread keeps: enough for a chunk of the usual size. More is freed, since there may be two
 * dozen threads.
 */
#define STAGE_KEEP ((1u << 20) + (64u << 10))

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int key_error;

static void stage_drop(void *p)
{
	buf_free(p);
	mem_free(p);
}

static void key_make(void)
{
	key_error = pthread_key_create(&key, stage_drop);
}

int stage_get(size_t n, struct span *out)
{
	pthread_once(&once, key_make);
	if (key_error)
		return -key_error;
	struct buf *b = pthread_getspecific(key);
	if (!b) {
		b = mem_zalloc(sizeof *b);
		if (!b)
			return -ENOMEM;
		int rc = pthread_setspecific(key, b);
		if (rc) {
			mem_free(b);
			return -rc;
		}
	}
	TRY(buf_reserve_fresh(b, n ? n : 1));
	*out = span_of(b->p, n);
	return 0;
}

int stage_hash_add(struct XXH3_state_s *state, struct io *io, uint64_t at, uint64_t len)
{
	struct span step;
	TRY(stage_get(min_u64(len, STAGE_STEP), &step));
	for (uint64_t end = at + len; at < end; at += step.n) {
		step.n = min_u64(end - at, STAGE_STEP);
		TRY(io_pread(io, at, step));
		sum64_add(state, span_view(step));
	}
	return 0;
}

int stage_hash(struct io *io, uint64_t at, uint64_t len, uint64_t *hash)
{
	struct XXH3_state_s *state = sum64_begin();
	if (!state)
		return -ENOMEM;
	int rc = stage_hash_add(state, io, at, len);
	*hash = sum64_end(state);
	return rc;
}

void stage_trim(void)
{
	pthread_once(&once, key_make);
	struct buf *b = key_error ? NULL : pthread_getspecific(key);
	if (b && b->cap > STAGE_KEEP)
		buf_free(b);
}
