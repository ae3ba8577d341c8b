/*
 * What the mount has done since it started: counted as it happens (base/meter.h), and shown by
 * `cframe stat` and, as JSON, in the extended attribute user.cframefs.stats of the root of the
 * mount.
 */
#ifndef FS_STATS_H
#define FS_STATS_H

#include "base/buf.h"
#include "frame/meters.h"

struct fs;

#define STATS_XATTR "user.cframefs.stats"

/* Each piece of a read is counted in exactly one of the first five. */
enum stats_count {
	STATS_FROM_DIRTY = METER_FRAME_COUNTS, /* data that is not in its frame yet     */
	STATS_FROM_HOLE,                       /* zeros that are not stored             */
	STATS_FROM_CACHE,                      /* decoded before, for another read      */
	STATS_FROM_READAHEAD,                  /* decoded before anybody asked for it   */
	STATS_FROM_MISS,                       /* decoded now                           */
	STATS_READ_BYTES,                      /* of frames, sent to the kernel         */
	STATS_PLAIN_READ_BYTES,                /* of plain files, as requested          */
	STATS_PRELOADED,                       /* files, put into the kernel on open    */
	STATS_PUSHED_BYTES,                    /* of frames, put into the kernel        */
	STATS_WRITE_BYTES,                     /* of frames, from the kernel            */
	STATS_PLAIN_WRITE_BYTES,
	STATS_CHUNKS_ENCODED,
	STATS_ENCODED_FROM,                    /* plain bytes, and what they became     */
	STATS_ENCODED_TO,
	/* of the intent log: fsyncs whose commit follows later */
	STATS_LOG_RECORDS,
	STATS_LOG_BYTES,
	STATS_LOG_SYNCS,
	STATS_RECOMPRESSED,                    /* chunks, and their stored bytes before and after */
	STATS_RECOMPRESSED_FROM,
	STATS_RECOMPRESSED_TO,
	STATS_REQUESTS                         /* and one for each kind (ops.h) from here on */
};

enum stats_timer {
	STATS_TIME_READ = METER_FRAME_TIMERS,
	STATS_TIME_WRITE,
	STATS_TIME_SYNC,  /* fsync, flush */
	STATS_TIME_OTHER, /* names and attributes */
	STATS_TIME_ENCODE,
	STATS_TIMERS
};

static inline void stats_add(enum stats_count what, uint64_t n)
{
	meter_add(what, n);
}

/* The number of requests so far, without FORGET, for which nobody waits. *room is scratch space. */
uint64_t stats_requests(struct meter_sums *room);

/* The same with FORGET. */
uint64_t stats_all_requests(struct meter_sums *room);

/* Appends everything, as JSON. */
NODISCARD int stats_print(struct fs *fs, struct buf *out);

#endif
