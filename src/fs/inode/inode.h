/*
 * The inodes that the kernel knows or that are open: lookup counts, names, descriptors, times.
 *
 * An inode lives while the kernel holds lookups of it, or a child or an open file refers to it. The
 * thread that drops the last of these references frees it, and decides that under the table lock.
 * Descriptors are a cache, since their number is limited and that of inodes is not: inode_pin opens
 * one by name if there is none, and checks that it is still the same file; the least recently used
 * ones are closed. While a frame is open, its descriptor belongs to the inode and stays open.
 */
#ifndef FS_INODE_INODE_H
#define FS_INODE_INODE_H

#include "base/hash.h"
#include "base/treap.h"
#include "fs/backing/entry.h"
#include "fs/inode/caps.h"
#include "fs/inode/seen.h"
#include "fs/inode/times.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct file;
struct handle;
struct inodes;
struct push;

/* A name of an inode. A directory has one, a file as many as were looked up. */
struct link {
	struct link *next, **at;
	struct treap_node by_name; /* in the inode's `names` */
	struct inode *parent;      /* a reference            */
	const char *backing;       /* stored after the struct */
};

struct inode_key {
	dev_t dev;
	ino_t ino;
	uint64_t kind; /* enum node_kind: a hard link may be seen as bytes and as a frame */
};

/*
 * What an inode's descriptor may be, under the table lock (fd.c):
 *
 *              fd        readable  promoted
 *   NONE       -1        no        no        opened by name when it is wanted
 *   PATH       O_PATH    no        no        closed when it is used least recently
 *   READER     O_RDONLY  yes       no        the same
 *   READING    O_RDONLY  yes       yes       an open frame reads by it: it stays
 *   OPENED     as asked  no        yes       made for an open frame: it stays
 *
 * A descriptor that is pinned stays open, too, and so does that of a file without a name.
 *
 *   NONE -> PATH            inode_pin, inode_keep_take
 *   NONE -> PATH, READER    inode_from_entry: what the lookup has opened
 *   PATH -> READER          inode_pin_reader, of a directory
 *   PATH, READER -> NONE    another one needs room; inode_keep_take
 *   READER -> READING       inode_promote, to read
 *   all -> OPENED           inode_promote, inode_promote_to_take
 *   READING -> READER       inode_demote
 *   OPENED -> NONE, PATH    inode_demote; PATH if it is pinned, detached, or without a name
 */

/* Why an open of the file has to wait (file/open.c). */
enum inode_busy {
	INODE_NOT_BUSY,
	INODE_PRELOADING, /* its only user puts its content into the kernel: ops/preload.h   */
	INODE_ENDING,     /* its last user has taken data back, and closes it: file/discard.h */
};

/*
 * Sizes of the frame that was open last, or looked up first. `known`: they are those of the frame
 * that inode_seen is about.
 */
struct inode_sizes {
	uint64_t size;
	uint32_t block;
	bool known;
};

/*
 * What the kernel knows of the file.
 *
 *              set when                             until
 *   untold     it could not be told that the file   the next reload, which tells it again
 *              has grown
 *   mistaken   its size may be wrong                the inode's end: a lookup gets another one,
 *                                                   unless it has writers (ops/entry.c)
 *   guessed    its size is a guess, since the       the inode's end: an open that succeeds gives it
 *              frame might not be read              up, and so does a lookup
 */
struct inode_kernel {
	uint64_t size;  /* what it was told when the file was first looked up */
	uint64_t owner; /* cache_owner when its pages were last known good */
	bool untold, mistaken, guessed;
};

/* What has been logged about the file, so as not to repeat it. */
struct inode_told {
	bool torn;                /* that it went back to an older root                   */
	atomic_bool large_block;  /* that reading a block takes more memory than there is */
	atomic_bool large_chunks; /* that writing to it does                              */
	atomic_bool lock;         /* that another program keeps its lock: sidecar.h       */
};

struct inode {
	/*
	 * Fixed, except for dev and ino: they are under the table lock, since a copy-up changes
	 * them (inode_renumber).
	 */
	struct inode_key key;
	mode_t type;              /* S_IFMT bits of the backing file                       */
	uint32_t generation;      /* a later inode at the same address has another one     */

	/* Under the table lock. The two flags that are atomic are read without it as well. */
	UT_hash_handle hh;
	uint64_t refs;
	struct link *links;       /* its names, the newest first                           */
	struct treap names;       /* the same by name: there may be many thousands         */
	struct inode *lru_newer, *lru_older; /* fd may be closed (impl.h)                  */
	union {
		struct inode *next_orphan; /* while it is erased           */
		struct inode *next_open;   /* before that: inodes_all_open */
	};
	int fd;                   /* this and the two flags: see the table above           */
	bool readable, promoted;
	unsigned pins;            /* while there are any, fd is not closed                 */
	atomic_bool nameless;     /* its last name was removed by a request of ours        */
	uint64_t birth;           /* when the file was made (backing_look); 0: not known   */
	/*
	 * The inode cannot be found by its number any more, and never will be again: the next
	 * lookup of its file makes a new inode.
	 */
	atomic_bool detached;
	struct inode *next_detached, **detached_link;

