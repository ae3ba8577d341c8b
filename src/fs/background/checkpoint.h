/*
 * Checkpoints (frame/era.h): some time after files were committed without a sync, and when the
 * mount ends, the whole backing file system is synced. No application is promised anything by that,
 * but from then on those files are known to be durable. So they need no proof after the next boot,
 * which would read much of each; and damage costs them one block, whereas it would otherwise be
 * taken for what a power cut leaves.
 *
 * What is known is kept in an attribute of the backing directory (frame/durable.h), which is not
 * shown in the mount. There are no checkpoints where nothing can be kept, nor where syncfs may have
 * no effect (FUSE, SMB). Where the directory cannot have attributes, later mounts do not learn of
 * them.
 */
#ifndef FS_BACKGROUND_CHECKPOINT_H
#define FS_BACKGROUND_CHECKPOINT_H

#include "fs/backing/backing.h"

#include <stdatomic.h>

struct checkpoint;

/*
 * Reads what earlier mounts have noted, including mounts of directories above. NULL: none can be
 * made, or `read_only`. `failed` (borrowed): set when a sync has failed of which era_spoil was not
 * told; no checkpoints are made after that.
 */
struct checkpoint *checkpoint_open(const struct backing *backing, bool read_only,
				   const atomic_bool *failed);

/*
 * Starts the thread that makes them. `commit`: seconds between background commits; 0: there is no
 * thread, and only checkpoint_close makes one. NULL is fine, here and below.
 */
NODISCARD int checkpoint_start(struct checkpoint *c, double commit);
void checkpoint_stop(struct checkpoint *c);

/* Call when everything is committed: makes the last one, unless that would take long. */
void checkpoint_close(struct checkpoint *c);

#endif
