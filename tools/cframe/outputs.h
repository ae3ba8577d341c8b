/*
 * Outputs: files that several threads create. An output is registered when it is begun, so that
 * others can wait for it, and gets its name when it is complete and on the disk: a later run trusts
 * what has its final name. A separate thread gives all names, as that takes long; one sync serves
 * all outputs that are complete by then.
 */
#ifndef OUTPUTS_H
#define OUTPUTS_H

#include "walk.h"

/* A file that is being made. */
struct output {
	struct item item; /* with paths and name of its own */
	uint64_t stored;  /* length of the frame or file, once complete */
	/* private to outputs.c */
	struct output *next; /* among those that are complete          */
	unsigned slot;       /* in outputs.busy                        */
	bool elsewhere;      /* the target's sync does not reach it    */
};

/*
 * output_new: NULL: out of memory. output_free: for an output that was not begun and has no draft.
 */
struct output *output_new(const struct item *i);
void output_free(struct output *o);

struct outputs;

struct outputs_totals {
	uint64_t files, bytes, stored;
};

struct outputs_how {
	void (*tell)(const struct output *o); /* called for each that got its name; or NULL */
	const char *stale;                    /* for -ESTALE, after the source's name       */
};

/*
 * Borrows the walk. Call outputs_close even if this fails, after all that create files have ended;
 * it waits for the names. NULL is fine.
 */
NODISCARD int outputs_open(struct outputs **p, struct walk *walk, struct outputs_how how);
void outputs_close(struct outputs *p);

/*
 * Waits until there are descriptors for one more output, or for one more level of the tree. Call it
 * before either is opened.
 */
void outputs_wait_room(struct outputs *p);

/*
 * Begins an output, whose draft is open. Its folder stays open until it ends. For one thread only,
 * after outputs_wait_room.
 */
void outputs_begin(struct outputs *p, struct output *o);

/*
 * Ends an output, and takes it. rc >= 0: it is complete. rc < 0: it has failed, which is reported
 * here (-ESTALE: its source was changed meanwhile), and its draft is gone when this returns. From
 * any thread, once for each that was begun.
 */
void outputs_end_take(struct outputs *p, struct output *o, int rc);

/* Waits until all that were begun have got their names or have failed. */
void outputs_wait(struct outputs *p);

/*
 * Wait until no output in progress has the same source file by another name, or goes to the path
 * `to` with `suffix`.
 */
void outputs_wait_linked(struct outputs *p, const struct stat *st);
void outputs_wait_path(struct outputs *p, const char *to, const char *suffix);

struct outputs_totals outputs_totals(struct outputs *p);

#endif
