/*
 * The workspace of one thread: kernels chosen for this CPU, block buffers,
 * codec states made on first use. Whoever encodes or decodes brings one, so
 * that a warm scratch allocates nothing and takes no lock. A scratch belongs
 * to one thread at a time.
 */
#ifndef CODEC_SCRATCH_H
#define CODEC_SCRATCH_H

#include "base/err.h"

struct scratch;

NODISCARD int scratch_open(struct scratch **s);

/* The same for an older machine: `cpu` is a mask of cpu.h, narrowed to what is there. */
NODISCARD int scratch_open_cpu(struct scratch **s, unsigned cpu);

void scratch_close(struct scratch *s); /* NULL is fine */

#endif
