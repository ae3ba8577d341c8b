#include "fs/streams.h"

/* From here on a request comes from a read-ahead, which has no more than this under way. */
#define LONG_REQUEST (128u << 10)
#define DISORDER (4u << 20)

void streams_init(struct streams *s)
{
	*s = (struct streams){0};
	pthread_mutex_init(&s->lock, NULL);
}

void streams_deinit(struct streams *s)
{
	pthread_mutex_destroy(&s->lock);
}

static int belongs(const struct stream *st, uint64_t at, uint64_t len)
{
	if (!st->run)
		return 0;
	if (len < LONG_REQUEST)
		return at == st->next;
	return at + DISORDER >= st->next && at <= st->next + DISORDER;
}

uint64_t streams_note(struct streams *s, uint64_t at, uint64_t len)
{
	pthread_mutex_lock(&s->lock);
	struct stream *st = &s->stream[0];
	unsigned i = 0;
	while (i < STREAMS && !belongs(&s->stream[i], at, len))
		i++;
	if (i < STREAMS) {
		st = &s->stream[i];
	} else {
		for (i = 1; i < STREAMS; i++)
			if (s->stream[i].used < st->used)
				st = &s->stream[i];
		*st = (struct stream){.next = at};
	}
	uint64_t before = st->run;
	st->used = ++s->clock;
	st->run += len;
	if (at + len > st->next)
		st->next = at + len;
	pthread_mutex_unlock(&s->lock);
	return before;
}
