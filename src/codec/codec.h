/*
 * The codecs: one file and one row each (codecs/list.h). A row turns one stream
 * of bytes into its payload (FORMAT.md 6) and back; csize words, runs and stored streams
 * are the business of stream.h.
 */
#ifndef CODEC_CODEC_H
#define CODEC_CODEC_H

#include "base/bytes.h"
#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

#define CODEC_IDS 8 /* ids of built-in codecs are below this */

enum codec_id {
	CODEC_BLOSCLZ = 0,
	CODEC_LZ4 = 1,
	CODEC_LZ4HC = 2,
	CODEC_ZLIB = 4,
	CODEC_ZSTD = 5,
};

/* A chunk's dictionary on the way in: its bytes, and what the row made of them. */
struct codec_dict {
	struct view raw;
	const void *digest;
};

struct cuts;
struct kernels;

struct codec {
	const char *name;
	const char *what;   /* for help texts                                      */
	uint8_t id, format; /* FORMAT.md 1.3: compcode, compformat                 */
	uint8_t level;      /* default, where a pipeline's text names no level     */

	/*
	 * A state is used by one thread at a time. It may copy *k, but not keep the pointer.
	 * Functions below that return an int or a length fail with -ENOMEM; those that decode, with
	 * -EBADMSG too.
	 */
	int (*state_new)(void **state, const struct kernels *k);
	void (*state_free)(void *state);

	/*
	 * state_trim frees what a state need not keep until the next block. encode_memory bounds
	 * that: the bytes that it may take to encode a stream of n bytes; 0: none. Both are NULL
	 * where a state is small.
	 */
	void (*state_trim)(void *state);
	uint64_t (*encode_memory)(int level, size_t n);

	/* The length of the payload; 0: it does not fit into dst. */
	ssize_t (*encode)(void *state, int level, struct view src, struct span dst);

	/* As encode, with separate tables for each piece (cuts.h). NULL: the codec cannot cut. */
	ssize_t (*encode_cut)(void *state, int level, struct view src, const struct cuts *cuts,
			      struct span dst);

	/*
	 * A longer stream: its first bytes are those of `payload`, which stay as they are coded,
	 * and `more` is put behind them without being coded. For a payload that the caller has
	 * decoded. Returns its length; 0: it does not fit into dst, or more than
	 * codec_append_most would not be coded. NULL: the codec cannot append.
	 */
	ssize_t (*append)(struct view payload, struct view more, struct span dst);

	/*
	 * Estimates how many bytes a sample of at most 64 KiB adds to a longer stream at a low
	 * level, for less work than encoding it; at least 1. NULL: the codec cannot tell.
	 */
	ssize_t (*estimate)(void *state, struct view sample, const struct cuts *cuts);

	/* Fills dst exactly, or fails. dict: NULL for a stream without one. */
	int (*decode)(void *state, struct view src, struct span dst, const struct codec_dict *dict);

	/*
	 * Decodes only the first n > 0 bytes of dst; the others are undefined afterwards, and
	 * damage in the rest of the stream goes unnoticed. False: use decode, which also reports
	 * what is wrong. decode_front is NULL where a codec cannot do this. If has_front is set,
	 * decode_front may be called only with kernels for which it returns true.
	 */
	bool (*has_front)(const struct kernels *k);
	bool (*decode_front)(void *state, struct view src, struct span dst, size_t n);

	/*
	 * Dictionaries; all four are NULL where a codec has none.
	 *
	 * dict_make: builds one from samples of equal length that lie one behind the other. Returns
	 * its length; 0: nothing was learnt.
	 *
	 * dict_set: for encode; borrows the bytes until it is called again, with an empty view for
	 * none.
	 *
	 * digest_new: for decode; copies the bytes. Any number of threads may share a digest.
	 */
	ssize_t (*dict_make)(struct view samples, size_t nsamples, struct span dict);
	int (*dict_set)(void *state, struct view dict);
	int (*digest_new)(void **digest, struct view dict);
	void (*digest_free)(void *digest);
};

/*
 * Bytes at the end of a stream that need not be coded, where those before them take `coded`: of a
 * log that is appended to line by line some twenty lines, and at most a sixteenth of a long stream.
 */
static inline size_t codec_append_most(size_t coded)
{
	return (size_t)max_u64(1024, coded >> 4);
}

/* NULL: no such codec is built in. */
const struct codec *codec_by_id(unsigned id);
const struct codec *codec_by_format(unsigned format);
const struct codec *codec_by_name(struct view name);

/* All rows in the order of their ids; NULL past the last. */
const struct codec *codec_at(size_t i);

/* -ENOTSUP for a codec that the format knows and we do not, -EBADMSG for one that nobody knows. */
NODISCARD int codec_refuse(unsigned format, unsigned udcodec);

#endif
