/*
 * The sidecar (sidecar.h) as an entry of its directory, beside its frame. `backing` is the name of
 * a frame there.
 */
#ifndef FS_SIDECAR_NAME_H
#define FS_SIDECAR_NAME_H

#include "base/err.h"

#include <limits.h>
#include <stdbool.h>

/* The name of its sidecar. False: it would be too long, so there is none. */
bool sidecar_name(const char *backing, char out[static NAME_MAX + 1]);

/* For log lines: the present name of the sidecar that is open as `fd`. */
void sidecar_present_name(int fd, char out[static NAME_MAX + 1]);

/*
 * Does to the sidecar of a frame, if there is one, what was done to the frame; for _exchange,
 * either frame may have one, or both. Failures are ignored.
 */
void sidecar_rename(int dirfd, const char *from, int to_dirfd, const char *to);
void sidecar_exchange(int a_dirfd, const char *a, int b_dirfd, const char *b);
void sidecar_remove(int dirfd, const char *backing);

#endif
