/* The parts of `cframe extract`. */
#ifndef EXTRACT_H
#define EXTRACT_H

#include "base/hash.h"
#include "frame/frame.h"
#include "frame/names.h"

#include <sys/stat.h>

/* An entry of a directory of frames. */
struct entry {
	char *name;
	struct stat st;
	enum node_kind kind;
	int rc;      /* < 0: what it is could not be found out   */
	bool looked; /* st, kind and rc are set                  */
};

/* A directory by its names, in order. */
struct listing {
	int fd; /* borrowed */
	struct entry *entry;
	size_t n;
};

NODISCARD int listing_read(struct listing *l, int fd);
void listing_free(struct listing *l);

/* The entry of that name, or NULL. */
struct entry *listing_find(struct listing *l, const char *backing);

/* The entry that a mount shows as `shown`, or NULL. */
struct entry *listing_owner(struct listing *l, const char *shown);

/*
 * What an entry is, and its name in a mount. False: it is hidden. Where another entry has the name
 * that it claims it is NODE_PLAIN, under its own.
 */
bool listing_show(struct listing *l, struct entry *e, char shown[static NAME_MAX + 1]);

/* The bytes of an open frame, or of its array as an .npy file, into an empty file. */
NODISCARD int unpack_frame(struct frame *f, bool array, struct scratch *s, int out);

/* The bytes of a file, without its holes. */
NODISCARD int unpack_plain(int in, int out);

/* The files that are made. */
struct target {
	int root;   /* descriptor of the directory that all go to                    */
	bool force; /* what is there is replaced                                     */
	/* Those with several names, as far as they are made: by the file that they came from, and
	 * by their path. */
	struct linked *linked, *by_path;
};

/* A file under a temporary name, until it is given its own. */
struct draft {
	int dir; /* borrowed */
	int fd;  /* -1: not a regular file */
	char name[32];
};

/* From here on a signal that ends the program takes the draft with it. */
void draft_end_with_signals(void);

NODISCARD int draft_open(struct draft *d, int dir);
NODISCARD int draft_symlink(struct draft *d, int dir, const char *text);
NODISCARD int draft_node(struct draft *d, int dir, const struct stat *st);
NODISCARD int draft_link(struct draft *d, int dir, int from, const char *path);

/* Owner, mode and times, then the name. -EEXIST: that is in use. It is gone when this fails. */
NODISCARD int draft_finish(struct draft *d, const struct target *t, const struct stat *st,
			   const char *name);
void draft_drop(struct draft *d);

/* Owner, mode and times of an open file or directory. */
NODISCARD int give_attributes(int fd, const struct stat *st);

/* Where another name of that file was made, below the root; NULL: nowhere yet. */
const char *target_linked(const struct target *t, const struct entry *e);
void target_note_linked(struct target *t, const struct entry *e, const char *path);
void target_forget_linked(struct target *t, const char *path); /* another file has taken it */
void target_deinit(struct target *t);

#endif
