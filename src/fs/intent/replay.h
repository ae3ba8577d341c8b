/*
 * At mount: what the intent log holds beyond the frames goes into them. For each frame all records
 * that are newer than its root are applied, in order, by the ordinary write path, and become one
 * durable commit, or nothing of them does. Then the log is removed; one that could not be
 * applied as a whole is kept under another name. Nothing here keeps a mount from being served.
 */
#ifndef FS_INTENT_REPLAY_H
#define FS_INTENT_REPLAY_H

#include "fs/fs.h"

/* Before the first request. A read-only mount only says what it does not show. */
NODISCARD int replay(struct fs *fs);

#endif
