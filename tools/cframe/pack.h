/*
 * Files into frames, by several threads: one reads, chunk by chunk, and the workers of a pool
 * encode, write, and finish the files. What is in memory is bounded: two chunks a worker, and one
 * more as it is stored.
 */
#ifndef PACK_H
#define PACK_H

#include "base/pool.h"
#include "frame/policy/wish.h"
#include "walk.h"

struct packer;

struct pack_totals {
	uint64_t files, bytes, stored;
};

/* Borrows all of these. `verbose`: a line on standard output for each frame. */
struct pack_options {
	struct walk *walk;
	const struct settings *settings;
	unsigned workers;
	bool verbose;
};

NODISCARD int packer_open(struct packer **p, const struct pack_options *o);

/* Waits until all is done. NULL is fine. */
void packer_close(struct packer *p);

/* Until all frames that were begun are there, or have failed. */
void packer_wait(struct packer *p);

/* Until none is on its way of that file by another name, or to that path, `to` and a suffix. */
void packer_wait_linked(struct packer *p, const struct stat *st);
void packer_wait_path(struct packer *p, const char *to, const char *suffix);

struct pack_totals packer_totals(struct packer *p);

/*
 * Makes the frame of an open file, which is taken, under i->name; `shown` is the file's own name.
 * The frame is finished later; what fails gets a line. By one thread.
 */
void pack_take(struct packer *p, int in, const char *shown, const struct item *i);

#endif