	/* Covers all that follows; fs.h has its place in the lock order. */
	pthread_mutex_t lock;
	struct file *file;        /* its frame, while that is open                         */
	unsigned nopen;           /* users of `file`                                       */
	enum inode_busy busy;
	struct push *push;        /* a block of it is being pushed (ops/push.h); or NULL   */
	unsigned entering;        /* requests between push_enter and push_leave            */
	struct handle *handles;   /* open files and directories; each holds a reference    */
	struct inode_times times;
	/*
	 * How many changes of attributes and names there were, and how many of them are durable.
	 * The first stands for all those from before we knew the file: by an inode that the kernel
	 * has forgotten, by an earlier mount, or by another program. For a file that was made here,
	 * it is its name.
	 */
	_Atomic uint32_t attr_changes, attr_synced;
	bool made;                /* the file was created by a request of ours; fixed      */
	unsigned nwriters;        /* open handles that may write; changes of a plain file  */
	uint64_t cache_owner;     /* of its blocks in the cache; 0 none yet                */
	struct caps caps;         /* has a lock of its own                                 */
	_Atomic uint64_t listing_lasts; /* of a directory, meter_now: ops/dir.c            */
	bool suspect, latest;     /* as frame_suspect, frame_latest, of the last open frame */
	struct inode_sizes sizes;
	struct inode_seen seen;
	struct inode_kernel kernel;
	struct inode_told told;
};

/*
 * Borrows the backing directory. The process may have `limit` descriptors: at most a quarter of
 * them are kept open unused.
 */
NODISCARD int inodes_open(struct inodes **t, struct backing *b, unsigned long limit);
unsigned inodes_limit(const struct inodes *t);
void inodes_close(struct inodes *t);

/* The backing directory itself. It lives as long as the table, and is always pinned. */
struct inode *inodes_root(struct inodes *t);

/*
 * The inode of an entry of `parent`, created if it is not known, with a new reference; NULL: out of
 * memory. Takes e->fd even then; if that is -1, the file is opened by name when needed.
 */
struct inode *inode_from_entry(struct inodes *t, struct inode *parent, struct entry *e);

/* The inode of an entry if it is known, with a new reference; else NULL. */
struct inode *inode_known(struct inodes *t, const struct entry *e);

/*
 * True: the entry is not the file of inode `n`, although it has the same number: while the inode
 * had no descriptor, another program removed its file, and the number was reused.
 */
bool inode_is_other(struct inodes *t, const struct inode *n, const struct entry *e);

/*
 * overlayfs: a file of a lower layer that has several names is copied when one of them is written
 * to, under another number, and is that name's alone from then on.
 *
 * True: the number of the file behind the inode's descriptor has changed in this way, and the inode
 * has several names, so that it is not known which of them the copy has.
 */
bool inode_has_parted(struct inodes *t, const struct inode *n);

/* True: by number and type, these are the attributes of the inode's present file. */
bool inode_is_number(struct inodes *t, const struct inode *n, const struct stat *st);

/*
 * Call after anything that may have made such a copy: the inode takes over the number of the file
 * behind `fd`. -ESTALE: the inode has several names, and it is not known which is the copy's. It is
 * detached; when the kernel looks a name up again, as it does then, it gets another inode.
 */
NODISCARD int inode_renumber(struct inodes *t, struct inode *n, int fd);

/*
 * The inodes with open handles or a kept file (file/kept.h), chained by next_open; NULL: there are
 * none. For the end of the mount, when requests are no longer served.
 */
struct inode *inodes_all_open(struct inodes *t);

/* The kind under which a frame with this device and inode number is open; NODE_PLAIN: none is. */
enum node_kind inodes_open_kind(struct inodes *t, const struct stat *st);

/* The inode is no longer found by its number: the next lookup of the file makes a new inode. */
void inode_detach(struct inodes *t, struct inode *n);

/*
 * The same, since the kernel has a wrong size for this one: it trusts that whatever we reply, and
 * would pad what is read with zeros. Under n->lock.
 */
void inode_give_up(struct inodes *t, struct inode *n);

/*
 * True: it is detached, nobody has it open, and the kernel's size of it is wrong for good. Answered
 * with -ESTALE, the kernel looks the name up again, and finds the present inode. Under n->lock.
 */
bool inode_is_past(const struct inode *n);

/*
 * inode_get adds a reference, for a caller that has one. inode_put drops some, as the kernel
 * forgets many lookups at once; after the last one the inode is gone, and so may be its parents.
 * That can close the only descriptor of a removed file, which takes seconds if the file is large.
 * Not under n->lock, which is freed with the inode.
 */
void inode_get(struct inodes *t, struct inode *n);
void inode_put(struct inodes *t, struct inode *n, uint64_t refs);

