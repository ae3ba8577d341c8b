/*
 * What makes a root recognisable, and tells whether it is whole or torn, even without the header
 * that points to it.
 *
 *   header | ... | index chunk | trailer: metalayers of others, the note | fingerprint
 *
 * FORMAT.md 9.5 has the bytes of fingerprint and note; this is what they are for.
 *
 * The *fingerprint* is a hash of header, index and trailer, and a word. Where there are fixed
 * metalayers the hash leaves them out, and whatever else the reference rewrites when it changes
 * one: it writes the header again, and nothing else.
 *
 * The word is 0 if all bytes of the root were synced before its header was written, or were synced
 * later and frame_vouch has noted that. It is 1 if another process than the writer noted it: the
 * file may have a newer root that no header ever led to, and the next commit must not rely on
 * recovery (frame_latest). Otherwise it says when the root was written (era.h): as long as that era
 * lasts, what was written is what is read. After that, unless a checkpoint is known to have come
 * first, the chunks that the note lists as young have to prove by their checksums that the disk got
 * them; so do those of any root that recovery finds without its header, since the sync that should
 * have preceded the header may have been cut short.
 *
 * A root without data consists of header and trailer only, and its trailer stays where it is while
 * other roots come and go. So its hash leaves out the first 87 bytes (which lie in one sector, and
 * are thus never torn), and its word is the root's sequence number. Where another root's word would
 * become 1, it gets a new number.
 *
 * A fingerprint of type 0: another program wrote last. Its frame is accepted as it is, and any note
 * is out of date.
 *
 * The *note* is a vlmetalayer (TRAILER_NOTE) with what header and index do not say: struct
 * root_note.
 */
#ifndef FRAME_ROOT_H
#define FRAME_ROOT_H

#include "base/buf.h"
#include "frame/format/trailer.h"
#include "frame/io/io.h"

/* The words of durable roots. */
#define ROOT_SYNCED 0
#define ROOT_CONFIRMED 1

#define ROOT_NOTE_LAYERS 15      /* with more foreign metalayers, the reference could not write */
#define ROOT_MAX_SUMS (1u << 20) /* 8 MiB per commit; frames with more chunks have none          */
#define ROOT_NOTE_MOST (9u << 20) /* the longest note: these, and the young chunks               */

struct root_note {
	uint64_t seq;      /* number of the root, increasing with time                           */
	uint64_t full;     /* for a COMMIT_PART, the last full commit before it; else seq        */
	struct view head;  /* the first 87 bytes of its header                                   */
	struct view young; /* runs of chunks put since the last sync: young.h                    */
	struct view sums;  /* a u64 for each stored chunk, 0: unknown; or empty: chunk_sum.h */
	bool whole_sums;   /* they cover all bytes of their chunks: version 1 of the note        */
};

/*
 * The length of the encoded note. `part`: `full` differs from `seq`. `young`, `sums`: their lengths
 * in bytes.
 */
size_t root_note_length(bool part, size_t young, size_t sums);

/* Encodes the note as the content of a metalayer. */
NODISCARD int root_note_encode(const struct root_note *note, struct buf *out);

/* Decodes such content, into `plain` unless it is stored uncompressed. *note borrows from both. */
NODISCARD int root_note_decode(struct root_note *note, struct view content, struct buf *plain);

/* A root in memory. Its fingerprint covers all of these bytes, except itself. */
struct root_bytes {
	struct view head; /* all of the header */
	struct span tail; /* index and trailer, with the fingerprint at the end */
	bool empty;       /* a root without data */
};

/* Writes its fingerprint, with this word, and returns that in *fp as well. */
NODISCARD int root_sign(const struct root_bytes *r, uint64_t word, struct fingerprint *fp);

/*
 * Returns 1 if the hash in its fingerprint is that of these bytes, in the present form or that of
 * older versions of this project; 0 if not.
 */
NODISCARD int root_matches(const struct root_bytes *r);

/*
 * The same for a root with data and the fingerprint `fp`, whose tail, without that, is bytes [at,
 * at + len) of a file. -EBADMSG: it does not match.
 */
NODISCARD int root_check_file(struct io *io, uint64_t at, uint64_t len, struct view head,
			      struct fingerprint fp);

#endif
