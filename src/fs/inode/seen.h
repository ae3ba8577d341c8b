/*
 * How changes by other programs are noticed: the attributes that the backing file was last seen to
 * have (struct inode_seen) are compared with those of now. All are called under n->lock.
 */
#ifndef FS_INODE_SEEN_H
#define FS_INODE_SEEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct inode;

/*
 * The attributes after our own last change or open, or when the file was first looked up. If they
 * were younger than a step of the file system's clock, a later change may have left them the same:
 * from `unsure` on they prove nothing, until they are looked at later, or a commit sets them.
 */
struct inode_seen {
	struct stat st;  /* st_ino 0: not yet */
	uint64_t unsure; /* meter_now; 0: not unsure */
	bool unread;     /* the change that they show could not be read yet; an open clears it */
};

/* True: it was seen before. */
bool seen_any(const struct inode *n);

/* True: it was seen before, and has the same size and mtime. */
bool seen_is_same(const struct inode *n, const struct stat *st);

/* The same for what a descriptor of the file shows now. */
bool seen_holds(const struct inode *n, int fd);

/*
 * True: another program may have changed the file: size or mtime differ, or are the same but so
 * young that a later change may have kept them. Never while a change of ours waits for its commit.
 */
bool seen_is_foreign(const struct inode *n, const struct stat *st);

/* True: it was seen before with these attributes, and they are no longer that young. */
bool seen_is_settled(const struct inode *n, const struct stat *st);

/*
 * Notes the attributes for later comparisons, as they were found. Get them before reading the
 * content, so that a change in between shows.
 */
void seen_note(struct inode *n, const struct stat *st);

/* The same where the caller knows whether a later change may have left them the same. */
void seen_set(struct inode *n, const struct stat *st, bool doubt);

/* The same after a change of ours that is no commit: if they were unsure, they still are. */
void seen_ours(struct inode *n, const struct stat *st);

#endif
