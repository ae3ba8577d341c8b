/*
 * The workspace of one thread: the kernels for this CPU, buffers for blocks, and codec states that
 * are made on first use. Whoever encodes or decodes brings one, so once it is warm nothing is
 * allocated and no lock is taken. A scratch is used by one thread at a time.
 */
#ifndef CODEC_SCRATCH_H
#define CODEC_SCRATCH_H

#include "base/bytes.h"
#include "base/err.h"

struct scratch;

/* With the kernels that suit this CPU. Fails with -ENOMEM. */
NODISCARD int scratch_open(struct scratch **s);

/*
 * The same for an older machine: only features in `cpu` (bits of cpu.h) that exist here are used.
 */
NODISCARD int scratch_open_cpu(struct scratch **s, unsigned cpu);

void scratch_close(struct scratch *s); /* NULL is fine */

/*
 * Room for n stored bytes on their way to the decoder: whoever fetches them asks for it, so that
 * this allocates nothing either. Valid until it is called again. -ENOMEM. scratch_trim frees what
 * only a large chunk needed.
 */
NODISCARD int scratch_stage(struct scratch *s, size_t n, struct span *out);
void scratch_trim(struct scratch *s);

/*
 * A bound on the memory, in bytes, that one call may take for stored bytes, tables of blocks, and
 * blocks between filters: a file of a few bytes may ask for gigabytes. There is no bound at first,
 * which suits the tools; the daemon sets one (fs/large.h). scratch_bound returns the previous
 * bound, for whoever changes it for a while only.
 *
 * Whatever is sized by numbers from a file is asked for with scratch_ask before it is allocated.
 * -E2BIG: that is more than the bound. scratch_wanted then says how much it was, until the next
 * scratch_bound.
 */
uint64_t scratch_bound(struct scratch *s, uint64_t most);
NODISCARD int scratch_ask(struct scratch *s, uint64_t bytes);
uint64_t scratch_wanted(const struct scratch *s); /* 0: nothing was refused */

#endif
