/*
 * The bytes between the kernel and libfuse, where libfuse itself does not go far enough: who
 * removes set-id bits and file capabilities when a file is written ("killpriv" in the kernel's
 * words), and where the data of a write is put.
 *
 * A kernel that removes them itself asks for "security.capability" before each write(2), which
 * makes a small write several times as expensive. One that was told that the file system does so
 * (the flag FUSE_HANDLE_KILLPRIV_V2 in the answer to INIT) remembers the answer as long as it
 * caches attributes. libfuse can set that flag from 3.17 on, and no version tells its callbacks
 * about the flags of single requests. So each request is looked at when it is read, and the answer
 * to INIT when it is written; everything else passes unchanged.
 * Before libfuse 3.14, and from 3.18.3 on where it is not built so, there is no way in between: the
 * kernel asks.
 */
#ifndef FS_OPS_WIRE_H
#define FS_OPS_WIRE_H

#include "base/buf.h"

#include <stdatomic.h>
#include <stdbool.h>

struct fs;

/* State of one mount, part of struct fs. Starts zeroed. */
struct wire {
	_Atomic uint64_t init;    /* the INIT that offers the flag, until it is answered; else 0 */
	atomic_bool has_killpriv; /* the flag was set: the kernel leaves the removal to us */
};

/*
 * For the session of `fs`, mounted but not serving yet. After a failure libfuse reads and writes as
 * usual.
 */
NODISCARD int wire_attach(struct fs *fs);

/*
 * The buffer that begins with the data of the WRITE that this thread has read last; NULL: the data
 * is where libfuse says. It belongs to the thread and is filled again by its next request: whoever
 * wants to keep the bytes takes the content of the buffer and leaves it empty.
 */
struct buf *wire_data(void);

/* True: the kernel has left the removal of privileges to us. */
bool wire_has_killpriv(const struct fs *fs);

/*
 * True: the WRITE, SETATTR, OPEN or CREATE that this thread works on shall remove set-id bits, by
 * its flags. To be asked once a request. A request that did not come through this file, and a
 * second question, are answered with true, which is the safe side.
 */
bool wire_take_killpriv(const struct fs *fs);

/* This thread goes on with another's request, by which wire_take_killpriv was `yes`. */
void wire_give_killpriv(bool yes);

#endif
