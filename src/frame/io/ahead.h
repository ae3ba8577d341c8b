/*
 * A read-only io for opening a frame: it reads the first bytes of the file and the last bytes of
 * its root ahead, in one piece each, or everything at once if the frame is small. Parsing then asks
 * for a dozen small pieces of these.
 *
 * The first bytes have to be read before the last, in case somebody is committing to the file: old
 * roots stay for a while, so an old header still finds its trailer. The size is read between the
 * two. All other reads go to the io below.
 */
#ifndef FRAME_IO_AHEAD_H
#define FRAME_IO_AHEAD_H

#include "frame/io/io.h"

#define IO_AHEAD_START 8192 /* nine out of ten small files are shorter */
#define IO_AHEAD_HEAD 512
#define IO_AHEAD_TAIL 8192

struct io_ahead {
	struct io io;
	struct io *under; /* borrowed */
	bool tried;       /* reading ahead was tried, and is not tried again */
	bool sized;       /* `size` is known                                  */
	uint64_t size;    /* of the file                                      */
	uint64_t tail_at; /* where in the file `tail` starts                  */
	size_t nhead, ntail; /* valid bytes of each; 0: none                  */
	uint8_t head[IO_AHEAD_HEAD], tail[IO_AHEAD_TAIL];
};

/* Reads ahead when asked for the size, which is how opening begins. Needs no closing. */
struct io *io_ahead_init(struct io_ahead *a, struct io *under);

/* Supplies all bytes of the file, at most IO_AHEAD_TAIL, so that nothing has to be read. */
void io_ahead_know(struct io_ahead *a, struct view all);

/* All bytes of the file, if they have been read; else none. Borrowed. */
struct view io_ahead_all(const struct io_ahead *a);

/* Drops what was read, since another program may have written the file. */
void io_ahead_again(struct io *io);

#endif
