/*
 * SEEK_DATA and SEEK_HOLE. The kernel asks for holes without sending us its dirty pages first, so
 * while somebody may be writing we make it send them. Other threads have to receive those pages. So
 * only one thread at a time makes the kernel send, and answers the requests that come meanwhile.
 */
#ifndef FS_OPS_SEEK_H
#define FS_OPS_SEEK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct seek;

struct seek_queue {
	pthread_mutex_t lock;
	struct seek *first;      /* under lock: unanswered requests         */
	bool busy;               /* under lock: a thread is answering them  */
	pthread_mutex_t sending; /* held while the kernel is made to send   */
	atomic_bool ended;       /* it is no longer made to send            */
};

void seek_queue_init(struct seek_queue *q);

/*
 * Call before the session ends: from then on the kernel is not made to send dirty pages. They would
 * not be received any more, and a thread that waits for that in the kernel could not be joined.
 */
void seek_queue_end(struct seek_queue *q);

#endif
