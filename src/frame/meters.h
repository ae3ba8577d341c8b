/*
 * What this layer counts (base/meter.h). The counters of the layer above start at
 * METER_FRAME_COUNTS and METER_FRAME_TIMERS.
 */
#ifndef FRAME_METERS_H
#define FRAME_METERS_H

#include "base/meter.h"

enum frame_count {
	METER_DISK_READS, /* calls on backing files of frames, and their bytes */
	METER_DISK_READ_BYTES,
	METER_DISK_WRITES,
	METER_DISK_WRITTEN_BYTES,
	METER_DISK_SYNCS,
	METER_BLOCKS_DECODED, /* for readers; includes blocks stored uncompressed */
	METER_PARTS_DECODED,  /* blocks of which only the bytes asked for were decoded */
	METER_BYTES_DECODED,  /* of parts, what was asked for */
	METER_COMMITS,
	METER_FRAME_COUNTS
};

enum frame_timer {
	METER_DECODE, /* a run of blocks, including the read of their bytes */
	METER_COMMIT,
	METER_FRAME_TIMERS
};

#endif
