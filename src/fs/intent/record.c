#include "fs/intent/record.h"

#include "base/clock.h"
#include "base/sum.h"

#include <assert.h>

static const char magic[] = "cfintent";
#define MAGIC_SIZE (sizeof magic - 1)

enum {
	AT_HASH = 8,
	AT_BODY = 16,
	AT_LENGTH = 24,
	AT_GENERATION = 32,
	AT_SEQUENCE = 40,
	AT_DIRECTORY = 48,
	AT_INODE = 56,
	AT_DURABLE = 64,
	AT_NEWEST = 72,
	AT_SIZE = 80,
	AT_SEC = 88,
	AT_NSEC = 96,
	AT_NRANGES = 104,
	AT_NBYTES = 112,
	AT_BIRTH = 120,
};

#define RANGE_SIZE 16 /* of a range's offset and length */

static uint64_t whole_length(uint64_t nranges, uint64_t nbytes)
{
	return ceil_div(INTENT_HEAD + nranges * RANGE_SIZE + nbytes, INTENT_ALIGN) * INTENT_ALIGN;
}

static uint64_t head_hash(const uint8_t *p)
{
	return sum64_not_0(view_of(p + AT_BODY, INTENT_HEAD - AT_BODY));
}

int intent_record_begin(struct buf *out, const struct ranges *s, struct span *bytes)
{
	size_t before = INTENT_HEAD + (size_t)s->n * RANGE_SIZE, n = ranges_bytes(s);
	uint64_t len = whole_length(s->n, n);

	assert(s->n <= TOUCHED_MAX_RANGES && n <= TOUCHED_MAX_BYTES);
	TRY(buf_reserve_fresh(out, len));
	out->n = len;
	memset(out->p, 0, INTENT_HEAD);
	memcpy(out->p, magic, MAGIC_SIZE);
	put_le64(out->p + AT_LENGTH, len);
	put_le64(out->p + AT_NRANGES, s->n);
	put_le64(out->p + AT_NBYTES, n);
	for (uint32_t i = 0; i < s->n; i++) {
		uint8_t *p = out->p + INTENT_HEAD + i * RANGE_SIZE;
		struct byte_range r = ranges_at(s, i);
		put_le64(p, r.lo);
		put_le64(p + 8, r.hi - r.lo);
	}
	memset(out->p + before + n, 0, len - before - n);
	*bytes = span_of(out->p + before, n);
	return 0;
}

void intent_record_end(struct buf *out, const struct intent_record *r)
{
	put_le64(out->p + AT_DIRECTORY, r->directory);
	put_le64(out->p + AT_INODE, r->inode);
	put_le64(out->p + AT_BIRTH, r->birth);
	put_le64(out->p + AT_DURABLE, r->roots.durable);
	put_le64(out->p + AT_NEWEST, r->roots.newest);
	put_le64(out->p + AT_SIZE, r->size);
	put_le64(out->p + AT_SEC, (uint64_t)r->mtime.tv_sec);
	put_le64(out->p + AT_NSEC, (uint64_t)r->mtime.tv_nsec);
	struct view body = view_from(buf_view(out), INTENT_HEAD);
	put_le64(out->p + AT_BODY, sum64_not_0(body));
}

void intent_record_number(struct span record, uint64_t generation, uint64_t sequence)
{
	put_le64(record.p + AT_GENERATION, generation);
	put_le64(record.p + AT_SEQUENCE, sequence);
	put_le64(record.p + AT_HASH, head_hash(record.p));
}

uint64_t intent_record_length(struct view head)
{
	if (head.n < INTENT_HEAD || memcmp(head.p, magic, MAGIC_SIZE) != 0 ||
	    get_le64(head.p + AT_HASH) != head_hash(head.p))
		return 0;
	uint64_t len = get_le64(head.p + AT_LENGTH);
	uint64_t nranges = get_le64(head.p + AT_NRANGES), nbytes = get_le64(head.p + AT_NBYTES);
	if (nranges > TOUCHED_MAX_RANGES || nbytes > TOUCHED_MAX_BYTES)
		return 0;
	return len == whole_length(nranges, nbytes) ? len : 0;
}

uint64_t intent_record_generation(struct view head)
{
	return get_le64(head.p + AT_GENERATION);
}

struct byte_range intent_record_range(const struct intent_record *r, uint32_t i)
{
	const uint8_t *p = r->table.p + (size_t)i * RANGE_SIZE;
	uint64_t at = get_le64(p);
	return (struct byte_range){at, at + get_le64(p + 8)};
}

/* Anybody can make a matching hash, so what it covers is checked all the same. */
static int judge_ranges(const struct intent_record *r)
{
	uint64_t end = 0, sum = 0;

	for (uint32_t i = 0; i < r->nranges; i++) {
		struct byte_range t = intent_record_range(r, i);
		if (t.hi <= t.lo || t.hi - t.lo > r->bytes.n || (i && t.lo <= end))
			return CORRUPT("range of an intent record", t.lo);
		end = t.hi;
		if (end > r->size)
			return CORRUPT("range of an intent record ends past the file", t.lo);
		sum += t.hi - t.lo;
	}
	return sum == r->bytes.n ? 0 : CORRUPT("bytes of an intent record", sum);
}

int intent_record_parse(struct intent_record *r, struct view record)
{
	const uint8_t *p = record.p;

	if (intent_record_length(record) != record.n || record.n == 0)
		return CORRUPT("length of an intent record", record.n);
	if (get_le64(p + AT_BODY) != sum64_not_0(view_from(record, INTENT_HEAD)))
		return CORRUPT("hash of an intent record", record.n);
	*r = (struct intent_record){
		.generation = get_le64(p + AT_GENERATION),
		.sequence = get_le64(p + AT_SEQUENCE),
		.directory = get_le64(p + AT_DIRECTORY),
		.inode = get_le64(p + AT_INODE),
		.birth = get_le64(p + AT_BIRTH),
		.roots = {.durable = get_le64(p + AT_DURABLE), .newest = get_le64(p + AT_NEWEST)},
		.size = get_le64(p + AT_SIZE),
		.mtime = {(time_t)get_le64(p + AT_SEC), (long)get_le64(p + AT_NSEC)},
		.nranges = (uint32_t)get_le64(p + AT_NRANGES),
	};
	size_t table = (size_t)r->nranges * RANGE_SIZE;
	r->table = view_part(record, INTENT_HEAD, table);
	r->bytes = view_part(record, INTENT_HEAD + table, get_le64(p + AT_NBYTES));
	if (r->size > INT64_MAX || r->mtime.tv_nsec < 0 || r->mtime.tv_nsec >= (long)CLOCK_SECOND ||
	    r->roots.durable > r->roots.newest)
		return CORRUPT("head of an intent record", r->size);
	return judge_ranges(r);
}

int intent_record_judge(const struct frame_roots *built_on, const struct frame_roots *found)
{
	if (built_on->newest < found->newest)
		return 0;
	/*
	 * The header of the durable root was on the disk, so this root came later, whatever its
	 * number.
	 */
	if (found->emptied && found->newest < built_on->durable)
		return 0;
	if (!found->newest)
		return CORRUPT("another program wrote the frame since", built_on->newest);
	if (built_on->durable > found->newest)
		return CORRUPT("the frame is older than what was synced of it", found->newest);
	return 1;
}
