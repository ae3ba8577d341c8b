/*
 * What the process can use at most: memory is limited by its control groups, address space by
 * ulimit or the size of pointers. Options that ask for more are reduced, with a line in the log.
 * Options within the limits are left alone.
 */
#ifndef FS_FIT_H
#define FS_FIT_H

#include "fs/options.h"

/*
 * Where memory is limited, for example in a container, the kernel kills a process that uses more.
 * Lowers cache and dirty_max to a share of the limit, and says so where even that may be too much.
 */
void fit_memory(struct options *o);

/*
 * The same for a limited address space; also gives threads started later smaller stacks. Without
 * this, data that waits to be stored could hold for ever the memory that storing it needs. Returns
 * how many threads may serve requests, at most `threads`.
 */
unsigned fit_space(struct options *o, unsigned threads);

#endif
