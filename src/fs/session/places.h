/*
 * The directories of the command line: may they be used? Asked before anything is opened, while
 * problems can still be reported on the terminal. Every failure has been reported.
 */
#ifndef FS_SESSION_PLACES_H
#define FS_SESSION_PLACES_H

#include "fs/options.h"

/* For a mount. Waits for one that is about to end at the same place. */
NODISCARD int places_check(const struct options *o);

/* If the mount will refuse all writes, says so, here and in its flags. */
NODISCARD int places_judge_writable(struct options *o);

/* For --recompress: what is no reason to refuse a mount may leave nothing to recompress. */
NODISCARD int places_check_frames(const struct options *o);

#endif
