/* Encodes the chunks of one file again, as small as their codec can. */
#ifndef FS_BACKGROUND_RECOMPRESS_FILE_H
#define FS_BACKGROUND_RECOMPRESS_FILE_H

#include "fs/file/file.h"

/* The attribute of a finished backing file. It is not shown in the mount. */
#define RECOMPRESS_MARK "user.cframefs.recompressed"
#define RECOMPRESS_MARK_MAX 96

/*
 * The value of the mark for a file in this state. In any other state, or for a copy of the file, it
 * is different.
 */
void recompress_mark(const struct stat *st, char text[static RECOMPRESS_MARK_MAX]);

struct recompress_job {
	struct file *file; /* writable */
	uint32_t next;     /* the chunk to go on with */
	struct pool *pool; /* its workers share the chunks; NULL: the calling thread has them all */
	bool (*stop)(void *ctx); /* called between chunks; true: stop */
	void *ctx;
	bool marked; /* result, if it is done: the file has the mark */
};

/*
 * Returns 1 when all chunks have been looked at and all changes are durable; 0 when it was stopped
 * or the file is being written: to resume, call it again with `next` as it was left. A failure
 * leaves the content of the file as it was. -ESTALE: another program has written it.
 */
NODISCARD int recompress_file(struct recompress_job *j);

#endif
