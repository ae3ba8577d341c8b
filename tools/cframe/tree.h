/* What `cframe extract` and `cframe compress` share: a tree that becomes another one. */
#ifndef TREE_H
#define TREE_H

#include "base/hash.h"
#include "frame/frame.h"
#include "frame/names.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

/* An entry of a directory. */
struct entry {
	char *name;
	struct stat st;
	enum node_kind kind; /* listing_show finds it out: of a directory of frames */
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
struct entry *listing_find(struct listing *l, const char *name);

/* Fills in its attributes, or e->rc. */
void listing_stat(struct listing *l, struct entry *e);

/* The entry that a mount shows as `shown`, or NULL. */
struct entry *listing_owner(struct listing *l, const char *shown);

/*
 * What an entry is, and its name in a mount. False: it is hidden. Where another entry has the name
 * that it claims it is NODE_PLAIN, under its own.
 */
bool listing_show(struct listing *l, struct entry *e, char shown[static NAME_MAX + 1]);

/* How long a mount shows a file, and what is stored of it. Its kind is known. */
NODISCARD int listing_size(struct listing *l, const struct entry *e, uint64_t *size,
			   uint64_t *stored);

/* Extended attributes and ACLs, on their way from one file to another. */
struct extras {
	struct buf all;
	int rc; /* why one could not be read, or given; 0: all could */
};
void extras_load(struct extras *x, int fd);
void extras_give(struct extras *x, int fd);
void extras_free(struct extras *x);

/* The files that are made. */
struct target {
	int root;   /* descriptor of the directory that all go to                    */
	bool force; /* what is there is replaced                                     */
	bool update; /* so is what is older than that which it would become          */
	/* Those with several names, as far as they are made: by the file that they came from, and
	 * by their path. */
	struct linked *linked, *by_path;
};

/* Files on their way at the same time. */
#define DRAFTS_MAX 1024

/* A file under a temporary name, until it is given its own. */
struct draft {
	int dir; /* borrowed */
	int fd;  /* -1: not a regular file */
	char name[32];
	struct live *live;
};

/* From here on a signal that ends the program takes all drafts with it. */
void draft_end_with_signals(void);

/* By the main thread, which gets the signals. -ENFILE: there are DRAFTS_MAX. */
NODISCARD int draft_open(struct draft *d, int dir);
NODISCARD int draft_symlink(struct draft *d, int dir, const char *text);
NODISCARD int draft_node(struct draft *d, int dir, const struct stat *st);
NODISCARD int draft_link(struct draft *d, int dir, int from, const char *path);

/*
 * Attributes, then the name; `replace`: also one that is in use, else -EEXIST. It is gone when this
 * fails.
 */
NODISCARD int draft_finish(struct draft *d, const struct stat *st, struct extras *x,
			   const char *name, bool replace);
void draft_drop(struct draft *d);

/* Removes the drafts that a program left in a directory when it was killed. */
void drafts_remove_left(int dir);

/* Owner, extras, mode and times of an open file or directory. */
NODISCARD int give_attributes(int fd, const struct stat *st, struct extras *x);

/* Where another name of that file was made, below the root; NULL: nowhere yet. */
const char *target_linked(const struct target *t, const struct stat *st, enum node_kind kind);
void target_note_linked(struct target *t, const struct stat *st, enum node_kind kind,
			const char *path);
void target_forget_linked(struct target *t, const char *path); /* another file has taken it */
void target_deinit(struct target *t);

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
	struct target target; /* under lock, but for its first three fields */
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

/* True: the file has not changed from one look to the other. */
bool is_same(const struct stat *a, const struct stat *b);

/* True: so is a directory, or one above it in its file system. */
bool any_above(int dir, bool (*is_so)(void *arg, int dir), void *arg);

/* True: it is the root of a mount. For any_above. */
bool is_mount_point(void *arg, int dir);

/* True: a daemon that may write has this directory (it holds a lock on it, fs/backing). */
bool is_mounted(int dir);

/* True: a daemon was killed that had it, and its intent log has not been applied since. */
bool has_log(int dir);

#endif
