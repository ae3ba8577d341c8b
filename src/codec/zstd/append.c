#include "codec/zstd/append.h"

#include "codec/codec.h"
#include "codec/zstd/fast.h"
#include "codec/zstd/put.h"

/* The parts of a frame. */
struct parts {
	size_t head; /* length of its header                         */
	size_t last; /* offset of its last block                     */
	size_t raw;  /* the content bytes of that, if it is raw; else 0 */
	uint64_t n;  /* length of its content                        */
};

static uint32_t take_le16(struct cursor *in)
{
	uint32_t low = cursor_u8(in);
	return low | (uint32_t)cursor_u8(in) << 8;
}

/* False: not one of ours. */
static bool read_header(struct view frame, struct parts *parts)
{
	struct cursor in = cursor_of(frame);
	uint32_t magic = cursor_le32(&in);
	uint8_t how = cursor_u8(&in);
	switch (how) {
	case ZSTD_SINGLE_SEGMENT: parts->n = cursor_u8(&in); break;
	case 1 << ZSTD_SIZE_SHIFT | ZSTD_SINGLE_SEGMENT:
		parts->n = take_le16(&in) + ZSTD_SIZE_TWO_LESS;
		break;
	case 2 << ZSTD_SIZE_SHIFT | ZSTD_SINGLE_SEGMENT: parts->n = cursor_le32(&in); break;
	default: return false;
	}
	parts->head = in.at;
	return !in.bad && magic == ZSTD_FRAME_MAGIC;
}

/* False: the blocks do not end where the frame does. */
static bool find_last(struct view frame, struct parts *parts)
{
	struct cursor in = cursor_of(view_from(frame, parts->head));
	for (;;) {
		parts->last = parts->head + in.at;
		uint32_t header = take_le16(&in);
		header |= (uint32_t)cursor_u8(&in) << 16;
		uint32_t type = header >> 1 & 3, n = header >> 3;
		parts->raw = type == ZSTD_BLOCK_RAW ? n : 0;
		cursor_skip(&in, type == ZSTD_BLOCK_RLE ? 1 : n);
		if (in.bad || header & 1)
			return !in.bad && !cursor_left(&in);
	}
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
	if (!read_header(frame, &parts) || !find_last(frame, &parts))
		return 0;
	size_t raw = parts.raw + more.n, coded = frame.n - parts.raw;
	if (raw > min_u64(codec_append_most(coded), ZSTD_BLOCK_MAX) ||
	    parts.n + more.n > ZSTD_FAST_MAX ||
	    dst.n < frame.n + more.n + ZSTD_HEADER_MAX + ZSTD_BLOCK_HEADER)
		return 0;
	uint8_t *out = zstd_put_frame_header(dst.p, (size_t)parts.n + more.n);
	return put_blocks(frame, &parts, more, out) - dst.p;
}
