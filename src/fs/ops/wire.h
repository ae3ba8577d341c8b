/*
 * The bytes between the kernel and libfuse, for what libfuse cannot do: decide who removes set-id
 * bits and file capabilities when a file is written ("killpriv" in the kernel's terms), and choose
 * where the data of a write is put.
 *
 * A kernel that removes them itself asks for "security.capability" before each write(2), which
 * makes a small write several times as expensive. One that was told that the file system does so
 * (the flag FUSE_HANDLE_KILLPRIV_V2 in the answer to INIT) remembers the answer as long as it
 * caches attributes. libfuse can set that flag from 3.17 on, and no version tells its callbacks
 * about the flags of single requests. So each request is inspected when it is read, and the answer
 * to INIT when it is written; everything else passes unchanged. Before libfuse 3.14, and from
 * 3.18.3 on where it is built without that, we cannot get in between: the kernel asks.
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
	atomic_bool has_killpriv; /* we have set the flag: the kernel leaves the removal to us */
};

/*
 * For the session of `fs`, mounted but not serving yet. After a failure libfuse reads and writes as
 * usual.
 */
NODISCARD int wire_attach(struct fs *fs);

/*
 * The buffer that begins with the data of the WRITE that this thread has read last; NULL: the data
 * is where libfuse says. It belongs to the thread, whose next request fills it again: to keep the
 * bytes, take over the content of the buffer and leave it empty.
 */
struct buf *wire_data(void);

/* True: the kernel has left the removal of privileges to us. */
bool wire_has_killpriv(const struct fs *fs);

/*
 * True: by its flags, the WRITE, SETATTR, OPEN or CREATE that this thread works on shall remove
 * set-id bits. Call it once per request. For a request that did not come through wire.c, and for a
 * second call, the answer is true, the safe side.
 */
bool wire_take_killpriv(const struct fs *fs);

/* This thread takes over another's request, for which wire_take_killpriv returned `yes`. */
void wire_give_killpriv(bool yes);

#endif
