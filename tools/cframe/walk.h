/*
 * A tree that is gone through while another one is made after it, by `cframe compress` and `cframe
 * extract`.
 */
#ifndef WALK_H
#define WALK_H

#include "draft.h"
#include "links.h"
#include "listing.h"

#include <pthread.h>
#include <stdatomic.h>

/* The files that are made. */
struct target {
	int root;    /* descriptor of the directory that all go to          */
	bool force;  /* what is there is replaced                           */
	bool update; /* so is what is older than that which it would become */
	struct links links;
};

/*
 * A directory of the target. The last of its users closes it, and gives it its attributes, unless
 * somebody else owns it.
 */
struct folder {
	int fd;
	bool is_root;   /* who named it has its attributes in hand        */
	bool made;      /* it was not there before                       */
	unsigned users; /* under walk.lock: the walk, and files on their way */
	struct stat st; /* of the one that it is made after              */
	struct extras extras; /* likewise                                */
	char *to;       /* its path below the root                       */
};

/* A file on its way. The paths are for messages; `to` is below the root. */
struct item {
	const char *from, *to;
	const char *name; /* in its folder */
	struct folder *folder;
	struct stat st;
	enum node_kind kind;
	struct extras extras;
	bool replace; /* what has its name may go */
	struct draft draft;
};

struct walk {
	const struct walk_ops *ops;
	const char *where;  /* the target, for messages                      */
	struct stat root;   /* of the target                                 */
	bool made_root;     /* the target was not there before               */
	dev_t dev;          /* of the source: other file systems stay out    */
	struct buf from, to; /* paths of what is being looked at             */
	unsigned depth;
	atomic_bool failed;
	atomic_flag told_extras; /* that the target takes none */
	pthread_mutex_t lock;
	struct target target; /* its links are under lock                */
	uint64_t made;        /* under lock: items that got their names */
	uint64_t current;     /* those that were there as they would be made */
};

struct walk_ops {
	/* The name of an entry in the target. False: it is left out. */
	bool (*name)(struct walk *w, struct listing *l, struct entry *e,
		     char name[static NAME_MAX + 1]);

	/* True: a directory that counts as a file, by its path and name. NULL: none does. */
	bool (*is_file)(const char *path, const char *name);

	/* False: it would stand in the way of another, which is said. NULL: nothing does. */
	bool (*may_stand)(struct walk *w, const struct item *i);

	/*
	 * True: the regular file in that place is what would be made of the entry, as far as its
	 * size says; *there are its attributes. Times have been compared.
	 */
	bool (*is_current)(struct listing *l, const struct entry *e, const struct item *i,
			   const struct stat *there);

	/* Makes what is no directory. The paths in *i are good until it returns. */
	void (*make)(struct walk *w, struct listing *l, const struct entry *e, struct item *i);

	/* A directory was made in another one. NULL: nothing is to be done. */
	void (*made)(int parent, int fd);
};

/*
 * Opens the target, makes it if it is not there. `t` has what is replaced there. walk_deinit in
 * every case.
 */
NODISCARD int walk_init(struct walk *w, const struct walk_ops *ops, const char *where,
			struct target t);

/* The whole of it failed: a line about the target, and the exit code. */
int walk_fail(struct walk *w, int rc);

/* Tells, where files were up to date, how many. A target that was made for nothing is removed. */
void walk_deinit(struct walk *w);

/*
 * A path of the command line: a directory that is taken whole, or the directory that has `name`.
 * Links of the command line are followed.
 */
struct source {
	int fd; /* owned; -1: it could not be opened, which is said */
	bool whole;
	char name[NAME_MAX + 1];
};
void walk_open_source(struct walk *w, const char *path, struct source *s);

/* All of a directory, or one entry of it, into the root of the target. */
void walk_all(struct walk *w, int from);
void walk_one(struct walk *w, struct listing *l, struct entry *e);

/* A line about the source where the walk is. walk_say counts as a failure. */
void walk_note(struct walk *w, const char *text);
void walk_say(struct walk *w, const char *text);
void walk_say_rc(struct walk *w, int rc);

/* The same about an item, by any thread. */
void item_say_rc(struct walk *w, const struct item *i, int rc);
void item_say_taken(struct walk *w, const struct item *i, const char *why);

/*
 * A link: a symlink, or another name of what is made already. 1: it is in i->draft. 0: it is
 * neither.
 */
NODISCARD int item_make_link(struct walk *w, struct listing *l, const struct entry *e,
			     struct item *i);

/* Attributes and name, by any thread. False: it failed, which is said. */
bool item_finish(struct walk *w, struct item *i);

void folder_get(struct walk *w, struct folder *f);
void folder_put(struct walk *w, struct folder *f);

#endif
