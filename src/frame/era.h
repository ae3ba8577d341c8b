/*
 * When a root was written, and what is known of the disk since.
 *
 * The word of a root whose chunks were not synced first (root.h) names an *era* and an *epoch*.
 *
 * An era is the time during which reads of a file return what was written: one boot of the machine
 * and one mount of the file system (io_mount). In a later one nobody knows what the disk got of
 * such a root, unless the whole file system was synced in time: by a *checkpoint*. It ends all
 * epochs up to now, and syncs the file system. A root names its epoch when all of its chunks are
 * written; so those of a root in an ended epoch are on the disk. (The rest of a root proves itself,
 * and may come later.) So any number of files can do without a sync of their own.
 *
 * Epochs are sixteenths of a second since the boot, so those of a later process are higher, and a
 * root that another process writes after a checkpoint of ours names none that this has ended; but
 * never one that an earlier checkpoint has ended. A word is the era in its upper 32 bits, never 0,
 * and the epoch in the lower ones; so the roots that a checkpoint is about have words in one range.
 * No checkpoint ends epoch 0.
 *
 * There is one list of such ranges in a process. Thread-safe.
 */
#ifndef FRAME_ERA_H
#define FRAME_ERA_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The word of a root that is written in `epoch`; whether the era of a word is the present one.
 * `mount`: io_mount of the file.
 */
uint64_t era_word(uint64_t mount, uint32_t epoch);
bool era_lasts(uint64_t mount, uint64_t word);

/* The present epoch, for a chunk before it is written. */
uint32_t era_now(void);

/*
 * The epoch for a root when all its chunks are written. `since`: that of the oldest chunk which was
 * not synced. 0 if that may be lost, or if an earlier process wrote it, of whose syncs nobody knows
 * whether they failed.
 */
uint32_t era_root(uint32_t since);

/* A sync has failed: what was written up to now may be lost, and no later sync will tell. */
void era_spoil(void);

/* Words from .. to - 1. */
struct era_range {
	uint64_t from, to;
};

#define ERA_RANGES 64

/* True: the root with this word is durable, by one of the ranges. */
bool era_is_durable(uint64_t word);

/*
 * Adds what earlier processes knew of the files of this mount, before any commit: epochs begin
 * behind those ranges. When there are more than ERA_RANGES the oldest are forgotten. A range that
 * no checkpoint makes is none.
 */
void era_load(uint64_t mount, const struct era_range *r, unsigned n);

/* Copies the ranges, the oldest first, and returns their number. */
unsigned era_ranges(struct era_range out[static ERA_RANGES]);

/* How many roots need a checkpoint: those written since the last one that succeeded began. */
uint64_t era_young(void);

/*
 * A checkpoint: era_end, era_await, a sync of the whole file system, and era_synced if it
 * succeeded. That adds the range of the epochs that have ended, as far as they were not spoiled, in
 * the era of the mount. One thread at a time.
 *
 * era_await sleeps until the clock has reached the end, for an epoch at most: until then another
 * process may still name one that has ended here, for chunks that it writes behind the sync. Epochs
 * that are further ahead, by era_spoil or era_load, are not ended.
 */
void era_end(void);
void era_await(void);
void era_synced(uint64_t mount);

/* For tests: get and set what counts as this boot. */
uint64_t era_boot(void);
void era_boot_set(uint64_t boot);

#endif
