/* Reading an array, which is shown as an .npy file: its header, then the items in C order. */
#include "fs/read/impl.h"

#include "frame/view_npy.h"

#include <stdlib.h>

/*
 * Pieces of an array that are shorter than SHORT_PIECE are read in the order in which they lie in
 * the frame, up to SHORT_PIECES at a time. In the order of the array a request would come back to
 * each block for every row, and decode it again each time if the cache does not hold the blocks of
 * a row.
 */
#define SHORT_PIECE 4096u
#define SHORT_PIECES 16384u

/* Where some bytes of an array lie in the frame, and where in the request they belong. */
struct short_piece {
	uint32_t chunk, lo, len, to;
};

static int by_place(const void *a, const void *b)
{
	const struct short_piece *x = a, *y = b;

	if (x->chunk != y->chunk)
		return x->chunk < y->chunk ? -1 : 1;
	return (x->lo > y->lo) - (x->lo < y->lo);
}

/* Lists the pieces of bytes [at, at + size) of the array, at most `most` of them. */
static uint32_t list_pieces(const struct ndarray *a, uint64_t at, size_t size,
			    struct short_piece *list, uint32_t most)
{
	uint32_t n = 0, to = 0;

	for (; n < most && to < size; n++) {
		struct ndarray_piece p = ndarray_locate(a, at + to);
		uint32_t len = (uint32_t)min_u64(p.len, size - to);
		uint32_t lo = p.block * a->block_nbytes + p.in_block;
		list[n] = (struct short_piece){p.chunk, lo, len, to};
		to += len;
	}
	return n;
}

/*
 * How many of the n sorted pieces lie together with the first, itself included; sets *bytes to
 * their length.
 */
static uint32_t count_joined(const struct short_piece *list, uint32_t n, uint32_t *bytes)
{
	uint32_t i = 1;

	for (*bytes = list->len; i < n; i++) {
		if (list[i].chunk != list->chunk || list[i].lo != list->lo + *bytes)
			break;
		*bytes += list[i].len;
	}
	return i;
}

/* Reads listed pieces into `room`, adjacent ones at once, and copies them to where they belong. */
static int read_listed(struct fetch *x, struct short_piece *list, uint32_t n, struct span room,
		       struct span dst)
{
	struct reply *whole = x->r, joined;
	int rc = 0;

	qsort(list, n, sizeof *list, by_place);
	x->r = &joined;
	while (rc >= 0 && n) {
		uint32_t bytes, count = count_joined(list, n, &bytes);
		const uint8_t *from = room.p;
		reply_begin_at(&joined, span_of(room.p, bytes));
		rc = file_read_piece(x, list->chunk, list->lo, bytes);
		reply_end(&joined, x->f->fs->cache);
		n -= count;
		for (; rc >= 0 && count; count--, from += list++->len)
			memcpy(dst.p + list->to, from, list->len);
	}
	x->r = whole;
	return rc;
}

static int read_short_pieces(struct fetch *x, uint64_t at, size_t size)
{
	const struct ndarray *a = &x->f->npy->array;
	/* each but the first and the last has at least one item */
	uint32_t most = (uint32_t)min_u64(SHORT_PIECES, size / a->item + 2);
	struct short_piece *list = mem_zalloc_array(most, sizeof *list);
	struct buf room = {0};
	struct span dst = reply_room(x->r, size);
	int rc = list ? buf_reserve_fresh(&room, size) : -ENOMEM;

	while (rc >= 0 && dst.n) {
		uint32_t n = list_pieces(a, at, dst.n, list, most);
		uint32_t len = list[n - 1].to + list[n - 1].len;
		rc = read_listed(x, list, n, span_of(room.p, len), dst);
		dst = span_from(dst, len);
		at += len;
	}
	buf_free(&room);
	mem_free(list);
	return rc;
}

/* Bytes of the array, which lie in the frame block after block. */
static int read_items(struct fetch *x, uint64_t at, size_t size)
{
	const struct ndarray *a = &x->f->npy->array;

	while (size) {
		struct ndarray_piece p = ndarray_locate(a, at);
		if (p.len < min_u64(size, SHORT_PIECE))
			return read_short_pieces(x, at, size);
		uint32_t len = (uint32_t)min_u64(p.len, size);
		TRY(file_read_piece(x, p.chunk, p.block * a->block_nbytes + p.in_block, len));
		size -= len;
		at += len;
	}
	return 0;
}

int file_read_npy(struct fetch *x, uint64_t at, size_t size)
{
	const struct npy *v = x->f->npy;

	if (at < v->head.n) {
		size_t len = min_u64(v->head.n - at, size);
		memcpy(reply_room(x->r, len).p, v->head.p + at, len);
		size -= len;
		at += len;
	}
	return size ? read_items(x, at - v->head.n, size) : 0;
}
