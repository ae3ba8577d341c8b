/* -o remount: new flags for a live mount. */
#ifndef FS_SESSION_REMOUNT_H
#define FS_SESSION_REMOUNT_H

#include "fs/options.h"

/*
 * `mount -o remount,ro` calls us as if for a new mount; the kernel does the work. Every failure has
 * been reported.
 */
NODISCARD int remount_set_flags(const struct options *o);

#endif
