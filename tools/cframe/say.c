#include "say.h"
#include "mounts.h"
#include "progress.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/utf8.h"
#include "frame/names.h"

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

void tool_say(const char *format, ...)
{
	char cut[1024];
	struct buf all = {0}; /* a path in it may be longer than PATH_MAX */
	va_list args, again;

	va_start(args, format);
	va_copy(again, args);
	bool whole = buf_vprint(&all, format, args) >= 0 && buf_append(&all, view_of("", 1)) >= 0;
	if (!whole) /* no memory */
		vsnprintf(cut, sizeof cut, format, again);
	va_end(again);
	va_end(args);
	char *text = whole ? (char *)all.p : cut;
	utf8_make_printable(text);
	progress_hold();
	fprintf(stderr, "cframe: %s\n", text);
	progress_go_on();
	buf_free(&all);
}

void tool_print_line(const char *text)
{
	bool obeyed;

	for (size_t n; *text; text += n) {
		n = utf8_step((const uint8_t *)text, &obeyed);
		fwrite(obeyed ? "?" : text, obeyed ? 1 : n, 1, stdout);
	}
}

const char *tool_name_text(const char *name)
{
	return *name ? name : "''";
}

void tool_print_path(const char *path)
{
	path = tool_name_text(path);
	if (isatty(STDOUT_FILENO))
		tool_print_line(path);
	else
		fputs(path, stdout);
}

int tool_print_json(const cJSON *tree, enum json_form form)
{
	char *text = form == JSON_LINE ? cJSON_PrintUnformatted(tree) : cJSON_Print(tree);

	if (!text)
		return -ENOMEM;
	for (uint8_t *p = (uint8_t *)text; *p;) {
		size_t n = utf8_length(p);
		if (!n)
			*p = '?';
		p += n ? n : 1;
	}
	puts(text);
	free(text);
	return 0;
}

/* True: the file is in a mount, and shows the content of a frame. */
static bool is_contents(int dir, const char *file)
{
	int fd = openat(dir, file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	bool is = fd >= 0 && fgetxattr(fd, MOUNT_STORED, NULL, 0) >= 0;
	if (fd >= 0)
		close(fd);
	return is;
}

const char *tool_no_frame_text(int dir, const char *file)
{
	return is_contents(dir, file) ? "is not a Blosc2 frame, but the contents of one: "
					     "name the frame in the backing directory"
					   : "is not a Blosc2 frame";
}

/* False: the file does not even begin with the version of a chunk, FORMAT.md 1.5. */
static bool may_be_chunk(const char *file)
{
	uint8_t version = 0;
	int fd = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	bool may = fd >= 0 && fd_pread(fd, 0, span_of(&version, 1)) >= 0 && version >= 1 &&
		   version <= 5;
	if (fd >= 0)
		close(fd);
	return may;
}

int tool_no_chunk(const char *file, int rc)
{
	char text[TOOL_TEXT_MAX];
	if (is_contents(AT_FDCWD, file))
		tool_say("%s: %s", file, tool_no_frame_text(AT_FDCWD, file));
	else if (rc == -EBADMSG && !may_be_chunk(file))
		tool_say("%s: is not a Blosc2 frame, nor a chunk", file);
	else
		tool_say("%s: is not a Blosc2 frame; as a chunk: %s", file, err_text(rc, text));
	return 1;
}

const char *tool_err_text(int rc, char text[static TOOL_TEXT_MAX])
{
	switch (rc) {
	case -EISDIR: return "is a directory: name a file in it";
	case -ESPIPE: return "is not a regular file";
	case -ENOTCONN: return "its daemon is gone; umount it first";
	default: return err_text(rc, text);
	}
}

/* True: the name is that which a mount would show. */
static bool has_frame(const char *file)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof path, "%s" NAMES_NEW_SUFFIX, file);
	return *file && n < (int)sizeof path && access(path, F_OK) == 0;
}

int tool_fail(const char *file, int rc)
{
	char text[TOOL_TEXT_MAX];
	const char *why = tool_err_text(rc, text);

	if (rc == -ENOENT && has_frame(file))
		tool_say("%s: %s; its frame is %s" NAMES_NEW_SUFFIX, file, why, file);
	else
		tool_say("%s: %s", tool_name_text(file), why);
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
