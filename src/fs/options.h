/*
 * The command line, judged once. The table in options.c is also the help. All sizes are bytes.
 */
#ifndef FS_OPTIONS_H
#define FS_OPTIONS_H

#include "frame/policy/settings.h"

/* Why a directory of the command line cannot be used, by errno, and what can be done about it. */
const char *options_path_error(int error);

struct options {
	char *backing;
	char *mountpoint;
	bool foreground, debug, help, version;
	bool read_only; /* -o ro */
	bool nonempty;  /* mount even over another mount */
	bool remount;   /* -o remount: change the flags of a live mount, then leave */

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

/* Fills *o from argv. On a wrong word: one line on stderr, -EINVAL. options_free in every case. */
NODISCARD int options_parse(struct options *o, int argc, char **argv);
void options_free(struct options *o);

void options_help(void);

/* As if -o ro had been given. */
NODISCARD int options_set_read_only(struct options *o);

/*
 * Sets settings.chunksize_most, the largest chunks that are made: half of dirty_max in whole MiB,
 * though 1 MiB always. Of one that dirty_max has no room for, every part that is written would be
 * encoded with all that came before it. For those who change dirty_max.
 */
void options_set_chunksize_most(struct options *o);

/* The largest chunks that can be written to, in any frame, within the memory of the options. */
uint64_t options_chunksize_writable(const struct options *o);

#endif
