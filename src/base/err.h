/*
 * One error shape for the whole project: a function that can fail returns
 * 0 or a length on success and a negative errno on failure.
 *
 *   -EBADMSG   bytes that break the format; raised only through CORRUPT
 *   -ENOTSUP   a legal form that is not built in; raised through UNSUPPORTED
 *   -E2BIG     needs more memory than its bound (codec/scratch.h, fs/large.h)
 *   -EFBIG     more than a frame can hold
 *   -ESTALE    another program has written the file
 *   -ENOMEM, -EINVAL, -EIO, -ENOSPC, -EROFS, ... as everywhere else
 *
 * CORRUPT and UNSUPPORTED record a note for the calling thread: where in the source the check is,
 * what was wrong, and the offending number. The layer that turns the error into a reply logs the
 * note together with the file.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#define NODISCARD __attribute__((warn_unused_result))

/* Forwards a failure to the caller. */
#define TRY(expr)                                                              \
	do {                                                                   \
		int try_rc_ = (int)(expr);                                     \
		if (try_rc_ < 0)                                               \
			return try_rc_;                                        \
	} while (0)

/* For the few failures that nothing can be done about; a comment says why. */
#define IGNORE(expr)                                                           \
	do {                                                                   \
		if (expr) {                                                    \
		}                                                              \
	} while (0)

/* True: the disk is full, a quota exceeded, or the file as long as it may get there. */
static inline bool err_is_full(int rc)
{
	return rc == -ENOSPC || rc == -EDQUOT || rc == -EFBIG;
}

struct err_note {
	const char *file; /* source file and line of the check; NULL: no note */
	int line;
	const char *what; /* a literal, such as "block ends past the chunk" */
	int64_t value;    /* the offending number: an offset, a size, an id  */
};

/* Both record a note for this thread; the first returns -EBADMSG, the second -ENOTSUP. */
int err_corrupt(const char *file, int line, const char *what, int64_t value);
int err_unsupported(const char *file, int line, const char *what, int64_t value);

#define CORRUPT(what, value) err_corrupt(__FILE__, __LINE__, (what), (int64_t)(value))
#define UNSUPPORTED(what, value) err_unsupported(__FILE__, __LINE__, (what), (int64_t)(value))

/* Why an input was refused: a phrase or a sentence for the user. */
struct err_reason {
	char text[160];
};

/* Prints the reason to *why, unless that is NULL. Returns -EINVAL. */
__attribute__((format(printf, 2, 3))) int err_refuse(struct err_reason *why, const char *fmt, ...);

/* The newest note of this thread. Valid until the next one is recorded. */
const struct err_note *err_last(void);

/* Takes over the note of another thread whose failure this thread reports, too. */
void err_repeat(const struct err_note *other);

/* Forgets the note, so that a later failure without one is not explained by it. */
void err_clear(void);

/*
 * A phrase for a log line: the note, if `rc` is -EBADMSG or -ENOTSUP and there is one; "corrupt"
 * for -EBADMSG without a note; otherwise the text of errno. Returns `out`.
 */
#define ERR_TEXT_MAX 256
const char *err_text(int rc, char out[static ERR_TEXT_MAX]);

#endif
