/* Encodes a dirty chunk into its stored form. Runs on the workers. */
#ifndef FS_DIRTY_ENCODE_H
#define FS_DIRTY_ENCODE_H

#include "fs/file/file.h"
#include "fs/workspace.h"

/*
 * Larger chunks are encoded by one worker alone: sharing the blocks needs another buffer of the
 * chunk's size.
 */
#define ENCODE_SHARED_MAX (2u << 20)

enum encoded {
	ENCODED,          /* the result is in ws->stored                            */
	ENCODED_HOLE,     /* the chunk is to become a hole                          */
	ENCODED_OUTDATED, /* its length has changed, and there is a newer copy      */
};

/*
 * Returns an enum encoded, or a failure. *damaged: the stored chunk below the dirty pages could not
 * be read, so there is no point in retrying. Takes the file's lock for reading.
 */
NODISCARD int encode_chunk(struct file *f, const struct dirty_chunk *c, struct workspace *ws,
			   bool *damaged);

#endif
