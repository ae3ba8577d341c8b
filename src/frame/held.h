/*
 * Memory that frames hold for as long as they are open: indexes, checksums, starts and lengths of
 * chunks, metalayers. A file of a few hundred bytes may make it 128 MiB, so there is one bound for
 * the process. What is loaded from a file has to fit; what is written to a frame has been accepted,
 * and only counts.
 *
 * Any thread may call any function.
 */
#ifndef FRAME_HELD_H
#define FRAME_HELD_H

#include <stdbool.h>
#include <stdint.h>

/* Sets the bound, in bytes. There is none at first, which suits the tools. */
void held_bound(uint64_t most);

/* Counts `bytes` more. False, unless `must`: that is beyond the bound, and nothing is counted. */
bool held_take(uint64_t bytes, bool must);
void held_give(uint64_t bytes);

/*
 * What is to be taken whatever else is held: so much of each part, which is all of a file of up to
 * 64 chunks. Else a single file, of millions of them, would keep everybody from opening, or
 * making, any other.
 */
#define HELD_SMALL 2048u

/* True: something was beyond the bound since this was asked before. */
bool held_has_refused(void);

/* How much is held, and how much may be. */
uint64_t held_bytes(void);
uint64_t held_most(void);

/*
 * Around work on a frame that takes `bytes` for a moment only. If that is more than HELD_FREE, one
 * thread at a time does so: the others wait. No lock of ours is taken in between, nor another part.
 */
#define HELD_FREE (1u << 20)
void held_enter(uint64_t bytes);
void held_leave(uint64_t bytes); /* the same number */

#endif
