#include "codec/zstd/append.h"

#include "codec/codec.h"
#include "codec/zstd/fast.h"
#include "codec/zstd/headers.h"

/* The parts of a frame. */
struct parts {
	size_t head; /* length of its header                         */
	size_t last; /* offset of its last block                     */
	size_t raw;  /* the content bytes of that, if it is raw; else 0 */
	uint64_t n;  /* length of its content                        */
};

/* False: not one of ours, or its blocks do not end where it does. */
static bool find_parts(struct view frame, struct parts *parts)
{
	size_t at = parts->head = zstd_frame_header(frame, &parts->n);
	while (at && frame.n - at >= ZSTD_BLOCK_HEADER) {
		struct zstd_block b = zstd_block_of(frame.p + at);
		size_t left = frame.n - at - ZSTD_BLOCK_HEADER;
		parts->last = at;
		parts->raw = b.type == ZSTD_BLOCK_RAW ? b.n : 0;
		if (b.last || b.stored > left)
			return b.stored == left;
		at += ZSTD_BLOCK_HEADER + b.stored;
	}
	return false;
}

/* A raw block at the end of the frame gets longer; else a raw block is added. */
static uint8_t *put_blocks(struct view frame, const struct parts *parts, struct view more,
			   uint8_t *out)
{
	size_t body = parts->last - parts->head;
	memcpy(out, frame.p + parts->head, frame.n - parts->head);
	if (parts->raw) {
		zstd_put_block_header(out + body, ZSTD_BLOCK_RAW, parts->raw + more.n, true);
		out += frame.n - parts->head;
	} else {
		out[body] &= (uint8_t)~1u; /* no longer the last block */
		out += frame.n - parts->head;
		zstd_put_block_header(out, ZSTD_BLOCK_RAW, more.n, true);
		out += ZSTD_BLOCK_HEADER;
	}
	memcpy(out, more.p, more.n);
	return out + more.n;
}

ssize_t zstd_append(struct view frame, struct view more, struct span dst)
{
	struct parts parts;
	if (!find_parts(frame, &parts))
		return 0;
	size_t raw = parts.raw + more.n, coded = frame.n - parts.raw;
	if (raw > min_u64(codec_append_most(coded), ZSTD_BLOCK_MAX) ||
	    parts.n + more.n > ZSTD_FAST_MAX ||
	    dst.n < frame.n + more.n + ZSTD_HEADER_MAX + ZSTD_BLOCK_HEADER)
		return 0;
	uint8_t *out = zstd_put_frame_header(dst.p, (size_t)parts.n + more.n);
	return put_blocks(frame, &parts, more, out) - dst.p;
}
