/*
 * Files that are made by several threads: known from their beginning on, so that others can wait
 * for them, and given their names when they are whole. A thread of its own does that, as a name
 * waits for the disk; one sync is for all that are whole when it begins.
 */
#ifndef OUTPUTS_H
#define OUTPUTS_H

#include "walk.h"

/* A file that is made. */
struct output {
	struct item item; /* with paths and name of its own */
	/* what follows is for outputs.c */
	struct output *next; /* ready                                  */
	unsigned slot;       /* in outputs.busy                        */
	int rc;              /* 0, or why there is none                */
	uint64_t stored;     /* bytes                                  */
	bool elsewhere;      /* on another file system than the target */
};

/* NULL without memory. output_free: of one that was not begun, and has no draft. */
struct output *output_new(const struct item *i);
void output_free(struct output *o);

struct outputs;

struct outputs_totals {
	uint64_t files, bytes, stored;
};

/*
 * Borrows the walk. `verbose`: a line on standard output for each file. outputs_close in every
 * case, when whoever makes files is gone; it waits for names, and NULL is fine.
 */
NODISCARD int outputs_open(struct outputs **p, struct walk *walk, bool verbose);
void outputs_close(struct outputs *p);

/*
 * Its draft is open; its folder stays so until it ends. Waits while too many are on their way. By
 * one thread.
 */
void outputs_begin(struct outputs *p, struct output *o);

/*
 * It is whole, or there is none, which is said: rc < 0, and -ESTALE if what it is made from got
 * shorter. By any thread, once for each that was begun; takes it.
 */
void outputs_end_take(struct outputs *p, struct output *o, int rc);

/* Until all that were begun have their names, or have failed. */
void outputs_wait(struct outputs *p);

/* Until none is on its way of that file by another name, or to that path, `to` and a suffix. */
void outputs_wait_linked(struct outputs *p, const struct stat *st);
void outputs_wait_path(struct outputs *p, const char *to, const char *suffix);

struct outputs_totals outputs_totals(struct outputs *p);

#endif
