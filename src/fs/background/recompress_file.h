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
};

/*
 * Returns 1 when all chunks have been looked at and all changes are durable; 0 when it was stopped
 * or the file is being written: to resume, call it again with `next` as it was left. A failure
 * leaves the content of the file as it was.
 */
NODISCARD int recompress_file(struct recompress_job *j);

/* Sets the mark. False: it could not be set. */
bool recompress_leave_mark(struct file *f);

/*
 * Call after the other two. True: another program has written the file, though that may have been
 * taken for a change of ours; the file has been reloaded.
 */
bool recompress_was_overtaken(struct file *f);

#endif
