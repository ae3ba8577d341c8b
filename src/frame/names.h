/*
 * What an entry of a backing directory is called elsewhere. The suffix says what it may be, its
 * content what it is (enum node_kind); both say which name it claims:
 *
 *   x.b2frame, x.b2f, x.b2   a frame              x
 *   x.b2nd                   an array             x.npy
 *   x.b2frame/               a sparse frame       x
 *   *.b2lock                 lock sidecars        hidden
 *   .cframefs-intent         the intent log       hidden
 *   .cframe-0123456789abcdef what is being made   hidden
 *   anything else            itself               itself
 *
 * Several entries may claim one name. It goes to the first of: the entry that has exactly this name
 * (unless it is itself shown under another), .b2frame, .b2f, .b2, .b2nd. The others are shown under
 * their own names, as plain bytes: no entry ever hides another.
 */
#ifndef FRAME_NAMES_H
#define FRAME_NAMES_H

#include "base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define NAMES_INTENT ".cframefs-intent"
#define NAMES_NEW_SUFFIX ".b2frame"
#define NAMES_DRAFT ".cframe-" /* and 16 hexadecimal digits: files that tools are making */

enum node_kind {
	NODE_PLAIN,  /* passed through: any file that is not a frame, and directories */
	NODE_FRAME,  /* contiguous frame: its bytes                                   */
	NODE_ARRAY,  /* frame with a b2nd metalayer: an .npy file, read-only          */
	NODE_SPARSE, /* directory of a sparse frame: a file, read-only                */
};

/* How a name ends, and the length of what is before that. */
enum suffix { SUFFIX_NONE, SUFFIX_FRAME, SUFFIX_ARRAY, SUFFIX_LOCK };
enum suffix suffix_of(const char *name, size_t *stem_len);

/* What an entry of that type may be besides NODE_PLAIN, which that is as well. */
enum node_kind names_may_be(const char *backing, mode_t type);

/* True: that of a file that a tool is making, or left unfinished when it was killed. */
bool names_is_draft(const char *backing);

/* True: it is not for users. */
bool names_hides(const char *backing, mode_t type);

/* The name that an entry of that kind claims. False: none but its own. */
bool names_claim(enum node_kind kind, const char *backing, char out[static NAME_MAX + 1]);

/*
 * The i-th name, in order of precedence, of an entry that could claim `shown`; "": such a name is
 * too long, or `shown` does not end as it would have to. False: there is no i-th.
 */
bool names_claimant(const char *shown, unsigned i, char backing[static NAME_MAX + 1]);

/* Joins a stem of n bytes and a suffix; false when it gets too long to exist. */
bool names_join(char out[static NAME_MAX + 1], const char *stem, size_t n, const char *suffix);

#endif
