/* The chunks of one file, encoded again as small as their codec can. */
#ifndef FS_RECOMPRESS_FILE_H
#define FS_RECOMPRESS_FILE_H

#include "fs/file/file.h"

/* Attribute of a backing file that is done; not shown in the mount. */
#define RECOMPRESS_MARK "user.cframefs.recompressed"
#define RECOMPRESS_MARK_MAX 96

/* What the mark of a file in this state says; another state, or a copy of the file, has another. */
void recompress_mark(const struct stat *st, char text[static RECOMPRESS_MARK_MAX]);

struct recompress_job {
	struct file *file; /* writable */
	uint32_t next;     /* chunk to go on with */
	bool (*stop)(void *ctx);
	void *ctx;
};

/*
 * 1: all chunks were looked at, and what is smaller now is durable. 0: stopped, or somebody writes;
 * call it again with the same `next`. A failure leaves the file as it is.
 */
NODISCARD int recompress_file(struct recompress_job *j);

/* Leaves the mark. False: it cannot be left there. */
bool recompress_leave_mark(struct file *f);

/*
 * To be asked after all that. True: another program has written the file, which may have gone
 * unnoticed; it was read anew.
 */
bool recompress_was_overtaken(struct file *f);

#endif
