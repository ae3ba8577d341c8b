#include "frame/ndarray.h"

#include "codec/chunk.h"
#include "frame/format/msgpack.h"

#include <assert.h>

/*
 * Markers are skipped, not checked: 16 dimensions overflow the marker of a short array (FORMAT.md
 * 14.1). Lowers *least to the number.
 */
static uint64_t read_dim(struct cursor *c, bool wide, int64_t *least)
{
	cursor_skip(c, 1);
	int64_t n = wide ? (int64_t)cursor_be64(c) : (int64_t)(int32_t)cursor_be32(c);
	*least = n < *least ? n : *least;
	return (uint64_t)n;
}

static int parse_dims(struct ndarray *a, struct cursor *c)
{
	int64_t least = 0;
	cursor_skip(c, 1);
	for (int i = 0; i < a->ndim; i++)
		a->shape[i] = read_dim(c, true, &least);
	cursor_skip(c, 1);
	for (int i = 0; i < a->ndim; i++)
		a->chunkshape[i] = (uint32_t)read_dim(c, false, &least);
	cursor_skip(c, 1);
	for (int i = 0; i < a->ndim; i++)
		a->blockshape[i] = (uint32_t)read_dim(c, false, &least);
	if (c->bad)
		return CORRUPT("b2nd metalayer is cut", c->src.n);
	return least < 0 ? CORRUPT("negative size in a shape", least) : 0;
}

static int parse_dtype(struct ndarray *a, struct cursor *c)
{
	if (cursor_left(c) == 0) /* caterva, the predecessor of b2nd, had none */
		return 0;
	cursor_skip(c, 1); /* format: 0 is NumPy, and no other was ever defined */
	struct view text = msgpack_bytes32(c, MSGPACK_STR32);
	if (c->bad)
		return CORRUPT("dtype is cut, or has a wrong marker", c->at);
	if (text.n >= NDARRAY_MAX_DTYPE)
		return UNSUPPORTED("length of the dtype", text.n);
	if (text.n && memchr(text.p, 0, text.n))
		return CORRUPT("dtype holds a NUL", text.n);
	a->dtype = text;
	return 0;
}

struct products {
	uint64_t items, grid, chunk, block;
};

static int multiply_all(const struct ndarray *a, struct products *p)
{
	bool over = false;
	*p = (struct products){1, 1, a->item, a->item};
	/* Overflow is an error even if a later zero makes the product 0. */
	for (int i = 0; i < a->ndim; i++) {
		uint64_t c = a->chunkshape[i], b = a->blockshape[i];
		over |= mul_overflows(p->items, a->shape[i], &p->items);
		over |= mul_overflows(p->grid, c ? ceil_div(a->shape[i], c) : 0, &p->grid);
		over |= mul_overflows(p->chunk, b ? ceil_div(c, b) * b : 0, &p->chunk);
		over |= mul_overflows(p->block, b, &p->block);
	}
	over |= mul_overflows(p->items, a->item, &p->items);
	if (over || p->items > INT64_MAX)
		return CORRUPT("array is too large", a->ndim);
	if (p->chunk > CHUNK_MAX_NBYTES || p->block > CHUNK_MAX_NBYTES)
		return CORRUPT("chunk of the array is too large", p->chunk);
	return 0;
}

static int judge_geometry(struct ndarray *a, uint32_t chunk_size, uint64_t frame_nbytes)
{
	struct products p;
	uint64_t total;
	for (int i = 0; i < a->ndim; i++) {
		uint32_t c = a->chunkshape[i], b = a->blockshape[i];
		if ((!c || !b) && (c || b || a->shape[i]))
			return CORRUPT("a chunk or block without items", i);
	}
	TRY(multiply_all(a, &p));
	a->nbytes = p.items;
	a->nchunks = p.items ? p.grid : 0;
	a->chunk_nbytes = (uint32_t)p.chunk;
	a->block_nbytes = (uint32_t)p.block;
	if (a->nchunks && a->chunk_nbytes != chunk_size)
		return CORRUPT("chunk size of array and frame differ", a->chunk_nbytes);
	if (mul_overflows(a->nchunks, p.chunk, &total) || total != frame_nbytes)
		return CORRUPT("array and frame differ in size", frame_nbytes);
	if (a->nchunks > UINT32_MAX)
		return CORRUPT("too many chunks", a->nchunks);
	return 0;
}

int ndarray_parse(struct ndarray *a, struct view meta, uint32_t item, uint32_t chunk_size,
		  uint64_t frame_nbytes)
{
	struct cursor c = cursor_of(meta);
	assert(item > 0);
	*a = (struct ndarray){.item = item};
	cursor_skip(&c, 2); /* marker and version */
	a->ndim = cursor_u8(&c);
	if (c.bad)
		return CORRUPT("b2nd metalayer is cut", meta.n);
	if (a->ndim > NDARRAY_MAX_DIM)
		return CORRUPT("too many dimensions", a->ndim);
	TRY(parse_dims(a, &c));
	TRY(parse_dtype(a, &c));
	return judge_geometry(a, chunk_size, frame_nbytes);
}

/* One dimension of a position: the chunk, the block in it, and the item in that. */
struct place {
	uint64_t x;
	/* left: items of the array from here to the end of the block */
	uint32_t chunk, block, pos, left;
};

static struct place place_of(const struct ndarray *a, int i, uint64_t x)
{
	uint32_t c = a->chunkshape[i], b = a->blockshape[i];
	uint32_t r = (uint32_t)(x % c);
	struct place p = {.x = x, .chunk = (uint32_t)(x / c), .block = r / b, .pos = r % b};
	p.left = (uint32_t)min_u64(min_u64(b - p.pos, c - r), a->shape[i] - x);
	return p;
}

