/* Telling the user, on the terminal, why a command line cannot be obeyed. */
#ifndef FS_SESSION_REFUSE_H
#define FS_SESSION_REFUSE_H

#include "base/err.h"

/*
 * Says what the error `rc` means for a path, and returns it. A dead mount is noticed in this way,
 * or when the options are parsed, depending on what the kernel has cached.
 */
NODISCARD int refuse_error(const char *what, const char *where, int rc);

/* Says why, and returns -EBUSY. */
NODISCARD int refuse_busy(const char *what, const char *where, const char *why);

#endif
