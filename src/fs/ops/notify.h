/*
 * Messages to the kernel that it has not asked for: that another program has changed a file, and
 * bytes that it is about to want. The former are sent by a thread of their own, since the kernel
 * may want other requests answered first.
 */
#ifndef FS_OPS_NOTIFY_H
#define FS_OPS_NOTIFY_H

#include "base/bytes.h"
#include "base/err.h"

#include <stdint.h>

struct fs;
struct inode;
struct notify;

/* Starts the thread; *fs outlives it. */
NODISCARD int notify_start(struct notify **out, struct fs *fs);

/*
 * notify_stop ends the thread, while requests are still being served; what it has not sent by then
 * is dropped, and later calls do nothing. notify_close frees it, when no more calls can come. NULL
 * is fine.
 */
void notify_stop(struct notify *n);
void notify_close(struct notify *n);

/*
 * Tells the kernel that what it has cached of the file's content is outdated. `size`, if not 0: the
 * file has grown to that length, which the kernel believes only if it is sent data at the new end.
 * Never waits.
 */
void notify_changed(struct notify *n, struct inode *inode, uint64_t size);

/*
 * Puts bytes of a file, which begin at `at`, into the kernel's page cache. Waits for a READ of the
 * same page that is not answered yet.
 */
NODISCARD int notify_store(struct fs *fs, const struct inode *n, uint64_t at, struct view bytes);

#endif
