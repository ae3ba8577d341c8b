/*
 * Asks the kernel to forget files when it remembers more than -o inodes says. By itself it does so
 * when the machine is short of memory, which need not be soon enough for the container of the
 * daemon.
 */
#ifndef FS_OPS_FORGET_H
#define FS_OPS_FORGET_H

#include "base/err.h"

struct forget;
struct fs;

NODISCARD int forget_start(struct forget **out, struct fs *fs);

/*
 * Ends the thread while requests are still being served, since the kernel may want one answered
 * first. NULL is fine.
 */
void forget_stop(struct forget *f);
void forget_close(struct forget *f);

#endif
