/* The progress of a long run: a line on a terminal, shown after the first second until the end. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdint.h>

/* Do nothing if standard error is not a terminal. */
void progress_start(void);
void progress_end(void);

/*
 * From any thread: one more file is done; this many more plain bytes are done, and their stored
 * bytes.
 */
void progress_file(void);
void progress_bytes(uint64_t of_plain, uint64_t of_stored);

/* Plain bytes that do not count after all: their file has failed, or is retried. */
void progress_take_back(uint64_t of_plain);

/* Removes the line to make room for other output, until progress_go_on. */
void progress_hold(void);
void progress_go_on(void);

#endif
