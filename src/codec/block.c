#include "codec/block.h"
#include "codec/scratch_impl.h"

#include <assert.h>

static struct filter_arg arg_of(const struct block_plan *p, unsigned step, struct view ref)
{
	return (struct filter_arg){
		.typesize = p->typesize,
		.param = p->step[step].param,
		.ref = ref,
		.blosc1 = p->blosc1,
	};
}

/* Undoes the first filter, which is the last one to be undone, and not delta. */
static void undo_first(const struct block_plan *p, struct scratch *s, struct view from, uint8_t *to)
{
	struct filter_arg arg = arg_of(p, 0, view_of(NULL, 0));
	filter_run(p->step[0].row->backward, &s->kernels, &arg, from, to);
}

void block_add_filter(struct block_plan *p, const struct filter *row, uint32_t param)
{
	assert(p->nsteps < FILTER_SLOTS);
	struct filter_arg arg = {.typesize = p->typesize, .param = param};
	if (row->idle && row->idle(&arg))
		return;
	p->step[p->nsteps++] = (struct filter_step){row, param};
}

static int streams_decode(const struct block_plan *p, const struct block *b, struct cursor *in,
			  struct span dst)
{
	size_t each = dst.n / b->nstreams;
	assert(each * b->nstreams == dst.n);
	if (b->bare)
		return stream_expand(&p->coder, in->src, dst);
	for (uint32_t i = 0; i < b->nstreams; i++)
		TRY(stream_decode(&p->coder, in, span_of(dst.p + i * each, each)));
	return 0;
}

/* Lists the steps to undo, in that order. Returns their number. */
static unsigned steps_back(const struct block_plan *p, enum block_form form,
			   unsigned order[static FILTER_SLOTS])
{
	unsigned n = 0;
	for (unsigned i = p->nsteps; i-- > 0;)
		if (p->step[i].row->backward)
			order[n++] = i;
	if (form == BLOCK_PACKED) {
		assert(n && order[n - 1] == 0);
		n--;
	}
	return n;
}

/*
 * Gets the filtered bytes, room.n of them: decoded to `room`, or in place if stored as plain bytes.
 */
static int filtered_bytes(const struct block_plan *p, const struct block *b, struct cursor *in,
			  struct span room, struct view *out)
{
	if (b->nstreams == 1 && !b->bare) {
		*out = stream_plain(in, room.n);
		if (out->p)
			return 0;
	}
	*out = span_view(room);
	return streams_decode(p, b, in, room);
}

int block_decode(const struct block_plan *p, struct scratch *s, const struct block *b,
		 struct view stored, struct span dst)
{
	struct cursor in = cursor_of(stored);
	unsigned order[FILTER_SLOTS], n = steps_back(p, b->form, order);
	if (!n)
		return streams_decode(p, b, &in, dst);

	struct view from;
	TRY(scratch_work(s, n, dst.n));
	TRY(filtered_bytes(p, b, &in, span_of(s->work[0].p, dst.n), &from));
	/* The first filter may read work[0], and so writes to work[1], if not to dst. */
	for (unsigned i = 0; i < n; i++) {
		struct filter_arg arg = arg_of(p, order[i], b->ref);
		uint8_t *to = i + 1 == n ? dst.p : s->work[(i + 1) & 1].p;
		filter_run(p->step[order[i]].row->backward, &s->kernels, &arg, from, to);
		from.p = to;
	}
	return 0;
}

size_t block_work(const struct block_plan *p, enum block_form form, size_t len)
{
	unsigned order[FILTER_SLOTS];
	return len * min_u64(steps_back(p, form, order), 2); /* the two of scratch_work */
}

int block_filter(const struct block_plan *p, struct scratch *s, const struct block *b,
		 struct view src, struct view *out)
{
	*out = src;
	if (!p->nsteps)
		return 0;
	TRY(scratch_work(s, p->nsteps, src.n));
	for (unsigned i = 0; i < p->nsteps; i++) {
		struct filter_arg arg = arg_of(p, i, b->ref);
		uint8_t *to = s->work[i & 1].p;
		filter_run(p->step[i].row->forward, &s->kernels, &arg, *out, to);
		out->p = to;
	}
	return 0;
}

/* How many contiguous planes a filter produces; 1: none. */
static uint32_t planes_of(const struct block_plan *p, const struct filter_step *step)
{
	switch (step->row->id) {
	case FILTER_SHUFFLE: return step->param ? step->param : p->typesize;
	case FILTER_BITSHUFFLE: return 8 * p->typesize;
	default: return 1;
	}
}

static uint32_t count_parts(const struct block_plan *p)
{
	uint64_t parts = 1;
	for (unsigned i = 0; i < p->nsteps && parts <= UINT16_MAX; i++)
		parts *= planes_of(p, &p->step[i]);
	return parts <= UINT16_MAX ? (uint32_t)parts : 1;
}

static bool has_bitshuffle(const struct block_plan *p)
{
	for (unsigned i = 0; i < p->nsteps; i++)
		if (p->step[i].row->id == FILTER_BITSHUFFLE)
			return true;
	return false;
}

bool block_can_pack(const struct block_plan *p)
{
	return p->nsteps && !p->blosc1 && planes_of(p, &p->step[0]) > 1;
}

/* A unit is one byte of each plane. */
struct units {
	size_t first, n;
};

/* Undoes the filter for these units. The scratch must have room for them. */
static void unpack_units(const struct block_plan *p, struct scratch *s, struct view planes,
			 struct units units, uint8_t *dst)
{
	uint32_t n = planes_of(p, &p->step[0]);
	size_t each = planes.n / n;

