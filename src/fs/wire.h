/*
 * What stands on the wire between the kernel and libfuse that libfuse neither sets nor hands on:
 * who takes set-id bits and file capabilities away when a file is written, and where its data goes.
 *
 * A kernel that sees to it itself asks for "security.capability" before each write(2), which costs
 * a small write several times what it costs otherwise. One that is told that the file system does
 * (the flag FUSE_HANDLE_KILLPRIV_V2 in the answer to INIT) keeps the answer for as long as it keeps
 * attributes. libfuse can say so from 3.17 on, and tells its callbacks about the flags of single
 * requests in no version. So each request is looked at when it comes and the answer to INIT when it
 * goes; all else passes unchanged.
 */
#ifndef FS_WIRE_H
#define FS_WIRE_H

#include "base/err.h"

#include <stdbool.h>

struct fuse_session;
struct spare;

/*
 * Of a session that is mounted and does not serve yet; one in a process. A failure changes nothing.
 */
NODISCARD int wire_attach(struct fuse_session *se, struct spare *buffers);

/* Where the data is of the WRITE that this thread has read: libfuse thinks, behind its head. */
const void *wire_data(const void *behind_head);

/* The kernel leaves it to us. */
bool wire_is_ours(void);

/*
 * WRITE, SETATTR, OPEN or CREATE, which this thread has read and works on, takes set-id bits away:
 * the kernel says so. Once a request: what was not looked at, as in a loop that reads by other ways
 * than ours, takes them too.
 */
bool wire_take_kills(void);

#endif
