#include "frame/names.h"

#include <string.h>
#include <sys/stat.h>

/* In order of precedence. */
static const struct {
	const char *text;
	enum suffix suffix;
	const char *shown; /* its replacement in the mount */
} suffixes[] = {
	{NAMES_NEW_SUFFIX, SUFFIX_FRAME, ""},
	{".b2f", SUFFIX_FRAME, ""},
	{".b2", SUFFIX_FRAME, ""},
	{NAMES_ARRAY_SUFFIX, SUFFIX_ARRAY, NAMES_ARRAY_SHOWN},
	{".b2lock", SUFFIX_LOCK, NULL},
};

#define NSUFFIXES (sizeof suffixes / sizeof *suffixes)

enum suffix suffix_of(const char *name, size_t *stem_len)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < NSUFFIXES; i++) {
		size_t s = strlen(suffixes[i].text);
		bool whole = n == s && suffixes[i].suffix == SUFFIX_LOCK; /* ".b2lock" itself */
		if ((n > s || whole) && strcmp(name + n - s, suffixes[i].text) == 0) {
			*stem_len = n - s;
			return suffixes[i].suffix;
		}
	}
	*stem_len = n;
	return SUFFIX_NONE;
}

const char *names_suffix(const char *backing)
{
	size_t stem;
	(void)suffix_of(backing, &stem);
	return backing + stem;
}

const char *names_frame_suffix(unsigned i)
{
	return suffixes[i].suffix == SUFFIX_FRAME ? suffixes[i].text : NULL;
}

bool names_join(char out[static NAME_MAX + 1], const char *stem, size_t n, const char *suffix)
{
	size_t s = strlen(suffix);
	if (n + s > NAME_MAX)
		return false;
	memcpy(out, stem, n);
	memcpy(out + n, suffix, s + 1);
	return true;
}

enum node_kind names_may_be(const char *backing, mode_t type)
{
	size_t stem;
	enum suffix suffix = suffix_of(backing, &stem);

	if (S_ISDIR(type))
		return suffix == SUFFIX_FRAME ? NODE_SPARSE : NODE_PLAIN;
	if (!S_ISREG(type))
		return NODE_PLAIN;
	return suffix == SUFFIX_FRAME	? NODE_FRAME
	       : suffix == SUFFIX_ARRAY ? NODE_ARRAY
					: NODE_PLAIN;
}

bool names_is_draft(const char *backing)
{
	size_t n = sizeof NAMES_DRAFT - 1;
	return strncmp(backing, NAMES_DRAFT, n) == 0 && strlen(backing + n) == 16 &&
	       strspn(backing + n, "0123456789abcdef") == 16;
}

bool names_hides(const char *backing, mode_t type)
{
	size_t stem;
	if (strcmp(backing, NAMES_INTENT) == 0)
		return true;
	if (names_is_draft(backing))
		return S_ISREG(type) || S_ISLNK(type);
	return S_ISREG(type) && suffix_of(backing, &stem) == SUFFIX_LOCK;
}

bool names_is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

bool names_claim(enum node_kind kind, const char *backing, char out[static NAME_MAX + 1])
{
	size_t stem;

	(void)suffix_of(backing, &stem);
	switch (kind) {
	case NODE_FRAME:
	case NODE_SPARSE: return names_join(out, backing, stem, "") && !names_is_dots(out);
	case NODE_ARRAY: return names_join(out, backing, stem, NAMES_ARRAY_SHOWN);
	case NODE_PLAIN: break;
	}
	return false;
}

bool names_claimant(const char *shown, unsigned i, char backing[static NAME_MAX + 1])
{
	if (i >= NSUFFIXES || !suffixes[i].shown)
		return false;
	size_t n = strlen(shown), s = strlen(suffixes[i].shown);
	bool fits = n > s && strcmp(shown + n - s, suffixes[i].shown) == 0;
	if (!fits || !names_join(backing, shown, n - s, suffixes[i].text))
		backing[0] = 0;
	return true;
}

int names_for(enum node_kind kind, mode_t type, const char *suffix, const char *shown,
	      char backing[static NAME_MAX + 1])
{
	const size_t ending = strlen(NAMES_ARRAY_SHOWN);
	size_t len = strlen(shown), stem;

	/* The same limit for all kinds: statfs promises it, and it holds across renames. */
	if (len > NAMES_MAX)
		return -ENAMETOOLONG;
	if (strcmp(shown, NAMES_MACHINES) == 0)
		return -EPERM;
	switch (kind) {
	case NODE_FRAME:
	case NODE_SPARSE:
		return names_join(backing, shown, len, suffix) ? 0 : -ENAMETOOLONG;
	case NODE_ARRAY:
		if (len <= ending || strcmp(shown + len - ending, NAMES_ARRAY_SHOWN) != 0)
			return -EXDEV;
		return names_join(backing, shown, len - ending, suffix) ? 0 : -ENAMETOOLONG;
	case NODE_PLAIN:
		break;
	}
	if (strcmp(shown, NAMES_INTENT) == 0)
		return -EPERM;
	if (names_is_draft(shown) || (S_ISREG(type) && suffix_of(shown, &stem) != SUFFIX_NONE))
		return -EXDEV;
	return names_join(backing, shown, len, "") ? 0 : -ENAMETOOLONG;
}
