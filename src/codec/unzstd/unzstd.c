#include "codec/unzstd/unzstd.h"
#include "base/buf.h"
#include "codec/unzstd/impl.h"

#include <assert.h>

/* The length of the header; 0: not of our kind. */
static size_t frame_head(struct view v, size_t n)
{
	if (v.n < HEADERS_MIN || get_le32(v.p) != ZSTD_FRAME_MAGIC)
		return 0;
	switch (v.p[4]) {
	case ZSTD_SINGLE_SEGMENT:
		return v.p[5] == n ? 6 : 0;
	case 1 << ZSTD_SIZE_SHIFT | ZSTD_SINGLE_SEGMENT:
		return get_le16(v.p + 5) + ZSTD_SIZE_TWO_LESS == n ? 7 : 0;
	case 2 << ZSTD_SIZE_SHIFT | ZSTD_SINGLE_SEGMENT:
		return get_le32(v.p + 5) == n ? 9 : 0;
	default: return 0;
	}
}

/* The content of a frame being decoded. */
struct content {
	struct span dst;
	size_t at;   /* bytes decoded so far                                             */
	size_t stop; /* bytes that are enough; > dst.n: decode to the end of the frame */
};

/*
 * Decodes a compressed block. Returns where it ends in dst, at most `end`; 0: left to the library.
 */
static size_t block_read(struct unzstd *u, struct view in, const struct content *c, size_t end)
{
	struct sequences s = {.dst = c->dst, .at = c->at, .end = end, .stop = c->stop};
	uint8_t *to = c->dst.p + c->at;
	if (!literals_read(u, &in, &s.literals, span_of(to, end - c->at)))
		return 0;
	size_t head = sequences_head(u, in, &s.n);
	if (!head)
		return 0;
	if (!s.n) { /* literals_read has put them there */
		assert(s.literals.p == to);
		return c->at + s.literals.n;
	}
	memcpy(s.states, u->states, sizeof s.states);
	s.cell = u->cell;
	s.bits = view_from(in, head);
	return sequences_execute(&s, u->rep);
}

static bool frame_read(struct unzstd *u, struct view src, struct content *c)
{
	struct span dst = c->dst;
	size_t in = frame_head(src, dst.n), most = min_u64(dst.n, BLOCK_MAX);
	bool last = false;
	u->huffman.ready = false;
	u->states_ready = false;
	memcpy(u->rep, (const uint32_t[]){1, 4, 8}, sizeof u->rep);
	if (!in)
		return false;
	while (!last && c->at < c->stop) {
		if (src.n - in < ZSTD_BLOCK_HEADER)
			return false;
		uint32_t head = (uint32_t)(src.p[in] | src.p[in + 1] << 8 | src.p[in + 2] << 16);
		uint32_t type = head >> 1 & 3, n = head >> 3;
		uint32_t stored = type == ZSTD_BLOCK_RLE ? 1 : n;
		last = head & 1;
		in += ZSTD_BLOCK_HEADER;
		if (type > ZSTD_BLOCK_COMPRESSED || stored > src.n - in || n > most ||
		    (type != ZSTD_BLOCK_COMPRESSED && n > dst.n - c->at))
			return false;
		if (type == ZSTD_BLOCK_RAW)
			bytes_copy(dst.p + c->at, src.p + in, n);
		else if (type == ZSTD_BLOCK_RLE)
			memset(dst.p + c->at, src.p[in], n);
		size_t end = min_u64(dst.n, c->at + most);
		if (type != ZSTD_BLOCK_COMPRESSED)
			c->at += n;
		else if (!(c->at = block_read(u, view_part(src, in, n), c, end)))
			return false;
		in += stored;
	}
	return c->at >= c->stop || (in == src.n && c->at == dst.n);
}

bool unzstd(struct unzstd **u, struct view src, struct span dst, size_t want)
{
	if (!*u) {
		*u = mem_zalloc(sizeof **u);
		if (!*u)
			return false;
		sequences_init(*u);
	}
	struct content c = {.dst = dst, .stop = want < dst.n ? want : dst.n + 1};
	return dst.n && frame_read(*u, src, &c);
}
