#include "frame/policy/policy.h"

#include "codec/filter.h"

/* The item size of chunks of this pipeline. */
static uint32_t item_size(const struct pipeline *p)
{
	return p->typesize <= CHUNK_MAX_TYPESIZE ? p->typesize : 1;
}

/* A block of whole items, at least one. */
static uint32_t round_block(uint32_t block, uint32_t item)
{
	return block < item ? item : block - block % item;
}

void policy_init(struct policy *p)
{
	*p = (struct policy){.items = 1};
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->next, NULL);
}

void policy_deinit(struct policy *p)
{
	pthread_cond_destroy(&p->next);
	pthread_mutex_destroy(&p->lock);
}

/* Notes the item size in the filters, so that recover_item finds it in the frame's header. */
static void note_item(struct pipeline *p)
{
	filters_note_item(p->filter, p->meta, p->typesize);
}

/*
 * The pipeline that a frame's header names, with the item size from the filter parameters, and
 * without lossy filters: another program may have rounded its own arrays by them, but what is
 * written through the mount has to read back unchanged.
 */
static struct pipeline recover_item(const struct frame *f, uint32_t typesize)
{
	struct pipeline p = frame_info(f)->pipeline;

	p.typesize = typesize;
	if (p.typesize == 1)
		p.typesize = filters_noted_item(p.filter, p.meta);
	for (int i = 0; i < FILTER_SLOTS; i++) {
		const struct filter *row = filter_by_id(p.filter[i]);
		if (row && row->loses)
			p.filter[i] = p.meta[i] = 0;
	}
	p.blocksize = frame_block_size(f, p.typesize);
	return p;
}

struct pipeline policy_for_header(const struct settings *s)
{
	struct pipeline p = s->pipeline;
	note_item(&p);
	return p;
}

void policy_follow(struct policy *p, const struct settings *s, struct frame *f)
{
	static const enum tune_aim aims[] = {
		[SETTINGS_TUNE_OFF] = TUNE_BALANCED, [SETTINGS_TUNE_BALANCED] = TUNE_BALANCED,
		[SETTINGS_TUNE_SIZE] = TUNE_SIZE, [SETTINGS_TUNE_SPEED] = TUNE_SPEED,
	};
	bool empty = frame_size(f) == 0;
	uint32_t item = frame_info(f)->pipeline.typesize;

	if (!empty && item == 1) /* a partial item at the end may make the header say 1 */
		item = frame_chunk_item(f);
	struct pipeline own = recover_item(f, item);
	p->pipeline = empty || pipeline_check(&own, NULL) < 0 ? s->pipeline : own;
	p->items = item_size(empty ? &p->pipeline : &own);
	if (s->insist_pipeline)
		p->pipeline = s->pipeline;
	else if (s->insist_blocksize)
		p->pipeline.blocksize = round_block(s->pipeline.blocksize, item_size(&p->pipeline));
	/* Frames made by other programs keep their pipeline. */
	p->tuned = s->tune != SETTINGS_TUNE_OFF && (empty || s->insist || frame_is_ours(f));
	p->goal = (struct tune_goal){.aim = aims[s->tune],
				     .base = s->pipeline,
				     .free_codec = s->free_level,
				     .free_blocksize = s->free_blocksize};
	p->level_auto = s->level_auto;
	p->chosen = p->unnamed = false;
	p->since = 0;
	p->report = (struct tune_report){0};
	if (empty && p->tuned)
		p->items = 0; /* until the first choice */
	if (!empty && p->items > 1 && frame_is_ours(f))
		frame_expect_items(f, p->items);
	p->in_bytes = !empty && frame_chunk_item(f) == 1;
}

static bool add_filter(struct pipeline *out, int *n, uint8_t filter, uint8_t meta)
{
	if (*n == FILTER_SLOTS)
		return false;
	out->filter[*n] = filter;
	out->meta[(*n)++] = meta;
	return true;
}

