#include "fs/caps.h"

#include <errno.h>
#include <string.h>
#include <sys/xattr.h>

void caps_note(struct inode *n, struct view value)
{
	pthread_mutex_lock(&n->lock);
	/* Of a file that is not open, or longer than any kernel's: the backing file alone has them. */
	bool kept = n->file && value.n <= sizeof n->caps;
	n->ncaps = kept ? (uint8_t)value.n : 0;
	if (n->ncaps)
		memcpy(n->caps, value.p, value.n);
	pthread_mutex_unlock(&n->lock);
}

size_t caps_get(struct inode *n, struct span dst)
{
	pthread_mutex_lock(&n->lock);
	size_t len = n->ncaps;
	if (len && dst.n)
		memcpy(dst.p, n->caps, min_u64(len, dst.n));
	pthread_mutex_unlock(&n->lock);
	return len;
}

int caps_put_back(struct inode *n, int fd)
{
	int rc = 0;

	pthread_mutex_lock(&n->lock);
	if (n->ncaps && fgetxattr(fd, CAPS_XATTR, NULL, 0) < 0 && errno == ENODATA)
		rc = fsetxattr(fd, CAPS_XATTR, n->caps, n->ncaps, 0) < 0 ? -errno : 1;
	pthread_mutex_unlock(&n->lock);
	return rc;
}
