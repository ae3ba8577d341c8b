/*
 * One stream of a block: a csize word, then a payload, a run token, the plain
 * bytes, or nothing (FORMAT.md 3.4).
 */
#ifndef CODEC_STREAM_H
#define CODEC_STREAM_H

#include "base/bytes.h"
#include "codec/codec.h"
#include "codec/cuts.h"

#define STREAM_CSIZE 4 /* bytes of a csize word */

/* What codes the streams of a chunk, the same for all of them. */
struct stream_coder {
	const struct codec *codec;
	void *state;
	const struct codec_dict *dict; /* decoding; NULL: none */
	int level;                     /* encoding */
	struct cuts cuts;              /* the same: of blocks in one stream */
};

/* Reads the stream at the cursor and fills dst exactly. */
NODISCARD int stream_decode(const struct stream_coder *sc, struct cursor *in, struct span dst);

/* A payload without its csize word: plain when as long as dst, else the codec's. */
NODISCARD int stream_expand(const struct stream_coder *sc, struct view payload, struct span dst);

/*
 * The bytes themselves, when the stream at the cursor is stored plain with
 * `n` bytes: then the cursor is behind it. Else a view of NULL, and the cursor stays.
 */
struct view stream_plain(struct cursor *in, size_t n);

/* As codec.h's decode_front, of codecs that have it. False: it is for stream_decode to decode. */
bool stream_decode_front(const struct stream_coder *sc, struct cursor *in, struct span dst,
			 size_t n);

/* Steps over the stream at the cursor without decoding it. */
NODISCARD int stream_skip(struct cursor *in);

/*
 * Writes src as a stream; the length, or 0: does not fit into dst. It always
 * fits into 4 + src.n bytes, and no payload is longer than that.
 */
NODISCARD ssize_t stream_encode(const struct stream_coder *sc, struct view src, struct span dst);

#endif
