/* How far a long run has come: a line on a terminal, from its first second to its end. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdint.h>

/* Nothing where standard error is no terminal. */
void progress_start(void);
void progress_end(void);

/* By any thread: one more file is done; so many bytes are, and what is stored of them. */
void progress_file(void);
void progress_bytes(uint64_t of_plain, uint64_t of_stored);

/* Takes the line away for another one, and keeps it away until progress_go_on. */
void progress_hold(void);
void progress_go_on(void);

#endif
