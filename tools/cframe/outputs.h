/*
 * Outputs: files that several threads create. An output is registered when it is begun, so that
 * others can wait for it, and gets its name when it is complete and on the disk: a later run takes
 * what has its name for what it says. A thread of its own gives all names, as that takes long; one
 * sync serves all outputs that are complete by then.
 */
#ifndef OUTPUTS_H
#define OUTPUTS_H

#include "walk.h"

/* A file that is made. */
struct output {
	struct item item; /* with paths and name of its own */
	uint64_t stored;  /* bytes, of one that is complete */
	/* private to outputs.c */
	struct output *next; /* among those that are complete          */
	unsigned slot;       /* in outputs.busy                        */
	int rc;              /* 0, or why there is none                */
	bool said;           /* that has been reported                 */
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
	void (*tell)(const struct output *o); /* of one that has its name; NULL: nothing is */
	const char *stale;                    /* behind the name of a source, for -ESTALE   */
};

/*
 * Borrows the walk. Call outputs_close even if this fails, after whoever creates files has ended;
 * it waits for the names. NULL is fine.
 */
NODISCARD int outputs_open(struct outputs **p, struct walk *walk, struct outputs_how how);
void outputs_close(struct outputs *p);

/*
 * Waits until there are descriptors for one more output, or for one more level of the tree. Called
 * before either is opened.
 */
void outputs_wait_room(struct outputs *p);

/*
 * Begins an output, whose draft is open. Its folder stays open until it ends. Called by one thread
 * only, after outputs_wait_room.
 */
void outputs_begin(struct outputs *p, struct output *o);

/*
 * Ends an output, and takes it. rc >= 0: it is complete. rc < 0: it has failed, which is reported
 * here; -ESTALE: its source was changed meanwhile; it is gone when this returns. From any thread,
 * once for each that was begun.
 */
void outputs_end_take(struct outputs *p, struct output *o, int rc);

/* Waits until all that were begun have their names or have failed. */
void outputs_wait(struct outputs *p);

/*
 * Wait until no output is in progress that is the same file by another name, or that goes to the
 * path `to` with `suffix`.
 */
void outputs_wait_linked(struct outputs *p, const struct stat *st);
void outputs_wait_path(struct outputs *p, const char *to, const char *suffix);

struct outputs_totals outputs_totals(struct outputs *p);

#endif
