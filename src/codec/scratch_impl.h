/* What a scratch holds; for the codec layer only. */
#ifndef CODEC_SCRATCH_IMPL_H
#define CODEC_SCRATCH_IMPL_H

#include "base/buf.h"
#include "codec/codec.h"
#include "codec/kernels/kernels.h"
#include "codec/scratch.h"

struct scratch {
	struct kernels kernels;
	struct buf work[2];     /* a block between filters; see scratch_work        */
	struct buf stage;       /* see scratch_stage                                */
	struct buf dict, trial; /* encoding with a dictionary: that, and a chunk without it */
	void *state[CODEC_IDS]; /* by codec id; NULL until first use                */
	uint64_t most, wanted;  /* see scratch_bound                                */
};

/*
 * Grows the block buffers to `n` bytes each: the first, and for more than one step the other, too.
 * They are valid until scratch_done.
 */
NODISCARD int scratch_work(struct scratch *s, unsigned steps, size_t n);

/*
 * Frees buffers that only a giant block needed, or a giant chunk with a dictionary: a tiny file may
 * contain a block of half a gigabyte, and threads are long-lived.
 */
void scratch_done(struct scratch *s);

/* The state of a codec in this scratch, created on first use. */
NODISCARD int scratch_state(struct scratch *s, const struct codec *codec, void **state);

#endif
