#include "base/err.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct err_note note;

static int note_set(const char *file, int line, const char *what, int64_t value, int rc)
{
	const char *slash = strrchr(file, '/');
	note = (struct err_note){
		.file = slash ? slash + 1 : file, .line = line, .what = what, .value = value};
	return rc;
}

int err_corrupt(const char *file, int line, const char *what, int64_t value)
{
	return note_set(file, line, what, value, -EBADMSG);
}

int err_unsupported(const char *file, int line, const char *what, int64_t value)
{
	return note_set(file, line, what, value, -ENOTSUP);
}

int err_refuse(struct err_reason *why, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (why)
		vsnprintf(why->text, sizeof why->text, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

const struct err_note *err_last(void)
{
	return &note;
}

void err_repeat(const struct err_note *other)
{
	note = *other;
}

void err_clear(void)
{
	note = (struct err_note){0};
}

const char *err_text(int rc, char out[static ERR_TEXT_MAX])
{
	if ((rc == -EBADMSG || rc == -ENOTSUP) && note.file) {
		snprintf(out, ERR_TEXT_MAX, "%s%s (%" PRId64 ") [%s:%d]",
			 rc == -ENOTSUP ? "not supported: " : "corrupt: ", note.what, note.value,
			 note.file, note.line);
		return out;
	}
	const char *text;
	if (rc == -EBADMSG)
		text = "corrupt";
	else if (rc == -E2BIG) /* not the system's "Argument list too long" */
		text = "it takes more memory than the options allow";
	else /* GNU strerror_r may return a static text and not touch `out` */
		text = strerror_r(rc < 0 ? -rc : rc, out, ERR_TEXT_MAX);
	if (text != out)
		snprintf(out, ERR_TEXT_MAX, "%s", text);
	return out;
}
