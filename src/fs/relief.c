#include "fs/relief.h"

#include "fs/ops/ops.h"

#include <errno.h>
#include <stdlib.h>

/*
 * While threads wait, this many more extra threads stay than there are waiters: a thread that is
 * let in often waits again a moment later.
 */
#define LINGER 4

/* The thread is about to end, and takes no more requests. Under the lock. */
static void give_up_seat(struct relief_seat *s)
{
	s->ended = true;
	s->relief->serving--;
}

/*
 * The session, if this thread still has to serve in place of a waiting one; else NULL, and the seat
 * is given up. `rc`: the result of the last read of a request: > 0, or an error.
 */
static struct fuse_session *still_wanted(struct relief_seat *s, int rc)
{
	struct relief *r = s->relief;

	pthread_mutex_lock(&r->lock);
	bool lasts = rc > 0 || rc == -EINTR || rc == -EAGAIN;
	unsigned wanted = r->waiting ? r->waiting + LINGER : 0;
	struct fuse_session *session = lasts && r->serving <= wanted ? r->session : NULL;
	if (session && fuse_session_exited(session))
		session = NULL;
	if (!session)
		give_up_seat(s);
	pthread_mutex_unlock(&r->lock);
	return session;
}

static void free_request(void *buf)
{
	free(((struct fuse_buf *)buf)->mem); /* allocated by libfuse */
}

/* Like libfuse's own threads, this one can be cancelled only while it waits for a request. */
static void serve(struct relief_seat *s, struct fuse_buf *buf)
{
	struct fuse_session *session;
	int rc = 1;

	while ((session = still_wanted(s, rc))) {
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
		rc = fuse_session_receive_buf(session, buf);
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
		if (rc > 0)
			fuse_session_process_buf(session, buf);
	}
}

static void *relief_main(void *arg)
{
	struct fuse_buf buf = {0};

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cleanup_push(free_request, &buf);
	serve(arg, &buf);
	pthread_cleanup_pop(1);
	return NULL;
}

/* NULL: none is free. Under the lock. */
static struct relief_seat *free_seat(struct relief *r)
{
	for (unsigned i = 0; i < r->most; i++) {
		struct relief_seat *s = &r->seat[i];
		if (s->taken && s->ended) {
			pthread_join(s->thread, NULL); /* it has nothing left to do */
			s->taken = false;
		}
		if (!s->taken)
			return s;
	}
	return NULL;
}

/* Adds a thread. If that fails, the waiting thread is not replaced. Under the lock. */
static void add_thread(struct relief *r)
{
	struct relief_seat *s = free_seat(r);

	if (!s)
		return;
	*s = (struct relief_seat){.relief = r};
	s->taken = pthread_create(&s->thread, NULL, relief_main, s) == 0;
	r->serving += s->taken;
}

void relief_start(struct relief *r, struct fuse_session *session)
{
	pthread_mutex_lock(&r->lock);
	r->session = session;
	pthread_mutex_unlock(&r->lock);
}

void relief_stop(struct relief *r)
{
	pthread_mutex_lock(&r->lock);
	r->session = NULL;
	for (unsigned i = 0; i < RELIEF_MOST; i++)
		if (r->seat[i].taken && !r->seat[i].ended)
			pthread_cancel(r->seat[i].thread);
	pthread_mutex_unlock(&r->lock);
	for (unsigned i = 0; i < RELIEF_MOST; i++)
		if (r->seat[i].taken)
			pthread_join(r->seat[i].thread, NULL);
}

bool relief_begin(struct relief *r)
{
	pthread_mutex_lock(&r->lock);
	bool serves = r->session;
	r->waiting += serves;
	if (serves && r->serving < r->waiting)
		add_thread(r);
	pthread_mutex_unlock(&r->lock);
	return serves;
}

void relief_end(struct relief *r, bool begun)
{
	if (!begun)
		return;
	pthread_mutex_lock(&r->lock);
	r->waiting--;
	pthread_mutex_unlock(&r->lock);
}