	if (units.n < each) {
		uint8_t *to = s->work[0].p;
		for (uint32_t i = 0; i < n; i++, to += units.n)
			bytes_copy(to, planes.p + i * each + units.first, units.n);
		planes = view_of(s->work[0].p, n * units.n);
	}
	undo_first(p, s, planes, dst);
}

int block_unpack(const struct block_plan *p, struct scratch *s, struct view packed, size_t lo,
		 struct span dst)
{
	size_t unit = planes_of(p, &p->step[0]), whole = packed.n - packed.n % unit,
	       hi = lo + dst.n;

	assert(block_can_pack(p) && hi <= packed.n);
	if (lo < whole) {
		size_t end = min_u64(hi, whole);
		struct units u = {lo / unit, ceil_div(end, unit) - lo / unit};
		bool fits = lo % unit == 0 && end % unit == 0;
		TRY(scratch_work(s, 2, u.n * unit));
		unpack_units(p, s, view_part(packed, 0, whole), u, fits ? dst.p : s->work[1].p);
		if (!fits)
			bytes_copy(dst.p, s->work[1].p + lo % unit, end - lo);
	}
	if (hi > whole) {
		size_t from = max_u64(lo, whole);
		memcpy(dst.p + (from - lo), packed.p + from, hi - from);
	}
	return 0;
}

bool block_has_parts(const struct block_plan *p, const struct scratch *s, uint32_t nstreams)
{
	const struct codec *codec = p->coder.codec;
	if (!codec->decode_front || (codec->has_front && !codec->has_front(&s->kernels)))
		return false;
	if (!p->nsteps)
		return nstreams == 1;
	return p->nsteps == 1 && p->step[0].row->id == FILTER_SHUFFLE && nstreams > 1 &&
	       planes_of(p, &p->step[0]) == nstreams;
}

/*
 * Gets at least the first n bytes of the next stream, of room.n bytes: decoded to `room`, or in
 * place if stored as plain bytes. NULL: not possible.
 */
static const uint8_t *stream_front(const struct block_plan *p, struct cursor *in, struct span room,
				   size_t n)
{
	struct view plain = stream_plain(in, room.n);
	if (plain.p)
		return plain.p;
	return stream_decode_front(&p->coder, in, room, n) ? room.p : NULL;
}

/* For a block in one stream, without filters. */
static bool decode_front(const struct block_plan *p, struct scratch *s, struct view stored,
			 struct block_part part, struct span dst)
{
	struct cursor in = cursor_of(stored);
	if (scratch_work(s, 1, part.whole) < 0)
		return false;
	struct span room = {s->work[0].p, part.whole};
	const uint8_t *front = stream_front(p, &in, room, part.lo + dst.n);
	if (front)
		memcpy(dst.p, front + part.lo, dst.n);
	return front != NULL;
}

/* For a shuffled block with a stream for each plane: decodes the wanted units from each stream. */
static bool decode_units(const struct block_plan *p, struct scratch *s, struct view stored,
			 struct block_part part, struct span dst)
{
	struct cursor in = cursor_of(stored);
	size_t n = planes_of(p, &p->step[0]), end = ceil_div(part.lo + dst.n, n);
	struct units u = {part.lo / n, end - part.lo / n};
	if (scratch_work(s, 2, max_u64(part.whole / n, u.n * n)) < 0)
		return false;
	struct span room = {s->work[1].p, part.whole / n};
	for (size_t i = 0; i < n; i++) {
		const uint8_t *plane = stream_front(p, &in, room, end);
		if (!plane)
			return false;
		memcpy(s->work[0].p + i * u.n, plane + u.first, u.n);
	}
	bool fits = u.n * n == dst.n;
	uint8_t *to = fits ? dst.p : s->work[1].p;
	undo_first(p, s, view_of(s->work[0].p, u.n * n), to);
	if (!fits)
		memcpy(dst.p, to + part.lo % n, dst.n);
	return true;
}

bool block_decode_part(const struct block_plan *p, struct scratch *s, struct view stored,
		       struct block_part part, struct span dst)
{
	assert(dst.n && dst.n <= part.whole && part.lo <= part.whole - dst.n);
	return p->nsteps ? decode_units(p, s, stored, part, dst)
			 : decode_front(p, s, stored, part, dst);
}

int block_plan_cuts(struct block_plan *p, struct scratch *s, const struct block *b, struct view src)
{
	uint32_t parts = count_parts(p);
	struct view v;
	if (parts < 2 || !p->coder.codec->encode_cut || b->nstreams > 1)
		return 0;
	TRY(block_filter(p, s, b, src, &v));
	p->coder.cuts = cuts_find(v, parts);
	p->coder.cuts.bits = has_bitshuffle(p);
	return 0;
}

ssize_t block_estimate(struct block_plan *p, struct scratch *s, struct view sample)
{
	const struct codec *codec = p->coder.codec;
	const struct block b = {.nstreams = 1};
	struct cuts cuts = {0};
	struct view v;
	if (!codec->estimate)
		return 0;
	TRY(block_filter(p, s, &b, sample, &v));
	if (codec->encode_cut)
		cuts = cuts_even(v.n, count_parts(p));
	cuts.bits = has_bitshuffle(p);
	return codec->estimate(p->coder.state, v, &cuts);
}

ssize_t block_encode(const struct block_plan *p, struct scratch *s, const struct block *b,
		     struct view src, struct span dst)
{
	struct view v;
	TRY(block_filter(p, s, b, src, &v));
	size_t each = v.n / b->nstreams, at = 0;
	assert(each * b->nstreams == v.n);
	for (uint32_t i = 0; i < b->nstreams; i++) {
		ssize_t n = stream_encode(&p->coder, view_part(v, i * each, each),
					  span_from(dst, at));
		if (n <= 0)
			return n;
		at += (size_t)n;
	}
	return (ssize_t)at;
}
