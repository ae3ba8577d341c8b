/*
 * Replay at mount: writes what the intent log has beyond the frames into them. For each frame, all
 * records that are newer than its root are applied in order, by the ordinary write path, and become
 * one durable commit; or none of them is applied. Then the log is removed; one that could not be
 * applied completely is kept under another name, which does not prevent the mount.
 */
#ifndef FS_INTENT_REPLAY_H
#define FS_INTENT_REPLAY_H

#include "fs/fs.h"

/*
 * Call before the first request. A read-only mount only reports what it does not show. -EBUSY,
 * which has been logged: a directory above has a log with what was synced here, and has to be
 * mounted first. It also fails if the log cannot be opened.
 */
NODISCARD int replay(struct fs *fs);

#endif
