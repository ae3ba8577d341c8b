/*
 * The command line, judged once. The table in options.c is also the help.
 */
#ifndef FS_OPTIONS_H
#define FS_OPTIONS_H

#include "codec/pipeline.h"

#include <stdbool.h>

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
	bool nonempty; /* mount even over another mount */
	bool remount;  /* -o remount: change the flags of a live mount, then leave */

	struct pipeline pipeline; /* of new files and rewritten chunks         */
	bool free_level, free_blocksize; /* nobody named one: the tuner may  */
	bool level_auto; /* -o level=auto                                      */
	bool insist, insist_pipeline; /* of a file's own: also where it has data */
	struct rules *rules;      /* wish.h; NULL: none                        */
	enum options_tune tune;   /* off when filter, typesize or pipeline are named */
	uint64_t chunksize;       /* bytes, a multiple of pipeline.blocksize   */
	uint64_t cache, dirty_max;
	uint64_t workers;
	uint64_t readahead; /* bytes; 0: leave the kernel's                    */
	uint64_t max_read;  /* bytes: the kernel splits longer reads           */
	uint64_t intent;    /* bytes of the intent log; 0: none                */
	double recompress;  /* seconds without a request before it begins; 0: never */
	double commit;      /* seconds between background commits; 0: none     */
	double entry_timeout, attr_timeout;

	char *mount_opts; /* for libfuse: "rw,allow_other,..."; never NULL     */
};

/*
 * Fills *o from argv. On a wrong word: one line on stderr, -EINVAL. Owns what it
 * allocates; options_free afterwards in every case.
 */
NODISCARD int options_parse(struct options *o, int argc, char **argv);
void options_free(struct options *o);

void options_help(void);

/* "64K"; "balanced". -EINVAL, silently. */
NODISCARD int options_parse_size(const char *text, uint64_t *out);
NODISCARD int options_parse_tune(const char *text, enum options_tune *out);

#endif
