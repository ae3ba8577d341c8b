/*
 * The workspace of one thread: the kernels for this CPU, buffers for blocks, and codec states,
 * created on first use. Encoding and decoding take one as an argument, and once it is warm neither
 * allocates nor takes a lock. A scratch is used by one thread at a time.
 */
#ifndef CODEC_SCRATCH_H
#define CODEC_SCRATCH_H

#include "base/bytes.h"
#include "base/err.h"

struct scratch;

/* With the kernels that suit this CPU. Fails with -ENOMEM. */
NODISCARD int scratch_open(struct scratch **s);

/*
 * The same for an older machine: uses only those features in `cpu` (bits of cpu.h) that exist here.
 */
NODISCARD int scratch_open_cpu(struct scratch **s, unsigned cpu);

void scratch_close(struct scratch *s); /* NULL is fine */

/*
 * A buffer for n stored bytes on their way to the decoder, so that fetching them does not allocate
 * either. Valid until the next call. -ENOMEM. scratch_trim frees what only a large chunk needed.
 */
NODISCARD int scratch_stage(struct scratch *s, size_t n, struct span *out);
void scratch_trim(struct scratch *s);

/*
 * A bound on the memory, in bytes, that one call may take for stored bytes, tables of blocks, and
 * blocks between filters: a file of a few bytes may ask for gigabytes. There is no bound at first,
 * which suits the tools; the daemon sets one (fs/large.h). scratch_bound returns the previous
 * bound, for callers that change it temporarily.
 *
 * Before memory whose size depends on a file is allocated, scratch_ask checks it. -E2BIG: it
 * exceeds the bound. scratch_wanted then returns how much it was, until the next scratch_bound.
 */
uint64_t scratch_bound(struct scratch *s, uint64_t most);
NODISCARD int scratch_ask(struct scratch *s, uint64_t bytes);
uint64_t scratch_wanted(const struct scratch *s); /* 0: nothing was refused */

#endif
