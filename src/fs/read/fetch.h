/*
 * A read in progress: gets bytes of stored chunks, through the cache or past it. It stands between
 * read.c, which knows about files, and the frame. The file's lock is held, even while a read waits
 * for memory (large.h).
 */
#ifndef FS_READ_FETCH_H
#define FS_READ_FETCH_H

#include "fs/file/file.h"
#include "fs/read/slow.h"
#include "fs/workspace.h"

/* A chunk whose head has been read. */
struct lazy;

/* The state of one read request. Everything but the memory is borrowed from the caller. */
struct fetch {
	/* what is asked for, and where the answer goes */
	struct file *f;
	enum readahead_kind kind;
	bool direct;          /* direct I/O */
	struct workspace *ws; /* of this thread */
	struct reply *r;      /* what has been read so far */
	struct slow slow;

	/* how far it has got */
	uint32_t n;           /* the chunk ... */
	uint32_t at, end;     /* ... which of its bytes are yet to be read ... */
	struct lazy *lazy;    /* ... and its head, once it is stored and loaded */
	uint32_t block;       /* the block that block_fill would decode ... */
	enum block_form form; /* ... and how far; this is its tag in the cache */
	bool filled;          /* block_fill was called: the block was not in the cache */

	struct fetch_loan { /* memory for large blocks: fetch_memory.h */
		uint64_t bytes, used; /* taken by large_take, and how much of that is in use   */
		uint64_t want;        /* after -E2BIG: what is needed; 0: another's fill failed */
		uint32_t block;       /* size of the block in question, for the log             */
	} loan;
};

/* Adds bytes [lo, lo + len) of chunk x->n to the reply. Its slot is stored, or of NaN. */
NODISCARD int fetch_stored(struct fetch *x, uint32_t lo, uint32_t len);

/*
 * -E2BIG: reading some block of stored chunk x->n takes more memory than may be used, which has
 * been logged. Reads no more than the chunk's head.
 */
NODISCARD int fetch_check_memory(struct fetch *x);

/*
 * Decodes the blocks that contain any of [lo, hi) into the cache, except blocks that take much
 * memory.
 */
NODISCARD int fetch_ahead(struct fetch *x, uint32_t lo, uint32_t hi);

#endif