/* True: a row along dimension i lies entirely in one block, without padding. */
static bool row_is_whole(const struct ndarray *a, int i)
{
	return a->shape[i] == a->blockshape[i] && a->chunkshape[i] >= a->shape[i];
}

struct ndarray_piece ndarray_locate(const struct ndarray *a, uint64_t at)
{
	struct place pl[NDARRAY_MAX_DIM];
	uint64_t rest = at / a->item, chunk = 0, block = 0, pos = 0, len = 1;
	uint32_t byte = (uint32_t)(at % a->item);
	bool whole = true;
	assert(at < a->nbytes);
	for (int i = a->ndim - 1; i >= 0; i--) {
		pl[i] = place_of(a, i, rest % a->shape[i]);
		rest /= a->shape[i];
	}
	for (int i = 0; i < a->ndim; i++) {
		uint32_t c = a->chunkshape[i], b = a->blockshape[i];
		chunk = chunk * ceil_div(a->shape[i], c) + pl[i].chunk;
		block = block * ceil_div(c, b) + pl[i].block;
		pos = pos * b + pl[i].pos;
	}
	/*
	 * From the innermost dimension outwards, as long as the dimensions further in are whole
	 * rows.
	 */
	uint64_t inner = 1, into = 0; /* items of inner dimensions, and the position in these */
	for (int i = a->ndim - 1; i >= 0 && whole; i--) {
		len = pl[i].left * inner - into;
		into += pl[i].x * inner;
		inner *= a->shape[i];
		whole = row_is_whole(a, i);
	}
	return (struct ndarray_piece){
		.chunk = (uint32_t)chunk,
		.block = (uint32_t)block,
		.in_block = (uint32_t)(pos * a->item + byte),
		.len = (uint32_t)(len * a->item - byte),
	};
}

/*
 * Finds out where block r->block of the chunk lies in the array, and how much of it is not padding.
 * If it is all padding, because it lies beyond the end of the array in one dimension, so are the
 * blocks after it in that dimension: r->next skips them.
 */
static void enter_block(struct ndarray_runs *r)
{
	const struct ndarray *a = r->a;
	uint32_t chunk = r->chunk, block = r->block;
	bool any = true, whole = true;
	uint64_t row = 1; /* blocks in a row of dimension i */

	r->next = (uint64_t)block + 1;
	r->len = a->item;
	r->outer = a->ndim;
	for (int i = a->ndim - 1; i >= 0; i--) {
		uint32_t c = a->chunkshape[i], b = a->blockshape[i];
		uint32_t grid = (uint32_t)ceil_div(a->shape[i], c);
		uint32_t across = (uint32_t)ceil_div(c, b);
		uint32_t off = block % across * b;
		r->start[i] = (uint64_t)(chunk % grid) * c + off;
		chunk /= grid;
		block /= across;
		row *= across;
		r->pos[i] = 0;
		r->n[i] = r->start[i] >= a->shape[i]
				  ? 0
				  : (uint32_t)min_u64(min_u64(b, c - off),
						      a->shape[i] - r->start[i]);
		if (!r->n[i]) {
			any = false;
			r->next = (r->block / row + 1) * row;
		}
		if (whole) {
			r->len *= r->n[i];
			r->outer = i;
			whole = row_is_whole(a, i);
		}
	}
	r->in_block = any;
}

struct ndarray_runs ndarray_runs_of(const struct ndarray *a, uint32_t chunk, uint32_t lo,
				    uint32_t hi)
{
	struct ndarray_runs r = {.a = a, .chunk = chunk, .lo = lo, .hi = hi};
	assert(lo <= hi && hi <= a->chunk_nbytes && chunk < a->nchunks);
	if (lo < hi) {
		r.block = lo / a->block_nbytes;
		enter_block(&r);
	}
	return r;
}

/* Returns the next run of the block, uncut, and advances. */
static struct ndarray_run take_run(struct ndarray_runs *r)
{
	const struct ndarray *a = r->a;
	uint64_t at = 0, pos = 0;
	int i;

	for (i = 0; i < a->ndim; i++) {
		at = at * a->shape[i] + r->start[i] + r->pos[i];
		pos = pos * a->blockshape[i] + r->pos[i];
	}
	for (i = r->outer - 1; i >= 0 && ++r->pos[i] == r->n[i]; i--)
		r->pos[i] = 0;
	r->in_block = i >= 0;
	return (struct ndarray_run){
		.at = at * a->item,
		.in_chunk = (uint32_t)(r->block * a->block_nbytes + pos * a->item),
		.len = r->len,
	};
}

bool ndarray_runs_next(struct ndarray_runs *r, struct ndarray_run *run)
{
	while (r->lo < r->hi) {
		if (!r->in_block) {
			if (r->next * r->a->block_nbytes >= r->hi)
				break;
			r->block = (uint32_t)r->next;
			enter_block(r);
			continue;
		}
		*run = take_run(r);
		uint32_t end = (uint32_t)min_u64(run->in_chunk + (uint64_t)run->len, r->hi);
		if (end <= r->lo || run->in_chunk >= r->hi)
			continue;
		uint32_t cut = run->in_chunk < r->lo ? r->lo - run->in_chunk : 0;
		run->at += cut;
		run->in_chunk += cut;
		run->len = end - run->in_chunk;
		return true;
	}
	return false;
}
