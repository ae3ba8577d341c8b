/*
 * What the process may take at most: memory by its control groups, address space by ulimit or the
 * size of pointers. Options that ask for more are cut, with a line in the log; options that fit are
 * the user's own affair.
 */
#ifndef FS_FIT_H
#define FS_FIT_H

#include "fs/options.h"

/*
 * Where memory is limited, as in a container, the kernel kills whoever takes more. Lowers cache and
 * dirty_max to a share of the limit.
 */
void fit_memory(struct options *o);

/*
 * Where the address space is limited, the same, and with smaller stacks for the threads to come:
 * else data that waits to be stored takes the memory for storing it, for ever. Returns how many
 * threads may serve requests, at most `threads`.
 */
unsigned fit_space(struct options *o, unsigned threads);

#endif
