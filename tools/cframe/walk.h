/* Walks a tree and creates another one from it, for `cframe compress` and `cframe extract`. */
#ifndef WALK_H
#define WALK_H

#include "draft.h"
#include "links.h"
#include "listing.h"
#include "takers.h"

#include <pthread.h>
#include <stdatomic.h>

/* Where the new files go. */
struct target {
	int root;    /* descriptor of the directory that they all go to     */
	bool force;  /* existing files are replaced                         */
	bool update; /* existing files are replaced if the source is newer  */
	bool alone;  /* all of them come from one source                    */
	struct links links;
	struct takers takers; /* for the main thread; unused if `alone` or `force` */
};

/*
 * A directory of the target. Its last user closes it, and sets its attributes unless it belongs to
 * another user.
 */
struct folder {
	int fd;
	bool is_root;   /* keeps its attributes: they are the user's business */
	bool made;      /* by us: it did not exist before */
	unsigned users; /* under walk.lock: the walk, and files in progress */
	struct stat st; /* those of the source directory                 */
	struct extras extras; /* likewise                                */
	char *to;       /* its path below the root                       */
};

/* A file in progress. The paths are for messages; `to` is relative to the root. */
struct item {
	const char *from, *to;
	const char *name; /* in its folder */
	struct folder *folder;
	struct stat st;
	enum node_kind kind;
	struct extras extras;
	bool replace; /* a file of that name may be replaced */
	struct draft draft;
};

struct walk {
	const struct walk_ops *ops;
	const char *where;  /* the target, for messages                      */
	struct stat root;   /* of the target                                 */
	bool made_root;     /* the target did not exist before               */
	bool is_fat;        /* its time stamps have a step of two seconds    */
	bool is_remote;     /* a sync of all of it does not reach the disk   */
	dev_t dev;          /* of the source: other file systems are left out */
	struct buf from, to; /* the present paths                            */
	unsigned depth;
	atomic_bool failed;
	/* What is reported once for all files; the latter two only by the main thread. */
	atomic_flag told_extras; /* the target takes no extras               */
	bool told_links;         /* hard links could not be made: copied     */
	bool told_apart;         /* up-to-date files are not linked as in the source */
	pthread_mutex_t lock;
	struct target target; /* its links are under lock                */
	uint64_t made;        /* under lock: items that got their names */
	uint64_t current;     /* items that were up to date; of the main thread only */
};

struct walk_ops {
	/* Sets the name of an entry in the target. False: the entry is left out. */
	bool (*name)(struct walk *w, struct listing *l, struct entry *e,
		     char name[static NAME_MAX + 1]);

	/* True: this directory (its path, its name) counts as a file. NULL: none does. */
	bool (*is_file)(const char *path, const char *name);

	/*
	 * Called before an item or a directory is opened: waits for files in progress that it
	 * depends on, and for free descriptors.
	 */
	void (*await)(struct walk *w, const struct item *i);

	/*
	 * Called next. False: it would hide another entry or be hidden, which was reported. NULL:
	 * none is.
	 */
	bool (*may_stand)(struct walk *w, const struct item *i);

	/*
	 * True: the existing regular file has the size that the entry would get. *there: its
	 * attributes. The times have already been compared.
	 */
	bool (*is_current)(struct listing *l, const struct entry *e, const struct item *i,
			   const struct stat *there);

	/* Creates anything but a directory. The paths in *i are valid until it returns. */
	void (*make)(struct walk *w, struct listing *l, const struct entry *e, struct item *i);

	/* A directory was created in `parent`. NULL: nothing to do. */
	void (*made)(int parent, int fd);
};

/*
 * Opens the target, and creates it if it does not exist. `t` says what is replaced there. Call
 * walk_deinit even if this fails.
 */
NODISCARD int walk_init(struct walk *w, const struct walk_ops *ops, const char *where,
			struct target t);

/*
 * For a failure of the whole run: reports it with the name of the target, and returns the exit
 * code.
 */
int walk_fail(struct walk *w, int rc);

/* True: a sync of the target's file system makes what is on this device durable. */
bool walk_sync_reaches(const struct walk *w, dev_t dev);

/*
 * Makes durable what no fsync has. Call it when all that was made has its name, and the folders are
 * closed.
 */
NODISCARD int walk_sync(struct walk *w);

/* Reports how many files were up to date, if any. Removes a target that was created for nothing. */
void walk_deinit(struct walk *w);

/*
 * A path of the command line: either a directory whose content is taken, or the entry `name` of a
 * directory. Symlinks in it are followed.
 */
struct source {
	int fd; /* owned; -1: it could not be opened, which has been reported */
	bool whole;
	char name[NAME_MAX + 1];
};
void walk_open_source(struct walk *w, const char *path, struct source *s);

/* Process all of a directory, or one entry of it, into the root of the target. */
void walk_all(struct walk *w, int from);
void walk_one(struct walk *w, struct listing *l, struct entry *e);

/* Print a line about the present source. walk_say counts as a failure. */
void walk_note(struct walk *w, const char *text);
void walk_say(struct walk *w, const char *text);
void walk_say_rc(struct walk *w, int rc);

/* The same for an item, from any thread; item_say_target: it is the target that has failed. */
void item_say_rc(struct walk *w, const struct item *i, int rc);
void item_say_target(struct walk *w, const struct item *i, int rc);
void item_say_taken(struct walk *w, const struct item *i, const char *why);

/* True: the file is longer than its attributes say, as in /proc, which has been reported. */
bool item_hides_length(struct walk *w, const struct item *i, int in);

/*
 * Creates i->draft if the entry is a symlink, or a hard link to a file that was created before. 1:
 * done. 0: it is neither, or no such link can be made.
 */
NODISCARD int item_make_link(struct walk *w, struct listing *l, const struct entry *e,
			     struct item *i);

/* Sets attributes and name, from any thread. False: it failed, which has been reported. */
bool item_finish(struct walk *w, struct item *i);

void folder_get(struct walk *w, struct folder *f);
void folder_put(struct walk *w, struct folder *f);

#endif
