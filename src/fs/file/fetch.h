/*
 * A read on its way: bytes of stored chunks, by the cache and past it. Between read.c, which knows
 * of files, and the frame.
 */
#ifndef FS_FILE_FETCH_H
#define FS_FILE_FETCH_H

#include "fs/dirty/workspace.h"
#include "fs/file/file.h"

/* A chunk whose head has been read. */
struct lazy;

/* Tags of blocks in the cache: decoded, or packed (chunk_decode_packed). */
enum block_form { BLOCK_PLAIN, BLOCK_PACKED };

/* One read request while it is answered. Everything is borrowed from the caller but the memory. */
struct fetch {
	/* what is asked for, and where the answer goes */
	struct file *f;
	enum readahead_kind kind;
	bool direct;          /* direct I/O */
	struct workspace *ws; /* of this thread */
	struct reply *r;      /* what has been read so far */

	/* how far it is */
	uint32_t n;           /* the chunk ... */
	struct lazy *lazy;    /* ... and its head, once it is stored and loaded */
	uint32_t block;       /* the block that block_fill would decode ... */
	enum block_form form; /* ... and how */
	bool filled;          /* block_fill was called: the block was not in the cache */

	/* memory for large blocks (large.h), in bytes; given back when the request ends */
	uint64_t memory, used; /* taken for it, and in use of that                      */
	uint64_t want;        /* after -E2BIG: what it takes; 0: another's fill failed  */
	uint64_t head;        /* what loading the head took, if that was much           */
	uint32_t large_block; /* size of the block that it is about, for the log        */
};

/* Adds bytes [lo, lo + len) of chunk x->n, a stored slot or one of NaN, to the reply. */
NODISCARD int fetch_stored(struct fetch *x, uint32_t lo, uint32_t len);

/* Decodes the blocks that hold any of [lo, hi) into the cache; none that takes much memory. */
NODISCARD int fetch_ahead(struct fetch *x, uint32_t lo, uint32_t hi);

#endif
