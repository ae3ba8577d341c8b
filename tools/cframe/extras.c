#include "extras.h"

#include "base/bytes.h"
#include "frame/policy/wish.h"

#include <sys/xattr.h>

#define ACL_ACCESS "system.posix_acl_access"
#define ACL_DEFAULT "system.posix_acl_default"

/*
 * True: the attribute is copied. ACLs are: the mode alone would give the owning group what an ACL's
 * mask allows others. Labels of a security module are the system's business, and attributes that
 * describe a frame do not belong to the file.
 */
static bool is_kept(const char *name)
{
	static const char *const whole[] = {ACL_ACCESS, ACL_DEFAULT, "security.capability"};

	for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
		if (strcmp(name, whole[i]) == 0)
			return true;
	return strncmp(name, "user.", 5) == 0 &&
	       strncmp(name, WISH_PREFIX, sizeof WISH_PREFIX - 1) != 0;
}

/* Loads the list of names, each with its NUL. Those that are added meanwhile may be missing. */
static int load_names(int fd, struct buf *names)
{
	ssize_t n;

	do {
		if ((n = flistxattr(fd, NULL, 0)) <= 0)
			break;
		TRY(buf_reserve(names, (size_t)n));
		n = flistxattr(fd, (char *)names->p, (size_t)n);
	} while (n < 0 && errno == ERANGE);
	if (n < 0 && errno != EOPNOTSUPP)
		return -errno;
	names->n = n > 0 ? (size_t)n : 0;
	return 0;
}

/* Appends the name, the length of the value, and the value. */
static int load_one(int fd, const char *name, struct buf *value, struct buf *all)
{
	ssize_t n = fgetxattr(fd, name, value->p, value->n);

	if (n < 0)
		return errno == ENODATA ? 0 : -errno;
	uint32_t len = (uint32_t)n;
	TRY(buf_append(all, view_of(name, strlen(name) + 1)));
	TRY(buf_append(all, view_of(&len, sizeof len)));
	return buf_append(all, view_of(value->p, len));
}

static int load(int fd, const struct buf *names, struct buf *all)
{
	struct buf value = {0};
	int rc = names->n ? buf_reserve(&value, XATTR_SIZE_MAX) : 0;

	value.n = XATTR_SIZE_MAX;
	for (size_t at = 0; rc == 0 && at < names->n;) {
		const char *name = (const char *)names->p + at;
		if (is_kept(name))
			rc = load_one(fd, name, &value, all);
		at += strlen(name) + 1;
	}
	buf_free(&value);
	return rc;
}

void extras_load(struct extras *x, int fd)
{
	struct buf names = {0};

	x->rc = load_names(fd, &names);
	if (x->rc == 0)
		x->rc = load(fd, &names, &x->all);
	buf_free(&names);
}

/* False: a user who may not set capabilities does without, as with the owner. */
static bool matters(const char *name, int error)
{
	return error != EPERM || strcmp(name, "security.capability") != 0;
}

static bool has(const struct extras *x, const char *wanted)
{
	for (size_t at = 0; at < x->all.n;) {
		const char *name = (const char *)x->all.p + at;
		uint32_t len;

		if (strcmp(name, wanted) == 0)
			return true;
		at += strlen(name) + 1;
		memcpy(&len, x->all.p + at, sizeof len);
		at += sizeof len + len;
	}
	return false;
}

/*
 * An ACL inherited from the directory, or left by an earlier run, would grant more than it should.
 */
static void remove_acl(struct extras *x, int fd, const char *name)
{
	bool other = !has(x, name) && fgetxattr(fd, name, NULL, 0) >= 0;
	if (other && fremovexattr(fd, name) < 0 && errno != ENODATA && x->rc == 0)
		x->rc = -errno;
}

bool extras_are_those_of(const struct extras *x, int fd)
{
	struct extras now = {0};
	extras_load(&now, fd);
	bool same = now.rc == x->rc && now.all.n == x->all.n &&
		    (!now.all.n || memcmp(now.all.p, x->all.p, now.all.n) == 0);
	extras_free(&now);
	return same;
}

static void give(struct extras *x, int fd, bool acls)
{
	for (size_t at = 0; at < x->all.n;) {
		const char *name = (const char *)x->all.p + at;
		bool is_acl = strcmp(name, ACL_ACCESS) == 0 || strcmp(name, ACL_DEFAULT) == 0;
		uint32_t len;

		at += strlen(name) + 1;
		memcpy(&len, x->all.p + at, sizeof len);
		at += sizeof len;
		if (is_acl == acls && fsetxattr(fd, name, x->all.p + at, len, 0) < 0 &&
		    matters(name, errno) && x->rc == 0)
			x->rc = -errno;
		at += len;
	}
}

void extras_give(struct extras *x, int fd)
{
	remove_acl(x, fd, ACL_ACCESS);
	remove_acl(x, fd, ACL_DEFAULT);
	give(x, fd, false);
	give(x, fd, true); /* last: an ACL may deny the owner to write the others */
}

void extras_free(struct extras *x)
{
	buf_free(&x->all);
}