/* The same filters with typesize 1; false: they have no such form (delta), and *out has none. */
static bool bytewise(const struct pipeline *p, struct pipeline *out)
{
	uint8_t item = (uint8_t)p->typesize;
	bool fits = p->typesize <= CHUNK_MAX_TYPESIZE, shuffled = false;
	int n = 0;

	*out = *p;
	if (p->typesize == 1)
		return true;
	pipeline_drop_filters(out);
	out->typesize = 1;
	for (int i = 0; fits && i < FILTER_SLOTS; i++) {
		uint8_t meta = p->meta[i];
		switch (p->filter[i]) {
		case FILTER_NONE: continue;
		case FILTER_SHUFFLE:
		case FILTER_BYTEDELTA:
			fits = add_filter(out, &n, p->filter[i], meta ? meta : item);
			break;
		case FILTER_BITSHUFFLE:
			/*
			 * It ignores its parameter, so a shuffle has to come first; but not a
			 * second shuffle, since the reference cannot map a file with three filters
			 * (FORMAT.md 18).
			 */
			fits = (shuffled || add_filter(out, &n, FILTER_SHUFFLE, item)) &&
			       add_filter(out, &n, FILTER_BITSHUFFLE, 0);
			break;
		default: fits = false;
		}
		shuffled = p->filter[i] == FILTER_SHUFFLE && out->meta[n - 1] == item;
	}
	if (!fits)
		pipeline_drop_filters(out);
	return fits;
}

static uint32_t block_size(const struct pipeline *p)
{
	return p->blocksize ? p->blocksize : SETTINGS_BLOCKSIZE;
}

/* Sets a block size that is not a multiple of the item size: no chunk of whole items has such. */
static void set_odd_blocks(const struct policy *p, struct pipeline *out, size_t nbytes)
{
	uint32_t block = block_size(out);

	if (p->items > 1 && block > p->items)
		block -= block % p->items + 1;
	block = (uint32_t)min_u64(block, nbytes);
	out->blocksize = p->items > 1 && block % p->items == 0 ? block - 1 : block;
}

/*
 * True: bytewise blocks of size `block` may stand beside blocks of items: they are smaller, so a
 * reader gets new buffers for the latter, or so much larger that their buffers are big enough.
 */
static bool is_apart(uint32_t block, const struct pipeline *p, uint32_t items)
{
	uint32_t whole = block_size(p) - block_size(p) % items;
	return block < whole || block - whole >= 4 * items;
}

/* True: a file of this size may have chunks of whole items. */
static bool whole_items(const struct policy *p, uint32_t items, uint64_t size, uint32_t chunk_size)
{
	return !p->in_bytes && size % items == 0 && chunk_size % items == 0;
}

/*
 * Sets *out to p->pipeline, in the form that this chunk may have: with the file's items, or with
 * typesize 1, and then without filters if these have no such form.
 */
static void fit(const struct policy *p, const struct policy_chunk *c, struct pipeline *out)
{
	struct pipeline items = p->pipeline, bytes;

	filters_imply_item(items.filter, items.meta, items.typesize);
	bool has_form = bytewise(&items, &bytes);
	bool whole = whole_items(p, p->items, c->file_size, c->chunk_size);
	if (whole && items.typesize == 1 && filters_are_none(items.filter))
		items.typesize = p->items;
	bool has_items = items.typesize > 1 && items.typesize == p->items;
	/* Without a bytewise form: the reference will refuse slices that cut an item. */
	if (has_items && (whole || (!has_form && !p->in_bytes))) {
		*out = items;
		return;
	}
	*out = bytes;
	set_odd_blocks(p, out, c->plain.n);
}

static int choose(struct policy *p, struct scratch *s, const struct policy_chunk *c)
{
	struct tune_input in = {.sample = c->plain, .offset = c->offset};

	bool good = p->chosen && tune_still_good(s, &p->report, p->since, c->plain);
	p->since += c->plain.n;
	if (good)
		return 0;
	p->goal.whole = p->items;
	p->chosen = false; /* a failed choice leaves an incomplete report */
	TRY(tune_choose(s, &p->goal, &in, &p->pipeline, &p->report));
	p->chosen = true;
	p->since = c->plain.n;
	if (!p->items) {
		p->items = item_size(&p->pipeline);
		p->first = p->pipeline;
		p->unnamed = true;
	}
	return 0;
}

static bool deserves_choice(const struct policy *p, struct scratch *s, struct view chunk)
{
	return p->tuned && (chunk.n >= TUNE_MIN || (!p->items && tune_stands_out(s, chunk)));
}

/* For files too small for a choice: they are mostly text and code, and treated as such. */
static void begin_small(struct policy *p)
{
	uint8_t level = p->pipeline.level;

	if (p->tuned)
		tune_raise_level(&p->goal, &p->pipeline);
	p->items = 1;
	p->first = p->pipeline;
	p->unnamed = p->pipeline.level != level;
}

uint64_t policy_turn(struct policy *p)
{
	pthread_mutex_lock(&p->lock);
	uint64_t turn = p->given++;
	pthread_mutex_unlock(&p->lock);
	return turn;
}

