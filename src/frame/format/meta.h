/*
 * Metalayers: names and opaque contents, in the header (fixed size) or in the
 * trailer (variable length). FORMAT.md 9.2, 9.5.
 */
#ifndef FRAME_FORMAT_META_H
#define FRAME_FORMAT_META_H

#include "base/bytes.h"
#include "base/err.h"

#define META_NAME_MAX 31
#define META_MAX 16     /* in a header  */
#define META_VL_MAX 8192 /* in a trailer */

struct meta_entry {
	char name[META_NAME_MAX + 1]; /* NUL-terminated */
	struct view content;          /* borrowed from the section */
};

struct meta {
	uint32_t n;
	struct meta_entry *entry;
};

/*
 * Parses the map at byte `at` of a section, which is a whole header or trailer; offsets in the map
 * count from the section's first byte. *m borrows the section. Call meta_deinit on it even if this
 * fails.
 */
NODISCARD int meta_parse(struct meta *m, struct view section, size_t at, uint32_t max);
void meta_deinit(struct meta *m);

/* NULL: no such name. */
const struct meta_entry *meta_find(const struct meta *m, const char *name);

#endif
