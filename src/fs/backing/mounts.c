#include "fs/backing/mounts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

bool mounts_open(struct mounts *m)
{
	*m = (struct mounts){.in = fopen("/proc/self/mountinfo", "re")};
	return m->in;
}

void mounts_close(struct mounts *m)
{
	free(m->line); /* of getline */
	fclose(m->in);
}

/* The kernel escapes spaces and the like, as a backslash and three octal digits. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (*s != '\\' || strlen(s) < 4) {
			*to++ = *s;
			continue;
		}
		*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
		s += 3;
	}
	*to = 0;
}

/* Terminates the field that begins at `s`, and unescapes it. */
static const char *field(char *s)
{
	s[strcspn(s, " \n")] = 0;
	unescape(s);
	return s;
}

/* id, parent, device, root, mount point, options, any number of fields, "-", type, source, ... */
static bool parse(char *line, struct mount_line *out)
{
	unsigned hi, lo;
	int at = 0;

	if (sscanf(line, "%" SCNu64 " %" SCNu64 " %u:%u %*s %n", &out->id, &out->parent, &hi, &lo,
		   &at) != 4 ||
	    !at)
		return false;
	char *type = strstr(line + at, " - fuse"), *source = type ? strchr(type + 3, ' ') : NULL;
	out->is_fuse = type != NULL;
	out->dev = makedev(hi, lo);
	out->source = source ? field(source + 1) : "";
	out->at = field(line + at);
	return true;
}

bool mounts_next(struct mounts *m, struct mount_line *out)
{
	while (getline(&m->line, &m->room, m->in) >= 0)
		if (parse(m->line, out))
			return true;
	return false;
}

bool mounts_find_fuse(struct mounts *m, dev_t dev, struct mount_line *out)
{
	while (mounts_next(m, out))
		if (out->dev == dev && out->is_fuse)
			return true;
	return false;
}

void mounts_rewind(struct mounts *m)
{
	rewind(m->in);
}
