/*
 * Memory that frames hold for as long as they are open: indexes, checksums, starts and lengths of
 * chunks, metalayers. A file of a few hundred bytes may make it 128 MiB, so there is one bound for
 * the process. What is loaded from a file has to fit; data written to a frame has already been
 * accepted, and is only counted.
 *
 * Any thread may call any function.
 */
#ifndef FRAME_HELD_H
#define FRAME_HELD_H

#include <stdbool.h>
#include <stdint.h>

/* Sets the bound, in bytes. There is none at first, which suits the tools. */
void held_bound(uint64_t most);

/*
 * Counts `bytes` more. False: that would exceed the bound, and nothing is counted; never with
 * `must`.
 */
bool held_take(uint64_t bytes, bool must);
void held_give(uint64_t bytes);

/*
 * Parts of up to this size are taken (`must`) whatever else is held. That covers files of up to 64
 * chunks, even if their trailer, of which two are held, lists every other chunk as written since
 * the last sync (young.h). Otherwise a single file with millions of chunks would keep everybody
 * from opening or creating any other.
 */
#define HELD_SMALL 4096u

/* True: something exceeded the bound since the last call. */
bool held_has_refused(void);

/* The bytes held, and the bound. */
uint64_t held_bytes(void);
uint64_t held_most(void);

/*
 * Around work that needs `bytes` only for a moment. If that is more than HELD_FREE, one thread at a
 * time does so, and the others wait. In between, take no lock, and do not call held_enter again.
 */
#define HELD_FREE (1u << 20)
void held_enter(uint64_t bytes);
void held_leave(uint64_t bytes); /* the same number */

#endif
