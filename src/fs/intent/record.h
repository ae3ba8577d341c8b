/*
 * One record of the intent log (intent.h): the bytes that an fsync made durable. Numbers are
 * little-endian. A record starts and ends at a multiple of 4096.
 *
 *      0  magic "cfintent"
 *      8  XXH3-64 of bytes 16 .. 127
 *     16  XXH3-64 of bytes 128 .. length
 *     24  length of the record
 *     32  generation: increases whenever the file of the log is reused
 *     40  sequence number in the generation, from 0
 *     48  inode number of the backing directory
 *     56  inode number of the frame
 *     64  sequence number of the frame's newest durable root
 *     72  that of its newest root
 *     80  size of the mounted file
 *     88  its mtime: seconds, nanoseconds
 *    104  number of ranges
 *    112  bytes in them
 *    120  creation time of the frame, in ns since 1970, since inode numbers are reused;
 *         0: not known
 *    128  offset and length of each range, in order, apart from each other
 *         the bytes, one range after the other; zeros
 *
 * Ranges end within the size. The records of a generation are consecutive from the start of the
 * file on; the log ends where the next one is not whole.
 */
#ifndef FS_INTENT_RECORD_H
#define FS_INTENT_RECORD_H

#include "base/buf.h"
#include "frame/frame.h"
#include "fs/dirty/touched.h"

#include <time.h>

#define INTENT_ALIGN 4096u
#define INTENT_HEAD 128u

struct intent_record {
	uint64_t generation, sequence;
	uint64_t directory, inode, birth;
	struct frame_roots roots; /* those of the frame that it builds on */
	uint64_t size;
	struct timespec mtime;
	uint32_t nranges;
	struct view table, bytes; /* borrowed from what was parsed */
};

/*
 * Begins a record of these ranges, within the limits of touched.h: makes room in *out. *bytes is
 * where the caller puts the bytes of the ranges, one after the other.
 */
NODISCARD int intent_record_begin(struct buf *out, const struct ranges *s, struct span *bytes);

/* Completes the record, except for generation and sequence. The bytes are in place. */
void intent_record_end(struct buf *out, const struct intent_record *r);

/* Sets generation and sequence, which only the log knows. */
void intent_record_number(struct span record, uint64_t generation, uint64_t sequence);

/* The length of the record that starts with these bytes; 0: there is none. */
uint64_t intent_record_length(struct view head);

/* The generation of the record that starts with these bytes. */
uint64_t intent_record_generation(struct view head);

/*
 * Parses a record, whose length is that of intent_record_length. -EBADMSG: it is not whole, or
 * makes no sense.
 */
NODISCARD int intent_record_parse(struct intent_record *r, struct view record);

/*
 * Is a record that built on these roots newer than the frame as it is found? 1: it has to be
 * applied. 0: the frame contains it. -EBADMSG: it cannot have been built on this frame.
 */
NODISCARD int intent_record_judge(const struct frame_roots *built_on,
				  const struct frame_roots *found);

/* Range i < nranges, and its bytes. */
struct byte_range intent_record_range(const struct intent_record *r, uint32_t i);

#endif
