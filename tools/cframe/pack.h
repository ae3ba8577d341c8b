/*
 * Files into frames, by several threads: one reads, chunk by chunk, and the workers of a pool
 * encode, write, and commit the frames. What is in memory is bounded: two chunks a worker, and one
 * more as it is stored.
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

/* Waits until all is encoded; names may still be given. NULL is fine. */
void packer_close(struct packer *p);

/*
 * Makes the frame of an open file, which is taken, under i->name; `shown` is the file's own name.
 * The frame is finished later; what fails gets a line. By one thread.
 */
void pack_take(struct packer *p, int in, const char *shown, const struct item *i);

#endif
