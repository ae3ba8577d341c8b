/*
 * Checkpoints (frame/era.h): some time after files were committed without a sync, and when the
 * mount ends, the whole backing file system is synced. That makes no promise to anybody; but from
 * then on it is known that they are durable. So they need no proof after the next boot, which would
 * read much of each, and damage costs a block of them, where else it would look like what a power
 * cut leaves.
 *
 * What is known is kept in an attribute of the backing directory (frame/durable.h), which is not
 * shown in the mount. There are no checkpoints where nothing can be kept, nor where syncfs may mean
 * nothing (FUSE, SMB). Where the directory can have no attributes nobody gets to know of them.
 */
#ifndef FS_CHECKPOINT_H
#define FS_CHECKPOINT_H

#include "fs/backing/backing.h"

#include <stdatomic.h>

struct checkpoint;

/*
 * Reads what earlier mounts have noted, those of directories above included. NULL: none can be
 * made, or `read_only`. `failed`: set when a sync has failed of which era_spoil was not told; none
 * are made after that. It is borrowed.
 */
struct checkpoint *checkpoint_open(const struct backing *backing, bool read_only,
				   const atomic_bool *failed);

/*
 * Starts the thread that makes them. `commit`: seconds between background commits; 0: there are
 * neither. NULL is fine, here and below.
 */
NODISCARD int checkpoint_start(struct checkpoint *c, double commit);
void checkpoint_stop(struct checkpoint *c);

/* When everything is committed: makes the last one, unless that would take long. */
void checkpoint_close(struct checkpoint *c);

#endif