/*
 * Makes sure that the inode has a descriptor, O_PATH or better, which stays open until inode_unpin.
 * Returns it; it stays the inode's, and inode_promote may change its kind. -ESTALE: the file has
 * lost its name, or the name is now that of another file. -EMFILE, and the errors of openat.
 */
NODISCARD int inode_pin(struct inodes *t, struct inode *n);
void inode_unpin(struct inodes *t, struct inode *n);

/*
 * The same for a directory, with a descriptor that can also be read, where permissions allow that.
 */
NODISCARD int inode_pin_reader(struct inodes *t, struct inode *n);

/*
 * Call before opening a descriptor that stays open as long as an application has a file or a
 * directory open. -EMFILE: the rest is reserved for requests that need one briefly, so that files
 * can still be looked up, renamed and removed; a part of that may also be used for directories, so
 * that they can still be listed.
 */
NODISCARD int inodes_room_for_file(struct inodes *t);
NODISCARD int inodes_room_for_dir(struct inodes *t);

/* Adjusts the count of such descriptors that do not belong to an inode. */
void inodes_others_add(struct inodes *t, int by);

/*
 * For an open frame: opens the inode's descriptor for reading or writing (`flags`: O_RDONLY or
 * O_RDWR) instead of O_PATH. Returns it; it keeps its number until inode_demote. The second form
 * takes over a descriptor of the file that is already open. -ESTALE: another program has given its
 * name to another file; the kernel then looks the name up, and asks again. -EAGAIN: another program
 * holds a lease on it (lease.h), and has been asked to give that up. Under n->lock: one at a time.
 */
NODISCARD int inode_promote(struct inodes *t, struct inode *n, int flags);
int inode_promote_to_take(struct inodes *t, struct inode *n, int fd);
void inode_demote(struct inodes *t, struct inode *n);

/*
 * True: the frame is open, and another program has given its name to another file, or removed it.
 * An open of the name is no longer meant for this inode.
 */
bool inode_was_replaced(struct inodes *t, struct inode *n);

/*
 * Enclose a request that removes or changes names, until the inodes have been told. Meanwhile a
 * name that does not match its inode is not blamed on another program.
 */
void inodes_rename_begin(struct inodes *t);
void inodes_rename_end(struct inodes *t);

/* How many such requests there have been; 0: one is under way. */
unsigned inodes_renames(const struct inodes *t);

/* Call when an inode has gained or lost a name in the backing directory. */
void inode_link_add(struct inodes *t, struct inode *n, struct inode *parent, const char *backing);
void inode_link_remove(struct inodes *t, struct inode *n, struct inode *parent,
		       const char *backing);

/*
 * Call after inode_from_entry, if names may have changed since the entry was found in `dirfd`: a
 * request that removed the name before the inode got it could not tell the inode. False: the name
 * was removed, and the inode does not have it.
 */
bool inode_link_check(struct inodes *t, struct inode *n, struct inode *parent, int dirfd,
		      const char *backing);

/*
 * Gives an O_PATH descriptor to an inode that has lost a name: without one it could never be opened
 * again, and its number might be given to another file. Where a descriptor may work only for the
 * name by which it was opened (FUSE), an inode that has another name is left without one, and the
 * next is opened by that name.
 */
void inode_keep_take(struct inodes *t, struct inode *n, int fd);

/*
 * Call when we have removed the last name of a file: its inode is nameless then, and so is one that
 * was detached, which may hold the file's space for longer.
 */
void inodes_removed(struct inodes *t, const struct entry *e);

/* How many such files are not closed yet. *when: meter_now of the last such removal; 0: none. */
unsigned inodes_nameless(const struct inodes *t, uint64_t *when);

/* The newest backing name of the inode, with its suffix; "" if it has none, as the root has. */
void inode_name(struct inodes *t, struct inode *n, char out[static NAME_MAX + 1]);

/*
 * For log lines: the newest name, and those of the directories above, from the backing directory
 * on ("a/b/x.b2frame"); "(deleted file)" or "(root directory)" in place of "". Of a path that is
 * too long the end is left, after ".../".
 */
#define INODE_LOG_NAME_MAX 1024
void inode_log_name(struct inodes *t, struct inode *n, char out[static INODE_LOG_NAME_MAX]);

/* True: more than `most` directories are above its newest name, counting the root of the mount. */
bool inode_is_deeper(struct inodes *t, const struct inode *n, unsigned most);

/* The newest name that an inode has in the backing directory, and where. */
struct named {
	struct inode *parent; /* a reference */
	int dirfd;            /* its descriptor, pinned */
	char name[NAME_MAX + 1];
};

/*
 * Sets *by, which is valid until inode_leave_name. -ESTALE: the inode has no name; otherwise as
 * inode_pin, which may have to open the parents first.
 */
NODISCARD int inode_enter_name(struct inodes *t, struct inode *n, struct named *by);
void inode_leave_name(struct inodes *t, const struct named *by);

static inline enum node_kind inode_kind(const struct inode *n)
{
	return (enum node_kind)n->key.kind;
}

static inline bool inode_is_frame(const struct inode *n)
{
	return n->key.kind != NODE_PLAIN;
}

#endif
