/*
 * Names in the backing directory and in the mount. The suffix of an entry says what it may be, its
 * content what it is (enum node_kind); both determine the name that it claims:
 *
 *   x.b2frame, x.b2f, x.b2   a frame              x
 *   x.b2nd                   an array             x.npy
 *   x.b2frame/, ...          a sparse frame       x
 *   *.b2lock                 lock sidecars        hidden
 *   .cframefs-intent         the intent log       hidden
 *   .cframe-0123456789abcdef unfinished files     hidden, and symlinks
 *   anything else            itself               itself
 *
 * If several entries claim one name, it goes to the first of: the entry that has exactly this name
 * (unless it is itself shown under a different one), .b2frame, .b2f, .b2, .b2nd. The others are
 * shown under their own names, as plain bytes: no entry ever hides another.
 */
#ifndef FRAME_NAMES_H
#define FRAME_NAMES_H

#include "base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define NAMES_INTENT ".cframefs-intent"
#define NAMES_MACHINES NAMES_INTENT ".b2lock" /* the lock file of fs/backing/machines.h */
#define NAMES_SPARSE_INDEX "chunks.b2frame" /* in the directory of a sparse frame */
#define NAMES_NEW_SUFFIX ".b2frame"
#define NAMES_ARRAY_SUFFIX ".b2nd"
#define NAMES_ARRAY_SHOWN ".npy" /* replaces it in the mount */
#define NAMES_MAX (NAME_MAX - 8) /* what the suffix leaves of 255; statfs reports it */
#define NAMES_DRAFT ".cframe-" /* and 16 hexadecimal digits: a file that a tool is making */

enum node_kind {
	NODE_PLAIN,  /* passed through: any file that is not a frame, and directories */
	NODE_FRAME,  /* contiguous frame: its bytes                                   */
	NODE_ARRAY,  /* frame with a b2nd metalayer: an .npy file, read-only          */
	NODE_SPARSE, /* directory of a sparse frame: a file, read-only                */
};

/* How a name ends. *stem_len: the length of the part before the suffix. */
enum suffix { SUFFIX_NONE, SUFFIX_FRAME, SUFFIX_ARRAY, SUFFIX_LOCK };
enum suffix suffix_of(const char *name, size_t *stem_len);

/* ".b2f" of "x.b2f"; "" where there is none. */
const char *names_suffix(const char *backing);

/* The i-th suffix of a frame, in order of precedence; NULL: there is none. */
const char *names_frame_suffix(unsigned i);

/*
 * The kind that an entry of file type `type` may be by its name, besides NODE_PLAIN, which is
 * always possible.
 */
enum node_kind names_may_be(const char *backing, mode_t type);

/* True: "." or "..". */
bool names_is_dots(const char *name);

/* True: the name of a file or link that a tool is making, or left behind when it was killed. */
bool names_is_draft(const char *backing);

/* True: the entry is not shown to users. */
bool names_hides(const char *backing, mode_t type);

/* The name that an entry of this kind claims. False: only its own. */
bool names_claim(enum node_kind kind, const char *backing, char out[static NAME_MAX + 1]);

/*
 * The i-th backing name, in order of precedence, that could claim `shown`. "": that name would be
 * too long, or `shown` lacks the ending it would need. False: there is no i-th.
 */
bool names_claimant(const char *shown, unsigned i, char backing[static NAME_MAX + 1]);

/*
 * The backing name for an entry of this kind that is to be shown as `shown`. `suffix`: the one it
 * has now, or NAMES_NEW_SUFFIX. -ENAMETOOLONG. -EXDEV: such an entry cannot have that name (an
 * array without .npy, a plain file named like a frame, anything but a frame named like a draft).
 * -EPERM: that name is reserved for the intent log, or for the lock that other machines see.
 */
NODISCARD int names_for(enum node_kind kind, mode_t type, const char *suffix, const char *shown,
			char backing[static NAME_MAX + 1]);

/* Joins a stem of n bytes and a suffix. False: the result is too long for a name. */
bool names_join(char out[static NAME_MAX + 1], const char *stem, size_t n, const char *suffix);

#endif
