/*
 * The inodes that the kernel knows or that are open: lookup counts, names,
 * descriptors, times.
 *
 * An inode lives while the kernel holds lookups on it, a child or an open
 * file refers to it; inode_put is the only eraser and decides under the table
 * lock. Descriptors are a cache, because their number is limited and that of
 * inodes is not: inode_pin opens one by name when it is not there and checks that it
 * still is the same file; the least recently used are closed. While a frame is open its
 * descriptor is the inode's and stays.
 */
#ifndef FS_INODE_H
#define FS_INODE_H

#include "base/hash.h"
#include "fs/names.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct file;
struct handle;
struct inodes;

/* A name of an inode. A directory has one, a file as many as were looked up. */
struct link {
	struct link *next;
	struct inode *parent; /* a reference */
	char backing[];
};

struct inode_key {
	dev_t dev;
	ino_t ino;
	uint64_t kind; /* enum node_kind: a hard link may be seen as bytes and as a frame */
};

/*
 * Times of the application's last change, when they are not those of the
 * backing file: `pending` until a commit has set mtime; ctime can't be set, so it is remembered
 * for as long as the backing ctime is the one that our own commit caused.
 */
struct inode_times {
	struct timespec mtime, ctime, backing_ctime;
	bool pending, shadow;
	/* while pending: the mtime is not that of the file before, and waits for the commit */
	bool given;
};

/* File capabilities while our own writes are under way (caps.h). */
struct caps {
	pthread_mutex_t lock; /* innermost; no_caps_until changes under it */
	bool held;            /* since our own first write */
	size_t n;             /* 0: it had none then */
	uint8_t value[24];
};

struct inode {
	struct inode_key key;
	UT_hash_handle hh;        /* table lock, as all down to pins */
	uint64_t refs;
	struct link *links;
	struct inode *lru_newer, *lru_older;
	struct inode *next_orphan; /* while being erased */
	int fd;                   /* O_PATH or, while `promoted`, a real one; -1 none */
	unsigned pins;
	bool promoted;
	/* of the file, from when its descriptor was closed first; 0 not known */
	uint64_t birth;
	struct inode *next_detached, **detached_link;

	atomic_bool detached;     /* not in the table any more; changes under table lock */
	mode_t type;              /* S_IFMT bits of the backing file; fixed */

	pthread_mutex_t lock;     /* for what follows; taken after no other but the gate */
	struct file *file;        /* open frame */
	unsigned nopen;           /* users of `file` */
	struct handle *handles;   /* open files and directories; a reference each */
	struct inode_times times;
	/* of attributes and names: as many as there were, and as the disk has for sure */
	_Atomic uint32_t attr_changes, attr_synced;
	uint64_t cache_owner;     /* of its blocks in the cache; 0 none yet */
	uint64_t kernel_owner;    /* cache_owner when the kernel's pages were last known good */
	_Atomic uint64_t no_caps_until; /* caps.h */
	struct caps caps;         /* has a lock of its own */
	struct timespec no_acl;   /* the backing ctime at which it had none */
	unsigned nwriters;        /* open handles that may write */
	/* another program changed it: the kernel has old size and times */
	bool mistaken;
	bool told_torn;           /* its recovery has been logged */
	bool suspect;             /* frame_suspect of the frame that was open last */
	uint64_t last_size;       /* of the frame that was open last */
	/*
	 * Backing attributes after our last own change or open, or when it was looked up first. A
	 * change may have left them as they are: from `unsure` (meter_now) on they are not
	 * believed.
	 */
	struct stat seen;
	uint64_t unsure;          /* 0: it has not */
	bool untold;              /* the kernel could not be told how long it has become */
};

NODISCARD int inodes_open(struct inodes **t, struct backing *b, unsigned max_fds);
void inodes_close(struct inodes *t);

struct inode *inodes_root(struct inodes *t);

/*
 * The inode of an entry found in `parent`; a new reference. Takes e->fd in
 * every case; -1: it will be opened by name. NULL without memory.
 */
struct inode *inode_from_entry(struct inodes *t, struct inode *parent, struct entry *e);

/* The one that is known already, with a new reference, or NULL. */
struct inode *inode_known(struct inodes *t, const struct entry *e);

/*
 * True: the entry is another file than the inode with its number. While the inode had no descriptor
 * its file was removed on the backing side, and the number given away.
 */
bool inode_is_other(struct inodes *t, const struct inode *n, const struct entry *e);

/* Any inode that has open handles, or NULL; for the end, when the kernel has gone. */
struct inode *inodes_any_open(struct inodes *t);

/*
 * The kind that an open frame of this device and inode number is seen as; NODE_PLAIN: none is open.
 */
enum node_kind inodes_open_kind(struct inodes *t, const struct stat *st);

/* No longer found by device and inode number: what comes next under them is another inode. */
void inode_detach(struct inodes *t, struct inode *n);

void inode_get(struct inodes *t, struct inode *n);
void inode_put(struct inodes *t, struct inode *n, uint64_t refs);

/* A descriptor that stays open until inode_unpin. -ESTALE when the name is gone or another's. */
NODISCARD int inode_pin(struct inodes *t, struct inode *n);
void inode_unpin(struct inodes *t, struct inode *n);

/*
 * Makes the inode's descriptor a real one (O_RDONLY or O_RDWR), or a better one,
 * for an open frame; it keeps its number until inode_demote. Returns it.
 */
NODISCARD int inode_promote(struct inodes *t, struct inode *n, int flags);
int inode_promote_to_take(struct inodes *t, struct inode *n, int fd);
void inode_demote(struct inodes *t, struct inode *n);

/* Names that came and went in the backing directory. */
void inode_link_add(struct inodes *t, struct inode *n, struct inode *parent, const char *backing);
void inode_link_remove(struct inodes *t, struct inode *n, struct inode *parent,
		       const char *backing);

/*
 * An O_PATH descriptor of an inode that lost a name: without any it could never be opened again,
 * and its number would be given to another file.
 */
void inode_keep_take(struct inodes *t, struct inode *n, int fd);

/* A name of the inode for log lines, and its suffix; "" when it has none left. */
void inode_name(struct inodes *t, struct inode *n, char out[static NAME_MAX + 1]);

/* Any known parent and backing name; 0 or -ENOENT. The parent comes with a reference. */
NODISCARD int inode_any_link(struct inodes *t, struct inode *n, struct inode **parent,
			     char backing[static NAME_MAX + 1]);

static inline enum node_kind inode_kind(const struct inode *n)
{
	return (enum node_kind)n->key.kind;
}

static inline bool inode_is_frame(const struct inode *n)
{
	return n->key.kind != NODE_PLAIN;
}

#endif
