#include "codec/unzstd/unzstd.h"
#include "base/buf.h"
#include "codec/unzstd/impl.h"
#include "codec/zstd/headers.h"

#include <assert.h>

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
	uint64_t n;
	size_t in = zstd_frame_header(src, &n), most = min_u64(dst.n, BLOCK_MAX);
	bool last = false;
	u->huffman.ready = false;
	u->states_ready = false;
	memcpy(u->rep, (const uint32_t[]){1, 4, 8}, sizeof u->rep);
	if (!in || n != dst.n)
		return false;
	while (!last && c->at < c->stop) {
		if (src.n - in < ZSTD_BLOCK_HEADER)
			return false;
		struct zstd_block b = zstd_block_of(src.p + in);
		last = b.last;
		in += ZSTD_BLOCK_HEADER;
		if (b.type > ZSTD_BLOCK_COMPRESSED || b.stored > src.n - in || b.n > most ||
		    (b.type != ZSTD_BLOCK_COMPRESSED && b.n > dst.n - c->at))
			return false;
		if (b.type == ZSTD_BLOCK_RAW)
			bytes_copy(dst.p + c->at, src.p + in, b.n);
		else if (b.type == ZSTD_BLOCK_RLE)
			memset(dst.p + c->at, src.p[in], b.n);
		size_t end = min_u64(dst.n, c->at + most);
		if (b.type != ZSTD_BLOCK_COMPRESSED)
			c->at += b.n;
		else if (!(c->at = block_read(u, view_part(src, in, b.n), c, end)))
			return false;
		in += b.stored;
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
