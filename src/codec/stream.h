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

/* Codec and parameters shared by all streams of a chunk. */
struct stream_coder {
	const struct codec *codec;
	void *state;
	const struct codec_dict *dict; /* decoding; NULL: none */
	int level;                     /* encoding                               */
	struct cuts cuts;              /* encoding: where blocks in one stream are cut */
};

/* Reads the stream at the cursor and fills dst exactly. */
NODISCARD int stream_decode(const struct stream_coder *sc, struct cursor *in, struct span dst);

/* Decodes a payload without a csize word: plain bytes if it is as long as dst, else the codec's. */
NODISCARD int stream_expand(const struct stream_coder *sc, struct view payload, struct span dst);

/*
 * If the stream at the cursor is stored as n plain bytes, returns these and moves the cursor past
 * it. Otherwise returns a view of NULL and leaves the cursor alone.
 */
struct view stream_plain(struct cursor *in, size_t n);

/* As decode_front in codec.h, for codecs that support it. False: use stream_decode. */
bool stream_decode_front(const struct stream_coder *sc, struct cursor *in, struct span dst,
			 size_t n);

/* Moves the cursor past a stream without decoding it. */
NODISCARD int stream_skip(struct cursor *in);

/*
 * Writes src as a stream. Returns the length; 0: it does not fit into dst. It always fits into
 * STREAM_CSIZE + src.n bytes, and no payload is longer than src.n.
 */
NODISCARD ssize_t stream_encode(const struct stream_coder *sc, struct view src, struct span dst);

/* The same, always as plain bytes. */
NODISCARD ssize_t stream_put_plain(struct view src, struct span dst);

/*
 * Writes a longer stream: the one at the cursor, which decodes to n bytes, followed by `more`. The
 * coded bytes are copied (append in codec.h). Returns the length; 0: it has to be encoded as a
 * whole.
 */
NODISCARD ssize_t stream_append(const struct stream_coder *sc, struct cursor *in, size_t n,
				struct view more, struct span dst);


#endif
