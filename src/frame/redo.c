/*
 * After a failed sync. The kernel reports such a failure once and marks the pages clean: their
 * content may never get to the disk, yet the next sync succeeds. So before a sync is trusted again,
 * everything that was written since the last good one is written again: chunks here, if what is
 * read back still matches the checksum; index, trailer and header by a new commit.
 */
#include "frame/era.h"
#include "frame/frame_impl.h"

/*
 * Writes whole chunks, not pieces, since what is written has to be what was verified: the pages are
 * clean until then, and if the kernel drops them, the next read returns what the disk has.
 */
static int rewrite(struct frame *f, uint64_t from, uint64_t to)
{
	struct buf b = {0};
	uint32_t end = (uint32_t)min_u64(to, f->index.n), n = (uint32_t)min_u64(from, end);
	int rc = 0;
	for (; rc == 0 && (n = index_next_stored(&f->index, n)) < end; n++) {
		rc = frame_read_raw(f, n, &b);
		if (rc == 0)
			rc = io_pwrite(f->io, f->info.header_len + numbers_get(&f->index, n),
				       buf_view(&b));
	}
	buf_free(&b);
	return rc == -EBADMSG ? -EIO : rc; /* the file was sound; the disk has lost a chunk */
}

static int rewrite_young(struct frame *f)
{
	struct view runs = buf_view(&f->young.runs);
	struct young_run run;
	if (f->young.many)
		return rewrite(f, 0, f->index.n);
	while (young_next(&runs, &run))
		TRY(rewrite(f, run.first, run.end));
	return 0;
}

int frame_sync_io(struct frame *f)
{
	if (f->suspect)
		TRY(rewrite_young(f));
	int rc = io_sync(f->io);
	if (rc < 0) {
		f->suspect = f->doubt = true;
		era_spoil();
	}
	return rc;
}

