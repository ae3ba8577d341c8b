#include "say.h"
#include "progress.h"

#include "base/err.h"

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/xattr.h>

char tool_printable(char c)
{
	return (unsigned char)c < ' ' || c == 127 ? '?' : c;
}

void tool_say(const char *format, ...)
{
	char text[PATH_MAX + 512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	for (char *p = text; *p; p++)
		*p = tool_printable(*p);
	progress_hold();
	fprintf(stderr, "cframe: %s\n", text);
	progress_go_on();
}

int tool_no_frame(const char *file)
{
	bool in_mount = getxattr(file, "user.cframefs.stored", NULL, 0) >= 0;
	tool_say("%s: is not a Blosc2 frame%s", file,
		 in_mount ? ", but the contents of one: name the frame in the backing directory"
			  : "");
	return 1;
}

int tool_fail(const char *file, int rc)
{
	char text[256];
	tool_say("%s: %s", file,
		 rc == -EISDIR ? "is a directory: name a file in it"
			       : err_text(rc, text, sizeof text));
	return 1;
}

int tool_busy(const char *file)
{
	tool_say("%s: is being written, and could not be read meanwhile", file);
	return 1;
}

void tool_bytes_text(double v, char out[static 16])
{
	static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB"};
	unsigned i = 0;
	while (v >= 999.95 && i < 5) {
		v /= 1000;
		i++;
	}
	snprintf(out, 16, i ? "%.1f %s" : "%.0f %s", v, unit[i]);
}
