/*
 * Messages for the user: lines on standard error, from any thread, each beginning with "cframe: ".
 * Functions that return an int return the exit code of a failure, unless they say otherwise.
 */
#ifndef SAY_H
#define SAY_H

#include "base/err.h"

/* Prints the text as a single line: control characters in names become '?'. */
void tool_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A name for a message: '' if it is empty, or there would be nothing to see. */
const char *tool_name_text(const char *name);

/* Prints "FILE: why" for a negative errno, and what the frame is called if only that exists. */
int tool_fail(const char *file, int rc);

/* The reason that tool_fail prints: a constant, or `text`. */
#define TOOL_TEXT_MAX ERR_TEXT_MAX
const char *tool_err_text(int rc, char text[static TOOL_TEXT_MAX]);

/* For a file that is not a frame, and that could not be read as a chunk either. */
int tool_no_chunk(const char *file, int rc);

/*
 * For a file, relative to `dir` or AT_FDCWD, that is not a frame: the message to follow its name; a
 * constant.
 */
const char *tool_no_frame_text(int dir, const char *file);

/* For a file that kept changing (steady.h). */
int tool_busy(const char *file);

/* Prints a part of a line of output without control characters. */
void tool_print_line(const char *text);

/*
 * The same for a name (tool_name_text). Scripts may want it unchanged: control characters are
 * replaced only on a terminal.
 */
void tool_print_path(const char *path);

/*
 * Prints JSON, which must be UTF-8, though names of files and metalayers may be anything: bytes
 * that are not UTF-8 become '?'. -ENOMEM.
 */
struct cJSON;
enum json_form { JSON_LINES, JSON_LINE };
int tool_print_json(const struct cJSON *tree, enum json_form form);

/* "1.2 GB", "45.6 kB", "512 B". */
void tool_bytes_text(double v, char out[static 16]);

#endif
