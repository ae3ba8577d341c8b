/*
 * An io for the time of opening a frame: its first and last bytes are read once, in one piece each,
 * or in one for both when the file is small. Parsing asks for a dozen little pieces of them.
 *
 * The first bytes are read before the last ones, as they have to be of a file that somebody may be
 * committing to: its old roots stay, so that an old header finds its trailer. The size is taken
 * between the two. Everything else, and all writes, go to the io below.
 */
#ifndef FRAME_IO_AHEAD_H
#define FRAME_IO_AHEAD_H

#include "frame/io/io.h"

#define IO_AHEAD_START 4096 /* a page comes from the disk in any case */
#define IO_AHEAD_HEAD 512
#define IO_AHEAD_TAIL 8192

struct io_ahead {
	struct io io;
	struct io *under; /* borrowed */
	bool tried;       /* reading ahead was tried, and is not tried again */
	bool sized;       /* `size` is known                                  */
	uint64_t size;    /* of the file                                      */
	uint64_t tail_at; /* where in the file `tail` starts; 0: it is all    */
	size_t nhead, ntail; /* bytes that are there; 0: none                 */
	uint8_t head[IO_AHEAD_HEAD], tail[IO_AHEAD_TAIL];
};

/* Nothing is read before the first pread. There is nothing to close. */
struct io *io_ahead_init(struct io_ahead *a, struct io *under);

/* Gives it all bytes of the file, IO_AHEAD_TAIL at most, so that nothing has to be read. */
void io_ahead_know(struct io_ahead *a, struct view all);

/* All bytes of the file, if they have been read; else none. Borrowed. */
struct view io_ahead_all(const struct io_ahead *a);

/* Forgets what was read: another program may have written the file since. */
void io_ahead_again(struct io *io);

#endif
