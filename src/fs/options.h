/*
 * The command line, parsed and validated once. The table in options.c is also the help text. All
 * sizes are in bytes.
 */
#ifndef FS_OPTIONS_H
#define FS_OPTIONS_H

#include "frame/policy/settings.h"

/*
 * A sentence for the user: why a directory cannot be used, by errno, and what can be done about it.
 */
const char *options_path_error(int error);

struct options {
	char *backing;
	char *mountpoint;
	bool foreground, debug, help, version;
	bool read_only;   /* -o ro */
	bool synchronous; /* -o sync */
	bool nonempty;  /* mount even over another mount */
	bool remount;   /* -o remount: change the flags of a live mount, then leave */
	bool recompress_all; /* --recompress: without a mount; `mountpoint` is NULL */
	const char *own; /* the last one meant for neither mount(8) nor the kernel; or NULL */

	struct settings settings; /* of new files and rewritten chunks         */
	uint64_t cache, dirty_max;
	uint64_t workers;
	uint64_t readahead; /* 0: leave the kernel's                           */
	uint64_t max_read;  /* the kernel splits longer reads                  */
	uint64_t intent;    /* the intent log's limit; 0: no log               */
	double recompress;  /* seconds without a request before it begins; 0: never */
	double commit;      /* seconds between background commits; 0: none     */
	double entry_timeout, attr_timeout;

	char *mount_opts; /* for libfuse: "rw,allow_other,..."; never NULL     */
};

/*
 * Sets *o from argv. -EINVAL: an argument is wrong, and one line on stderr says which. Call
 * options_free even if this fails.
 */
NODISCARD int options_parse(struct options *o, int argc, char **argv);
void options_free(struct options *o);

/* Prints the usage and all options to standard output. */
void options_help(void);

/* As if -o ro had been given. */
NODISCARD int options_set_read_only(struct options *o);

/*
 * Sets the largest sizes for new files, in whole MiB; call it after cache or dirty_max has changed.
 * For chunks: half of dirty_max, but at least 1 MiB; if a chunk did not fit into that, each write
 * to a part of it would cause all earlier parts to be encoded again. For blocks: what can be read
 * within the cache's share (large.h), since changing a part of a chunk means reading it.
 */
void options_set_sizes_most(struct options *o);

/* The largest chunk size, in any frame, with which files can be written within these options. */
uint64_t options_chunksize_writable(const struct options *o);

#endif