/*
 * Caller holds the lock. Waits only for running jobs, and thus only for a moment, since jobs start
 * in the order of their turns.
 */
static void turn_begin(struct policy *p, uint64_t turn)
{
	while (p->now < turn)
		pthread_cond_wait(&p->next, &p->lock);
}

static void turn_end(struct policy *p, uint64_t turn)
{
	if (p->now != turn)
		return;
	p->now++;
	pthread_cond_broadcast(&p->next);
}

void policy_pass(struct policy *p, uint64_t turn)
{
	pthread_mutex_lock(&p->lock);
	turn_begin(p, turn);
	turn_end(p, turn);
	pthread_mutex_unlock(&p->lock);
}

int policy_choose(struct policy *p, struct scratch *s, const struct policy_chunk *c,
		  struct pipeline *out)
{
	int rc = 0;

	pthread_mutex_lock(&p->lock);
	turn_begin(p, c->turn);
	if (deserves_choice(p, s, c->plain))
		rc = choose(p, s, c);
	else if (!p->items)
		begin_small(p);
	if (rc >= 0)
		fit(p, c, out);
	turn_end(p, c->turn);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

void policy_lend(struct policy *p, struct frame *f, struct policy_origin *out)
{
	out->pipeline = recover_item(f, frame_info(f)->pipeline.typesize);
	pthread_mutex_lock(&p->lock);
	out->items = p->items;
	pthread_mutex_unlock(&p->lock);
}

static bool may_adopt(const struct policy *p, const struct frame *f, const struct policy_origin *o)
{
	return (frame_size(f) == 0 || !p->items) && o->items &&
	       o->items == item_size(&o->pipeline) &&
	       pipeline_check(&o->pipeline, NULL) >= 0;
}

/* True: the chunk may stand beside chunks with the items of such an origin. */
static bool stands_beside(const struct policy *p, const struct policy_guest *g,
			  const struct policy_origin *o)
{
	uint32_t items = o->items;

	if (g->typesize > 1)
		return g->typesize == items && whole_items(p, items, g->file_size, g->chunk_size);
	return items == 1 ||
	       (items && g->blocksize % items && is_apart(g->blocksize, &p->goal.base, items) &&
		is_apart(g->blocksize, &o->pipeline, items));
}

static void adopt(struct policy *p, struct frame *f, const struct policy_origin *o)
{
	struct pipeline header = o->pipeline;

	p->items = o->items;
	p->pipeline = o->pipeline;
	p->chosen = p->unnamed = false;
	note_item(&header);
	frame_set_pipeline(f, &header);
}

bool policy_admit(struct policy *p, struct frame *f, const struct policy_guest *g)
{
	pthread_mutex_lock(&p->lock);
	const struct policy_origin own = {.items = p->items, .pipeline = p->pipeline};
	bool adopts = may_adopt(p, f, g->origin);
	bool fits = stands_beside(p, g, adopts ? g->origin : &own);
	if (adopts && fits)
		adopt(p, f, g->origin);
	pthread_mutex_unlock(&p->lock);
	return fits;
}

struct pipeline policy_header(struct policy *p)
{
	pthread_mutex_lock(&p->lock);
	struct pipeline out = p->pipeline;
	pthread_mutex_unlock(&p->lock);
	note_item(&out);
	return out;
}

struct pipeline policy_beside(struct policy *p, const uint8_t filter[FILTER_SLOTS])
{
	struct pipeline out = policy_header(p);

	if (p->tuned && p->goal.free_codec && !filters_are_none(filter))
		out.level = (uint8_t)min_u64(out.level, p->goal.base.level);
	return out;
}

uint32_t policy_block_most(struct policy *p)
{
	pthread_mutex_lock(&p->lock);
	uint32_t most = p->items == 1 ? block_size(&p->pipeline) : 0;
	pthread_mutex_unlock(&p->lock);
	return most;
}

bool policy_first_choice(struct policy *p, struct pipeline *out)
{
	pthread_mutex_lock(&p->lock);
	bool unnamed = p->unnamed;
	p->unnamed = false;
	*out = p->first;
	pthread_mutex_unlock(&p->lock);
	note_item(out);
	return unnamed;
}

bool policy_wants_bytewise(struct policy *p, uint64_t size, uint32_t chunk_size)
{
	pthread_mutex_lock(&p->lock);
	bool wants = p->items > 1 && !whole_items(p, p->items, size, chunk_size);
	pthread_mutex_unlock(&p->lock);
	return wants;
}
