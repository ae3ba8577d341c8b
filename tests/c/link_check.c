/*
 * A name that a request gives back to its inode stays with the inode, although a lookup has found
 * meanwhile that it was gone.
 */
#include "fs/inode/inode.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static struct inodes *t;
static struct inode *n;
static int top;
static bool gone;

/* Like a rename to another name and back, whose second half comes right after the first look. */
static void give_back(void)
{
	gone = false;
	if (renameat(top, "b", top, "a") < 0)
		perror("renameat");
	inode_link_add(t, n, inodes_root(t), "a");
	inode_link_remove(t, n, inodes_root(t), "b");
}

/* Replaces the C library's. */
int fstatat(int dir, const char *restrict name, struct stat *restrict st, int flags)
{
	if (flags & AT_EMPTY_PATH)
		return fstat(dir, st);
	int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int error = errno, rc = fd < 0 ? -1 : fstat(fd, st);
	if (fd >= 0)
		close(fd);
	if (gone)
		give_back();
	errno = error;
	return rc;
}

uint64_t backing_birth(int fd)
{
	return 0;
}

int backing_stat_wide(int fd, struct stat *st)
{
	return fstat(fd, st) < 0 ? -errno : 0;
}

/* Nothing here opens an inode by its name. */
int backing_find(const struct backing *b, int dir, const char *name, struct stat *st,
		 uint64_t *birth)
{
	return -EIO;
}

int backing_reopen(const struct backing *b, int fd, int flags)
{
	return -EIO;
}

int main(int argc, char **argv)
{
	struct entry e = {.backing = "a", .fd = -1};
	char name[NAME_MAX + 1];

	top = argc == 2 ? open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	struct backing b = {.root = top, .proc = -1};
	int fd = openat(top, "b", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 || fstat(fd, &e.st) < 0 || inodes_open(&t, &b, 100) < 0)
		return 2;
	n = inode_from_entry(t, inodes_root(t), &e); /* a lookup's: it was "a" then */
	inode_link_add(t, n, inodes_root(t), "b");
	gone = true;
	bool kept = inode_link_check(t, n, inodes_root(t), top, "a");
	inode_name(t, n, name);
	inode_put(t, n, 1);
	inodes_close(t);
	close(fd);
	close(top);
	if (!kept || strcmp(name, "a") != 0)
		fprintf(stderr, "%s; the inode's name: '%s'\n", kept ? "kept" : "taken away", name);
	return !kept || strcmp(name, "a") != 0;
}
