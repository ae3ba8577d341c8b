/*
 * Turns files into frames, with several threads: one reads, chunk by chunk, and the workers of a
 * pool encode, write, and commit the frames. Memory is bounded: two chunks per worker, and one more
 * as it is stored.
 */
#ifndef PACK_H
#define PACK_H

#include "frame/policy/wish.h"
#include "outputs.h"

struct packer;

/* Borrows all of these. */
struct pack_options {
	struct walk *walk;
	const struct settings *settings;
	struct outputs *outputs;
	unsigned workers;
};

NODISCARD int packer_open(struct packer **p, const struct pack_options *o);

/* Waits until everything is encoded; names may still be outstanding. NULL is fine. */
void packer_close(struct packer *p);

/*
 * Creates a frame from the open file `in`, which is taken, under the name i->name. `shown`: the
 * name of the source. The frame is completed later; a failure is reported. For one thread only.
 */
void pack_take(struct packer *p, int in, const char *shown, const struct item *i);

#endif
