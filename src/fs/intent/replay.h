/*
 * Replay at mount: brings what the intent log holds beyond the frames into them. For each frame,
 * all records that are newer than its root are applied in order, by the ordinary write path, and
 * become one durable commit; or none of them is applied. Then the log is removed; one that could
 * not be applied completely is kept under another name. Nothing here prevents a mount from being
 * served.
 */
#ifndef FS_INTENT_REPLAY_H
#define FS_INTENT_REPLAY_H

#include "fs/fs.h"

/* To be called before the first request. A read-only mount only reports what it does not show. */
NODISCARD int replay(struct fs *fs);

#endif
