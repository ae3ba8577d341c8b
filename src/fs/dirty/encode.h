/*
 * One dirty chunk -> its stored form. Runs on the workers.
 */
#ifndef FS_DIRTY_ENCODE_H
#define FS_DIRTY_ENCODE_H

#include "fs/dirty/workspace.h"
#include "fs/file/file.h"

/* Larger chunks are encoded by one worker: sharing the blocks takes a buffer as large again. */
#define ENCODE_SHARED_MAX (2u << 20)

enum encoded {
	ENCODED,          /* into ws->stored                                        */
	ENCODED_HOLE,     /* it shall become a hole                                 */
	ENCODED_OUTDATED, /* the chunk has another length by now, and a newer copy  */
};

/*
 * Returns enum encoded, or a failure. *damaged: the failure is that of the stored chunk below dirty
 * pages, so that trying again is useless. Takes the file's lock for reading.
 */
NODISCARD int encode_chunk(struct file *f, const struct dirty_chunk *c, struct workspace *ws,
			   bool *damaged);

#endif
