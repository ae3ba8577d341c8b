#include "codec/stream.h"

#include <assert.h>

#define RUN_TOKEN 1 /* the byte after the csize word of a run */

/* With fewer bytes no codec saves more than its framing costs. */
#define CODE_MIN 16

/* The least that a payload must save, as a shift: under 1/128 is not worth a reader's time. */
#define SPARE_SHIFT 7

/*
 * Cuts are applied if pieces have at least this many bytes on average: the last, shorter block of a
 * chunk may have too few for separate tables.
 */
#define CUT_MIN 256

static int run_decode(int32_t csize, struct cursor *in, struct span dst)
{
	uint8_t token = cursor_u8(in);
	if (csize < -255)
		return CORRUPT("stream of negative size", csize);
	if (in->bad || !(token & RUN_TOKEN))
		return CORRUPT("run without its token", token);
	memset(dst.p, -csize, dst.n);
	return 0;
}

int stream_expand(const struct stream_coder *sc, struct view payload, struct span dst)
{
	if (payload.n == dst.n) {
		bytes_copy(dst.p, payload.p, dst.n);
		return 0;
	}
	return sc->codec->decode(sc->state, payload, dst, sc->dict);
}

int stream_decode(const struct stream_coder *sc, struct cursor *in, struct span dst)
{
	assert(dst.n > 0);
	int32_t csize = (int32_t)cursor_le32(in);
	if (in->bad)
		return CORRUPT("stream begins past the end of its block", in->at);
	if (csize == 0) {
		memset(dst.p, 0, dst.n);
		return 0;
	}
	if (csize < 0)
		return run_decode(csize, in, dst);
	struct view payload = cursor_bytes(in, (size_t)csize);
	if (in->bad)
		return CORRUPT("stream ends past the end of its block", csize);
	return stream_expand(sc, payload, dst);
}

bool stream_decode_front(const struct stream_coder *sc, struct cursor *in, struct span dst,
			 size_t n)
{
	int32_t csize = (int32_t)cursor_le32(in);
	if (in->bad)
		return false;
	if (csize == 0)
		memset(dst.p, 0, n);
	if (csize <= 0)
		return csize == 0 || run_decode(csize, in, span_of(dst.p, n)) == 0;
	struct view payload = cursor_bytes(in, (size_t)csize);
	return !in->bad && sc->codec->decode_front(sc->state, payload, dst, n);
}

int stream_skip(struct cursor *in)
{
	int32_t csize = (int32_t)cursor_le32(in);
	cursor_skip(in, csize < 0 ? 1 : (size_t)csize);
	return in->bad ? CORRUPT("stream ends past the end of its block", csize) : 0;
}

struct view stream_plain(struct cursor *in, size_t n)
{
	struct cursor look = *in;
	uint32_t csize = cursor_le32(&look);
	if (look.bad || csize != n)
		return (struct view){NULL, 0};
	struct view plain = cursor_bytes(&look, n);
	if (plain.p)
		*in = look;
	return plain;
}

/*
 * True: all bytes are equal, that is, each equals its neighbour. memcmp compares in the widest
 * registers.
 */
static bool is_run(struct view v)
{
	return v.p[0] == v.p[v.n - 1] && v.p[0] == v.p[v.n / 2] &&
	       !memcmp(v.p, v.p + 1, v.n - 1);
}

static ssize_t encode(const struct stream_coder *sc, struct view src, struct span room)
{
	const struct codec *codec = sc->codec;
	if (sc->cuts.n > 1 && src.n / sc->cuts.n >= CUT_MIN)
		return codec->encode_cut(sc->state, sc->level, src, &sc->cuts, room);
	return codec->encode(sc->state, sc->level, src, room);
}

ssize_t stream_put_plain(struct view src, struct span dst)
{
	if (dst.n < STREAM_CSIZE + src.n)
		return 0;
	put_le32(dst.p, (uint32_t)src.n);
	bytes_copy(dst.p + STREAM_CSIZE, src.p, src.n);
	return (ssize_t)(STREAM_CSIZE + src.n);
}

/* The room for a payload of n source bytes. One of exactly n bytes would be read as plain bytes. */
static struct span room_of(struct span dst, size_t n)
{
	size_t most = n - 1 - (n >> SPARE_SHIFT);
	return span_of(dst.p + STREAM_CSIZE, min_u64(dst.n - STREAM_CSIZE, most));
}

ssize_t stream_encode(const struct stream_coder *sc, struct view src, struct span dst)
{
	assert(src.n > 0);
	if (dst.n < STREAM_CSIZE + 1)
		return 0;
	if (is_run(src)) {
		put_le32(dst.p, -(uint32_t)src.p[0]);
		dst.p[STREAM_CSIZE] = RUN_TOKEN;
		return src.p[0] ? STREAM_CSIZE + 1 : STREAM_CSIZE; /* a run of zeros has no token */
	}
	struct span room = room_of(dst, src.n);
	ssize_t n = 0;
	if (src.n >= CODE_MIN)
		n = encode(sc, src, room);
	if (n < 0)
		return n;
	if (n == 0)
		return stream_put_plain(src, dst);
	put_le32(dst.p, (uint32_t)n);
	return STREAM_CSIZE + n;
}

ssize_t stream_append(const struct stream_coder *sc, struct cursor *in, size_t n, struct view more,
		      struct span dst)
{
	int32_t csize = (int32_t)cursor_le32(in);
	if (!sc->codec->append || in->bad || csize <= 0 || (size_t)csize >= n ||
	    dst.n < STREAM_CSIZE)
		return 0;
	struct view payload = cursor_bytes(in, (size_t)csize);
	if (in->bad)
		return 0;
	ssize_t len = sc->codec->append(payload, more, room_of(dst, n + more.n));
	if (len <= 0)
		return len;
	put_le32(dst.p, (uint32_t)len);
	return STREAM_CSIZE + len;
}
