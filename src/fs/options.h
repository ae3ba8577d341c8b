/*
 * The command line, judged once. The table in options.c is also the help. All sizes are bytes.
 */
#ifndef FS_OPTIONS_H
#define FS_OPTIONS_H

#include "codec/pipeline.h"

#include <stdbool.h>

#define OPTIONS_CHUNKSIZE_MIN 4096
#define OPTIONS_CHUNKSIZE_MAX (1 << 30)
#define OPTIONS_BLOCKSIZE_MIN 64
#define OPTIONS_BLOCKSIZE_MAX (64 << 20)
#define OPTIONS_BLOCKSIZE (64 << 10) /* where none is given */

/* In smaller chunks the tuner leaves the block size as it is. */
#define OPTIONS_CHUNKSIZE_FREE (1 << 20)

/* What is wrong with a mount point that answers ENOTCONN. */
#define OPTIONS_NO_DAEMON "its daemon is gone; umount it first"

/* How the pipeline of a file is found when no filter is named. */
enum options_tune {
	OPTIONS_TUNE_OFF,
	OPTIONS_TUNE_BALANCED,
	OPTIONS_TUNE_SIZE,
	OPTIONS_TUNE_SPEED
};

struct options {
	char *backing;
	char *mountpoint;
	bool foreground, debug, help, version;
	bool read_only; /* -o ro */
	bool nonempty;  /* mount even over another mount */
	bool remount;   /* -o remount: change the flags of a live mount, then leave */

	struct pipeline pipeline; /* of new files and rewritten chunks         */
	bool free_level, free_blocksize; /* not given: the tuner may choose    */
	bool level_auto; /* -o level=auto                                      */
	/* set by wish_apply: a file's own wish, or pipeline, applies even if the file has data */
	bool insist, insist_pipeline;
	struct rules *rules;      /* wish.h; NULL: none                        */
	enum options_tune tune;   /* off when filter, typesize or pipeline is given */
	uint64_t chunksize;       /* a multiple of pipeline.blocksize          */
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

/*
 * The largest chunks that are made: half of dirty_max in whole MiB, though 1 MiB always. Of one
 * that dirty_max has no room for, every part that is written would be encoded with all that came
 * before it.
 */
uint64_t options_chunksize_most(const struct options *o);

/* The largest chunks that can be written to, in any frame, within the memory of the options. */
uint64_t options_chunksize_writable(const struct options *o);

/* "64K"; "balanced". -EINVAL, silently. */
NODISCARD int options_parse_size(const char *text, uint64_t *out);
NODISCARD int options_parse_tune(const char *text, enum options_tune *out);

#endif
