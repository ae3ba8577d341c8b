/*
 * The workspace of one thread: kernels chosen for this CPU, block buffers,
 * codec states made on first use. Whoever encodes or decodes brings one, so
 * that a warm scratch allocates nothing and takes no lock. A scratch belongs
 * to one thread at a time.
 */
#ifndef CODEC_SCRATCH_H
#define CODEC_SCRATCH_H

#include "base/err.h"

#include <stdint.h>

struct scratch;

NODISCARD int scratch_open(struct scratch **s);

/* The same for an older machine: `cpu` is a mask of cpu.h, narrowed to what is there. */
NODISCARD int scratch_open_cpu(struct scratch **s, unsigned cpu);

void scratch_close(struct scratch *s); /* NULL is fine */

/*
 * A bound on the memory that one call may take: for stored bytes, tables of blocks, and blocks
 * between filters. A file of some bytes may ask for gigabytes. Without a bound at first: the tools
 * take what they need; the daemon sets one (fs/large.h). Returns the bound of before: who sets
 * another one for a while sets that again.
 *
 * Whoever reads from a file asks before it takes. -E2BIG: more than the bound; scratch_wanted says
 * how much it was, until the next scratch_bound.
 */
uint64_t scratch_bound(struct scratch *s, uint64_t most);
NODISCARD int scratch_ask(struct scratch *s, uint64_t bytes);
uint64_t scratch_wanted(const struct scratch *s); /* 0: nothing was refused */

#endif
