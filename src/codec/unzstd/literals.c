/* The literals of a block (RFC 8878, 3.1.1.3.1); zstd/literals.c describes their headers. */
#include "codec/unzstd/impl.h"

struct head {
	unsigned type, streams;
	size_t n, coded, length; /* literals; bytes of their coded form; length of the header */
};

/* False: v is too short for the header, or for the bytes that it announces. */
static bool head_read(struct head *h, struct view v)
{
	if (v.n < 3)
		return false;
	uint64_t x = (uint64_t)(v.p[0] | v.p[1] << 8 | v.p[2] << 16);
	unsigned format = x >> 2 & 3;
	*h = (struct head){.type = x & 3, .streams = format ? 4 : 1};
	if (h->type <= ZSTD_LITERALS_RLE) {
		h->length = format == 1 ? 2 : format == 3 ? 3 : 1;
		h->n = h->length == 1 ? x >> 3 & 31 : h->length == 2 ? x >> 4 & 0xFFF : x >> 4;
		h->coded = h->type == ZSTD_LITERALS_RLE ? 1 : h->n;
	} else {
		static const uint8_t bits[4] = {10, 10, 14, 18};
		h->length = format < 2 ? 3 : format + 2;
		if (v.n < 5)
			return false;
		x |= (uint64_t)get_le16(v.p + 3) << 24;
		h->n = x >> 4 & ((1u << bits[format]) - 1);
		h->coded = x >> (4 + bits[format]) & ((1u << bits[format]) - 1);
	}
	return h->length + h->coded <= v.n;
}

/* Splits v into its n streams, and the output accordingly. False: their lengths are wrong. */
static bool streams_part(struct huffman_streams *s, unsigned n, struct view v, struct span out)
{
	s->n = n;
	s->in[0] = v;
	s->out[0] = out;
	if (n == 1)
		return out.n > 0;
	size_t each = (out.n + 3) / 4, at = 6;
	if (v.n < 10 || out.n < 6)
		return false;
	for (unsigned k = 0; k < 4; k++) {
		size_t length = k < 3 ? get_le16(v.p + 2 * k) : v.n - at;
		if (at + length > v.n)
			return false;
		s->in[k] = view_part(v, at, length);
		s->out[k] = span_of(out.p + k * each, k < 3 ? each : out.n - 3 * each);
		at += length;
	}
	return true;
}

static bool huffman_literals(struct unzstd *u, const struct head *head, struct view v,
			     struct span out)
{
	struct huffman *h = &u->huffman;
	struct huffman_streams s = {0};
	if (head->type == ZSTD_LITERALS_COMPRESSED) {
		size_t used = huffman_read(h, v);
		if (!used)
			return false;
		v = view_from(v, used);
	} else if (!h->ready) {
		return false;
	}
	return streams_part(&s, head->streams, v, out) && huffman_decode(h, &s);
}

bool literals_read(struct unzstd *u, struct view *in, struct view *literals, struct span room)
{
	struct head head;
	if (!head_read(&head, *in) || head.n > BLOCK_MAX || head.n > room.n)
		return false;
	struct view v = view_part(*in, head.length, head.coded);
	*in = view_from(*in, head.length + head.coded);
	/* Without sequences, the literals are the block. */
	uint8_t *out = in->n && !in->p[0] ? room.p : u->literals;
	*literals = view_of(out, head.n);
	switch (head.type) {
	case ZSTD_LITERALS_RAW:
		if (in->n >= UNZSTD_SLACK)
			literals->p = v.p;
		else
			bytes_copy(out, v.p, v.n);
		return true;
	case ZSTD_LITERALS_RLE:
		memset(out, v.p[0], head.n);
		return true;
	default:
		return huffman_literals(u, &head, v, span_of(out, head.n));
	}
}
