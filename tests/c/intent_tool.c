/*
 * The records of the intent log, without a mount.
 *
 *   intent_tool list FILE           position:length of each record of the log in FILE
 *   intent_tool hostile N SEED      N records with random or nearly valid content
 *   intent_tool touched N SEED      N rounds of random ranges, compared with a map of bytes
 */
#include "base/sum.h"
#include "fs/intent/record.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MUST(what)                                                                                 \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "intent_tool: %s:%d: %s\n", __FILE__, __LINE__, #what);    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static uint64_t state;

static uint64_t draw(uint64_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (state >> 33) % n;
}

static void list(const char *name)
{
	struct buf all = {0};
	struct stat st;
	int fd = open(name, O_RDONLY);

	if (fd < 0)
		return; /* no log, no records */
	MUST(fstat(fd, &st) == 0 && buf_reserve(&all, (size_t)st.st_size + 1) == 0);
	MUST(pread(fd, all.p, (size_t)st.st_size, 0) == st.st_size);
	struct view rest = view_of(all.p, (size_t)st.st_size);
	uint64_t generation = 0;
	for (uint64_t i = 0;; i++) {
		struct intent_record r;
		uint64_t len = intent_record_length(rest);
		if (!len || len > rest.n || intent_record_parse(&r, view_part(rest, 0, len)) < 0)
			break;
		if (i == 0)
			generation = r.generation;
		if (r.generation != generation || r.sequence != i)
			break;
		printf("%td:%" PRIu64 "\n", rest.p - all.p, len);
		rest = view_part(rest, len, rest.n - len);
	}
	buf_free(&all);
	close(fd);
}

static void sign(struct buf *b)
{
	put_le64(b->p + 16, sum64_not_0(view_of(b->p + INTENT_HEAD, b->n - INTENT_HEAD)));
	put_le64(b->p + 8, sum64_not_0(view_of(b->p + 16, INTENT_HEAD - 16)));
}

static struct intent_record make(struct buf *b, struct touched *t)
{
	struct span bytes;
	struct intent_record r = {.directory = 2,
				  .inode = 12,
				  .birth = 1700000000000000001,
				  .roots = {.durable = 100, .newest = 200},
				  .size = 1 << 20,
				  .mtime = {1700000000, 999999999}};

	touched_clear(t);
	for (uint64_t n = draw(20); n; n--)
		touched_add(t, draw((1 << 20) - 300), 1 + draw(300));
	MUST(intent_record_begin(b, &t->ranges, &bytes) == 0);
	for (size_t i = 0; i < bytes.n; i++)
		bytes.p[i] = (uint8_t)draw(256);
	intent_record_end(b, &r);
	intent_record_number(buf_span(b), 5, 3);
	return r;
}

static void is_as_made(const struct buf *b, const struct touched *t,
		       const struct intent_record *made)
{
	struct intent_record r;
	uint64_t sum = 0;

	MUST(intent_record_length(view_of(b->p, INTENT_HEAD)) == b->n && b->n % INTENT_ALIGN == 0);
	MUST(intent_record_parse(&r, buf_view(b)) == 0);
	MUST(r.generation == 5 && r.sequence == 3 && r.directory == 2 && r.inode == 12);
	MUST(r.roots.durable == 100 && r.roots.newest == 200 && r.size == made->size &&
	     r.mtime.tv_nsec == 999999999);
	MUST(r.nranges == t->ranges.n && r.bytes.n == ranges_bytes(&t->ranges));
	for (uint32_t i = 0; i < r.nranges; i++) {
		struct byte_range got = intent_record_range(&r, i), was = ranges_at(&t->ranges, i);
		MUST(got.lo == was.lo && got.hi == was.hi);
		sum += got.hi - got.lo;
	}
	MUST(sum == r.bytes.n);
}

