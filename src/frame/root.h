/*
 * What makes a root recognisable, whole or torn, also without the header that points at it.
 *
 *   header | ... | index chunk | trailer: metalayers of others, the note | fingerprint
 *
 * The fingerprint (FORMAT.md 9.5) is of type 2: 8 bytes of hash, 8 bytes of word, both
 * big-endian. The hash is XXH3-64 of, one behind the other,
 *
 *   - the header, bytes 0 .. header_len - 1, with the values of this root,
 *   - everything from the index chunk (header_len + cbytes) up to the marker D8 of the
 *     fingerprint, which is index and trailer,
 *   - the word.
 *
 * The word is 0 when all bytes of the root were synced before its header was written, and
 * otherwise tells the boot of the machine and the mount in which it was (root_era): as long as
 * those go on, what was written is what is read. Afterwards the chunks that the note calls young
 * have to prove by their checksums that the disk got them.
 *
 * A root without data is header and trailer alone, and its trailer stays where it is while other
 * roots come and go, so its hash leaves out the first 87 bytes (one sector, and thus never torn).
 * Its word is the root's sequence number.
 *
 * Type 0: another program wrote last. Its frame is taken as it is, the note is stale.
 *
 * The note is a vlmetalayer, a chunk that holds a MessagePack map:
 *
 *   "v": 2, "seq": roots in order of time, "whole": only of a root that was committed in part
 *   (COMMIT_PART), the seq of the newest one before it that was not, "root": the first 87 bytes
 *   of the header,
 *   "young": pairs of little-endian u32, runs of chunks written since the last sync,
 *   "xxh3": little-endian u64 of each stored chunk (chunk_sum.h), in index order, without
 *           special values; 0: not known. No bytes at all: none is known. In version 1 of the
 *           note XXH3-64 of the chunk, with all its bits.
 */
#ifndef FRAME_ROOT_H
#define FRAME_ROOT_H

#include "base/buf.h"
#include "frame/format/trailer.h"
#include "frame/io/io.h"

#define ROOT_NOTE "cframefs"
#define ROOT_NOTE_LAYERS 15     /* beside more of others the reference could write no longer */
#define ROOT_MAX_SUMS (1u << 20) /* 8 MiB a commit; larger frames go without                 */

struct root_note {
	uint64_t seq;
	uint64_t whole;    /* seq, unless the root is a part */
	struct view head;  /* 87 bytes  */
	struct view young; /* u32 pairs */
	struct view sums;  /* u64       */
	bool whole_sums;   /* decoded from version 1 */
};

/* As it will be; `part`: whole is not seq. */
size_t root_note_length(bool part, size_t young, size_t sums);

/* The note as the content of a metalayer. */
NODISCARD int root_note_encode(const struct root_note *note, struct buf *out);

/* Decodes such a content, into `plain` where it is not a plain copy. *note borrows both. */
NODISCARD int root_note_decode(struct root_note *note, struct view content, struct buf *plain);

/* `tail`: index and trailer, without fingerprint. */
NODISCARD int root_hash(struct view head, struct view tail, uint64_t word, uint64_t *hash);

/* The same of bytes at .. at + len of a file. */
NODISCARD int root_hash_file(struct view head, struct io *io, uint64_t at, uint64_t len,
			     uint64_t word, uint64_t *hash);

/*
 * Tells the time for which what was written to the file is what is read from it: this boot of the
 * machine and, from Linux 6.8 on, this mount of the file system. Never 0.
 */
uint64_t root_era(struct io *io);

/* For tests: this boot, and another. */
uint64_t root_boot(void);
void root_boot_set(uint64_t boot);

#endif
