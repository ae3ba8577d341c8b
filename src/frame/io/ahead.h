/*
 * An io that is used while a frame is opened: it reads the first bytes of the file and the last
 * bytes of its root once, in one piece each, or all in one piece if the frame is small. Parsing
 * asks for a dozen small pieces of these.
 *
 * The first bytes are read before the last, which is necessary for a file that somebody may be
 * committing to: old roots stay for a while, so an old header still finds its trailer. The size is
 * taken between the two. All other reads go to the io below. It cannot be written to.
 */
#ifndef FRAME_IO_AHEAD_H
#define FRAME_IO_AHEAD_H

#include "frame/io/io.h"

#define IO_AHEAD_START 8192 /* nine of ten small files end before it */
#define IO_AHEAD_HEAD 512
#define IO_AHEAD_TAIL 8192

struct io_ahead {
	struct io io;
	struct io *under; /* borrowed */
	bool tried;       /* reading ahead was tried, and is not tried again */
	bool sized;       /* `size` is known                                  */
	uint64_t size;    /* of the file                                      */
	uint64_t tail_at; /* where in the file `tail` starts                  */
	size_t nhead, ntail; /* bytes that are there; 0: none                 */
	uint8_t head[IO_AHEAD_HEAD], tail[IO_AHEAD_TAIL];
};

/* Reads ahead when it is asked for the size, which opening begins with. Nothing is to be closed. */
struct io *io_ahead_init(struct io_ahead *a, struct io *under);

/* Supplies all bytes of the file, at most IO_AHEAD_TAIL, so that nothing has to be read. */
void io_ahead_know(struct io_ahead *a, struct view all);

/* All bytes of the file, if they have been read; else none. Borrowed. */
struct view io_ahead_all(const struct io_ahead *a);

/* Drops what was read, since another program may have written the file. */
void io_ahead_again(struct io *io);

#endif
