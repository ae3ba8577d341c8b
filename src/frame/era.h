/*
 * When a root was written, and whether the disk is known to have it.
 *
 * The word of a root whose chunks were not synced first (root.h) names an *era* and an *epoch*.
 *
 * An era is a time during which reads of a file are sure to return what was written: one boot of
 * the machine and one mount of the file system (io_mount). In a later era nobody knows how much of
 * such a root the disk got, unless the whole file system was synced in time, by a *checkpoint*: it
 * ends all epochs up to now, and then syncs the file system. A root is given its epoch after all of
 * its chunks were written, so the chunks of a root in an ended epoch are on the disk. (The rest of
 * a root proves itself, and may be written later.) So any number of files can do without a sync of
 * their own.
 *
 * Epochs are sixteenths of a second since the boot, so those of a later process are higher, and a
 * root that another process writes after our checkpoint never names an epoch that the checkpoint
 * has ended. A word has the era in its upper 32 bits, never 0, and the epoch in the lower ones; so
 * the roots that a checkpoint covers have words in one range. No checkpoint ends epoch 0.
 *
 * There is one list of such ranges per process. Thread-safe.
 */
#ifndef FRAME_ERA_H
#define FRAME_ERA_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The word of a root written in `epoch`; whether the era of a word is still the current one.
 * `mount`: io_mount of the file.
 */
uint64_t era_word(uint64_t mount, uint32_t epoch);
bool era_lasts(uint64_t mount, uint64_t word);

/* The current epoch, for a chunk that is about to be written. */
uint32_t era_now(void);

/*
 * The epoch for a root whose chunks are all written. `since`: that of the oldest chunk not synced
 * yet. 0 if that chunk may be lost, or was written by an earlier process, whose syncs may have
 * failed without our knowing.
 */
uint32_t era_root(uint32_t since);

/* A sync has failed: what was written up to now may be lost, and later syncs will not report it. */
void era_spoil(void);

/* Words from .. to - 1. */
struct era_range {
	uint64_t from, to;
};

#define ERA_RANGES 64

/* True: the word is in one of the ranges, so the root is durable. */
bool era_is_durable(uint64_t word);

/*
 * Adds the ranges that earlier processes stored for the files of this mount, before any commit: new
 * epochs begin after them. Beyond ERA_RANGES the oldest are forgotten. Ranges that no checkpoint
 * could have made are ignored.
 */
void era_load(uint64_t mount, const struct era_range *r, unsigned n);

/* Copies the ranges, the oldest first, and returns their number. */
unsigned era_ranges(struct era_range out[static ERA_RANGES]);

/*
 * How many roots need a checkpoint: those written since the start of the last one that succeeded.
 */
uint64_t era_young(void);

/*
 * A checkpoint: era_end, era_await, a sync of the whole file system, and era_synced if it
 * succeeded. era_synced adds the range of the epochs that have ended and were not spoiled, in the
 * era of the mount. One thread at a time.
 *
 * era_await sleeps until the clock has reached the end, for an epoch at most: until then another
 * process may still use an epoch that has ended here, for chunks that it writes after the sync.
 * Epochs further ahead, because of era_spoil or era_load, are not ended.
 */
void era_end(void);
void era_await(void);
void era_synced(uint64_t mount);

/* For tests: get and set the number that stands for this boot. */
uint64_t era_boot(void);
void era_boot_set(uint64_t boot);

#endif