/* A record that was accepted stays within its bounds. */
static void is_sound(const struct intent_record *r)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < r->nranges; i++) {
		struct byte_range t = intent_record_range(r, i);
		MUST(t.lo < t.hi && t.hi <= r->size);
		sum += t.hi - t.lo;
	}
	MUST(sum == r->bytes.n && r->roots.durable <= r->roots.newest && r->size <= INT64_MAX);
}

static bool accepts(const struct buf *b, uint64_t len)
{
	struct intent_record r;
	struct buf exact = {0}; /* so that the sanitizer sees a read past the end */

	MUST(buf_append(&exact, view_of(b->p, min_u64(len, b->n))) == 0);
	uint64_t says = intent_record_length(buf_view(&exact));
	bool ok = says && says <= exact.n && intent_record_parse(&r, view_of(exact.p, says)) == 0;
	if (ok)
		is_sound(&r);
	buf_free(&exact);
	return ok;
}

static void hostile(unsigned long rounds)
{
	struct buf b = {0};
	struct touched t = {0};
	unsigned long refused = 0;

	for (unsigned long i = 0; i < rounds; i++) {
		struct intent_record made = make(&b, &t);
		is_as_made(&b, &t, &made);
		MUST(!accepts(&b, draw(b.n)));
		size_t at = draw(b.n);
		uint8_t was = b.p[at];
		b.p[at] ^= (uint8_t)(1 + draw(255));
		MUST(!accepts(&b, b.n)); /* hashes cover all of it */
		b.p[at] = was;
		/* Valid hashes, but a wrong number somewhere in the head or the table. */
		at = 24 + draw(12 + 2 * t.ranges.n) * 8;
		put_le64(b.p + at, draw(2) ? draw(1 << 21) : UINT64_MAX - draw(1 << 21));
		sign(&b);
		refused += !accepts(&b, b.n);
	}
	MUST(refused > rounds / 2);
	touched_clear(&t);
	buf_free(&b);
}

static void touched(unsigned long rounds)
{
	static uint8_t map[5000];
	struct touched t = {0};

	for (unsigned long i = 0; i < rounds; i++) {
		memset(map, 0, sizeof map);
		for (uint64_t n = draw(60); n; n--) {
			uint64_t at = draw(4000), len = 1 + draw(draw(2) ? 1000 : 20);
			touched_add(&t, at, len);
			memset(map + at, 1, len);
		}
		uint64_t end = 0, bytes = 0;
		for (uint32_t k = 0; k < t.ranges.n; k++) {
			struct byte_range r = ranges_at(&t.ranges, k);
			MUST(r.lo < r.hi && (k == 0 || r.lo > end));
			end = r.hi;
			bytes += r.hi - r.lo;
			for (uint64_t x = r.lo; x < end; x++)
				map[x]--;
		}
		MUST(bytes == ranges_bytes(&t.ranges) && bytes <= t.bytes && !t.whole);
		for (size_t x = 0; x < sizeof map; x++)
			MUST(map[x] == 0);
		touched_clear(&t);
	}
	for (uint64_t i = 0; i <= TOUCHED_MAX_RANGES; i++)
		touched_add(&t, i * 10, 1);
	MUST(t.whole && t.ranges.n == 0);
	touched_clear(&t);
	for (uint64_t i = 0; i < 100; i++)
		touched_add(&t, 0, TOUCHED_MAX_BYTES / 2); /* the same place: never too much */
	MUST(!t.whole);
	touched_add(&t, TOUCHED_MAX_BYTES, TOUCHED_MAX_BYTES);
	MUST(t.whole);
	touched_clear(&t);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "list") == 0) {
		list(argv[2]);
		return 0;
	}
	MUST(argc == 4);
	state = strtoull(argv[3], NULL, 10);
	if (strcmp(argv[1], "hostile") == 0)
		hostile(strtoul(argv[2], NULL, 10));
	else if (strcmp(argv[1], "touched") == 0)
		touched(strtoul(argv[2], NULL, 10));
	else
		return 2;
	return 0;
}
