/*
 * The codecs: one file and one row each (codecs/list.h). A row turns one stream of bytes into its
 * payload (FORMAT.md 6) and back; csize words, runs and plain streams are left to stream.h.
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

/* A chunk's dictionary for decoding: its bytes, and the row's digest of them. */
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
	uint8_t level;      /* default, if a pipeline's text names no level        */

	/*
	 * A state is used by one thread at a time. It may copy *k, but not keep the pointer.
	 * Functions below that return an int or a length may fail with -ENOMEM; those that decode,
	 * also with -EBADMSG.
	 */
	int (*state_new)(void **state, const struct kernels *k);
	void (*state_free)(void *state);

	/*
	 * state_trim frees memory that a state need not keep until the next block. encode_memory is
	 * an upper bound for that memory when encoding a stream of n bytes; 0: none. Both are NULL
	 * if a state is small.
	 */
	void (*state_trim)(void *state);
	uint64_t (*encode_memory)(int level, size_t n);

	/* The length of the payload; 0: it does not fit into dst. */
	ssize_t (*encode)(void *state, int level, struct view src, struct span dst);

	/* As encode, with separate tables for each piece (cuts.h). NULL: the codec cannot cut. */
	ssize_t (*encode_cut)(void *state, int level, struct view src, const struct cuts *cuts,
			      struct span dst);

	/*
	 * Appends to a payload, which the caller has decoded: its coded bytes stay as they are,
	 * followed by `more`, which is not compressed. Returns the length; 0: it does not fit into
	 * dst, or more than codec_append_most would be uncompressed. NULL: the codec cannot append.
	 */
	ssize_t (*append)(struct view payload, struct view more, struct span dst);

	/*
	 * Estimates, for less work than encoding, how many bytes a sample of at most 64 KiB adds to
	 * a longer stream at a low level; at least 1. NULL: the codec cannot tell.
	 */
	ssize_t (*estimate)(void *state, struct view sample, const struct cuts *cuts);

	/* Fills dst exactly, or fails. dict: NULL if there is none. */
	int (*decode)(void *state, struct view src, struct span dst, const struct codec_dict *dict);

	/*
	 * Decodes only the first n > 0 bytes of dst; the rest of dst is undefined afterwards, and
	 * damage in the rest of the stream goes unnoticed. False: use decode, which also reports
	 * what is wrong. decode_front is NULL if a codec cannot do this. If has_front is set,
	 * decode_front may be called only with kernels for which it returns true.
	 */
	bool (*has_front)(const struct kernels *k);
	bool (*decode_front)(void *state, struct view src, struct span dst, size_t n);

	/*
	 * Dictionaries; all four are NULL if a codec has none.
	 *
	 * dict_make: builds one from contiguous samples of equal length. Returns its length; 0:
	 * nothing was learnt.
	 *
	 * dict_set: for encode; borrows the bytes until the next call. Empty view: no dictionary.
	 *
	 * digest_new: for decode; copies the bytes. A digest may be shared by threads.
	 */
	ssize_t (*dict_make)(struct view samples, size_t nsamples, struct span dict);
	int (*dict_set)(void *state, struct view dict);
	int (*digest_new)(void **digest, struct view dict);
	void (*digest_free)(void *digest);
};

/*
 * The most bytes at the end of a stream that may stay uncompressed, if the rest takes `coded`
 * bytes: about twenty lines of a log that is appended to line by line, or a sixteenth of a long
 * stream.
 */
static inline size_t codec_append_most(size_t coded)
{
	return (size_t)max_u64(1024, coded >> 4);
}

/* NULL: no such codec is built in. */
const struct codec *codec_by_id(unsigned id);
const struct codec *codec_by_format(unsigned format);
const struct codec *codec_by_name(struct view name);

/* All rows in order of their ids; NULL past the last. */
const struct codec *codec_at(size_t i);

/*
 * -ENOTSUP for a codec that the format defines and we do not support, -EBADMSG for an undefined
 * one.
 */
NODISCARD int codec_refuse(unsigned format, unsigned udcodec);

#endif
