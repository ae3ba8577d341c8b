/*
 * What the user is told: lines on standard error, by any thread, each beginning with "cframe: ".
 * Those that return an int return the exit code of a failure.
 */
#ifndef SAY_H
#define SAY_H

#include <stdbool.h>

/* The text, as one line in any case: control characters of names become '?'. */
void tool_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "FILE: why", of a negative errno. */
int tool_fail(const char *file, int rc);

/* Of a file of another kind, of which nothing more is to be said. */
int tool_no_frame(const char *file);

/* True: it is in a mount, and shows what is in a frame. */
bool tool_is_contents(const char *file);

/* Of one that never stood still (steady.h). */
int tool_busy(const char *file);

/* A terminal obeys control characters, and a name may have any. */
char tool_printable(char c);

/* Part of a line of output, without them. */
void tool_print_line(const char *text);

/* The same of a name that scripts may want as it is: without them on a terminal only. */
void tool_print_path(const char *path);

/*
 * JSON is UTF-8, and names of files and metalayers need not be: in place of what is not there is a
 * '?', so that all of it can be read. -ENOMEM.
 */
struct cJSON;
int tool_print_json(const struct cJSON *tree);

/* "1.2 GB", "45.6 kB", "512 B". */
void tool_bytes_text(double v, char out[static 16]);

#endif
