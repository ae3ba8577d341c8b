/*
 * Which bytes of the file may be written. A root is a header that is, or may be,
 * on disk; what a root refers to is never overwritten. Everything below `end` belongs to
 * some root, is garbage of an older one, or is on the list here: handed out since the last
 * root and not (yet) part of one. Only those come back into use; garbage of older
 * roots is not tracked yet.
 */
#ifndef FRAME_EXTENT_H
#define FRAME_EXTENT_H

#include "base/bytes.h"
#include "base/err.h"

enum extent_state {
	EXTENT_LENT, /* handed out, perhaps being written               */
	EXTENT_PUT,  /* will be part of the next root                   */
	EXTENT_FREE, /* was never part of a root: may be handed out     */
};

struct space_extent {
	uint64_t at;
	uint64_t len;
	enum extent_state state;
};

struct space {
	uint64_t end;  /* first byte behind everything in use       */
	uint64_t high; /* how far the file may reach                */
	uint32_t nlent;
	uint32_t n, cap;
	struct space_extent *list;
};

void space_init(struct space *sp, uint64_t end);
void space_deinit(struct space *sp);

/* Room for len bytes, EXTENT_LENT: anywhere, or behind everything else. */
NODISCARD int space_take(struct space *sp, uint64_t len, uint64_t *at);
NODISCARD int space_take_end(struct space *sp, uint64_t len, uint64_t *at);

/* LENT becomes PUT. */
void space_put(struct space *sp, uint64_t at, uint64_t len);

/* LENT becomes FREE. */
void space_give(struct space *sp, uint64_t at, uint64_t len);

/* No longer wanted in the next root. FREE if it was PUT since the last root, else nothing. */
void space_drop(struct space *sp, uint64_t at);

/* A root is on disk, or may be: what was PUT belongs to it. */
void space_root(struct space *sp);

/* Nothing at or behind `end` is in use any more. Nothing may be LENT. */
void space_cut(struct space *sp, uint64_t end);

#endif
