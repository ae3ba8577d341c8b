/*
 * One dirty chunk -> its stored form. Runs on the workers.
 */
#ifndef FS_ENCODE_H
#define FS_ENCODE_H

#include "fs/file.h"
#include "fs/workspace.h"

/* Into ws->stored; *zeros: it shall become a hole instead. Takes the file's lock for reading. */
NODISCARD int encode_chunk(struct file *f, const struct dirty_chunk *c, struct workspace *ws,
			   bool *zeros);

#endif
