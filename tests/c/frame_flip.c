/*
 * Damages a frame in memory in all ways of one kind, and reads it each time. It
 * must not crash; meant for a build with sanitizers.
 *
 *   frame_flip FILE flip FIRST LAST   one bit, then all bits, of each byte in the range
 *   frame_flip FILE cut               every length from 0 to whole, in steps near the ends
 *   frame_flip FILE random N SEED     N times a few random bytes
 *   frame_flip FILE pieces FIRST LAST one bit of each byte, and each 4 KiB is read by itself
 *
 * Prints how often the frame was refused, had its old bytes, or other bytes; with `pieces`, how
 * many pieces were refused (also by a frame that went back to an older root), and so on.
 */
#include "frame/frame.h"
#include "frame/npy_header.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEP 65536u
#define PIECE 4096u
#define READ_LIMIT (4u << 20) /* a hole may claim to be huge */

static struct scratch *scratch;
static uint64_t good;
static unsigned refused, same, other;

/* FNV by words, since all bytes go through it thousands of times. */
static uint64_t fnv(uint64_t h, struct view v)
{
	size_t i = 0;
	for (uint64_t word; i + sizeof word <= v.n; i += sizeof word) {
		memcpy(&word, v.p + i, sizeof word);
		h = (h ^ word) * 0x100000001b3;
	}
	for (; i < v.n; i++)
		h = (h ^ v.p[i]) * 0x100000001b3;
	return h ^ h >> 32;
}

static void walk_metas(const struct frame *f, uint64_t *h)
{
	const struct frame_info *info = frame_info(f);
	static struct ndarray a;
	const char *name;
	struct view v;
	for (uint32_t i = 0; frame_meta_at(f, i, &name, &v); i++)
		*h ^= fnv(0, v) & 1;
	for (uint32_t i = 0; frame_vlmeta_at(f, i, &name, &v); i++)
		*h ^= fnv(0, v) & 1;
	uint8_t npy[NPY_HEADER_MAX];
	if (!frame_meta(f, "b2nd", &v))
		return;
	if (ndarray_parse(&a, v, info->type_size, info->chunk_size, info->nbytes) < 0)
		return;
	if (npy_header(&a, npy) < 0 || a.nbytes == 0)
		return;
	for (uint64_t at = 0, n = 0; at < a.nbytes && n < 1000; n++)
		at += ndarray_locate(&a, at).len;
}

static int read_all(struct frame *f, uint64_t *sum)
{
	static uint8_t bytes[STEP];
	uint64_t size = frame_size(f), h = 0xcbf29ce484222325 ^ size, ignore = 0;
	walk_metas(f, &ignore);
	for (uint64_t at = 0; at < size && at < READ_LIMIT; at += STEP) {
		struct span part = {bytes, min_u64(STEP, size - at)};
		TRY(frame_read(f, at, scratch, part));
		h = fnv(h, span_view(part));
	}
	*sum = h;
	return 0;
}

static int try_frame(struct view v, uint64_t *sum)
{
	struct frame_info info;
	struct frame *f;
	struct io *io;
	TRY(io_mem_open(&io, v));
	int probed = frame_probe(io, &info);
	TRY(frame_open_take(&f, io));
	if (probed < 0) {
		fprintf(stderr, "frame_open takes what frame_probe refuses\n");
		abort();
	}
	int rc = read_all(f, sum);
	frame_close(f);
	return rc;
}

static void judge(struct view v, uint64_t place)
{
	uint64_t sum = 0;
	if (try_frame(v, &sum) < 0) {
		refused++;
	} else if (sum == good) {
		same++;
	} else {
		other++;
		printf("other bytes: %" PRIu64 "\n", place);
	}
}

static void flip(struct view v, uint64_t first, uint64_t last)
{
	uint8_t *p = (uint8_t *)v.p;
	for (uint64_t at = first; at < last && at < v.n; at++)
		for (unsigned bit = 0; bit <= 8; bit++) {
			uint8_t mask = (uint8_t)(bit < 8 ? 1u << bit : 0xff);
			p[at] ^= mask;
			judge(v, at);
			p[at] ^= mask;
		}
}

static void judge_piece(struct frame *f, uint64_t at, struct view want, uint64_t place)
{
	uint8_t got[PIECE];
	if (frame_read(f, at, scratch, span_of(got, want.n)) < 0) {
		refused++;
	} else if (!memcmp(got, want.p, want.n)) {
		same++;
	} else {
		other++;
		printf("other bytes: %" PRIu64 "\n", place);
	}
}

/* Compares the frame in `v` with the bytes that it had. */
static void judge_pieces(struct view v, struct view want, uint64_t place)
{
	struct frame *f;
	struct io *io;
	if (io_mem_open(&io, v) < 0)
		abort();
	if (frame_open_take(&f, io) < 0) {
		refused++;
		return;
	}
	if (frame_went_back(f)) {
		refused++;
	} else if (frame_size(f) != want.n) {
		other++;
		printf("other size: %" PRIu64 "\n", place);
	} else {
		for (uint64_t at = 0; at < want.n; at += PIECE)
			judge_piece(f, at, view_part(want, at, min_u64(PIECE, want.n - at)), place);
	}
	frame_close(f);
}

static void pieces(struct view v, uint64_t first, uint64_t last)
{
	uint8_t *p = (uint8_t *)v.p;
	struct buf want = {0};
	struct frame *f;
	struct io *io;
	if (io_mem_open(&io, v) < 0 || frame_open_take(&f, io) < 0)
		abort();
	if (buf_reserve(&want, frame_size(f)) < 0)
		abort();
	want.n = frame_size(f);
	if (frame_read(f, 0, scratch, buf_span(&want)) < 0)
		abort();
	frame_close(f);
	for (uint64_t at = first; at < last && at < v.n; at++) {
		uint8_t mask = (uint8_t)(1u << at % 8);
		p[at] ^= mask;
		judge_pieces(v, buf_view(&want), at);
		p[at] ^= mask;
	}
	buf_free(&want);
}

static void cut(struct view v)
{
	for (size_t n = 0; n < v.n; n += n < 512 || v.n - n < 512 ? 1 : 97) {
		uint64_t sum;
		struct buf exact = {0}; /* so that a sanitizer sees the first byte too many */
		if (buf_append(&exact, view_part(v, 0, n)) < 0)
			abort();
		if (try_frame(buf_view(&exact), &sum) < 0)
			refused++;
		else
			same++;
		buf_free(&exact);
	}
}

static void shake(struct view v, uint64_t n, unsigned seed)
{
	uint8_t *p = (uint8_t *)v.p;
	while (n--) {
		size_t at[4];
		uint8_t was[4];
		for (int i = 0; i < 4; i++) {
			at[i] = (size_t)rand_r(&seed) % v.n;
			was[i] = p[at[i]];
			p[at[i]] = rand_r(&seed) & 1 ? 0xff : (uint8_t)rand_r(&seed);
		}
		uint64_t sum;
		if (try_frame(v, &sum) < 0)
			refused++;
		else
			same++;
		for (int i = 3; i >= 0; i--)
			p[at[i]] = was[i];
	}
}

int main(int argc, char **argv)
{
	struct buf b = {0};
	struct stat st;
	int fd = argc > 2 ? open(argv[1], O_RDONLY) : -1;
	if (fd < 0 || fstat(fd, &st) < 0 || buf_reserve(&b, (size_t)st.st_size) < 0)
		return 2;
	b.n = (size_t)st.st_size;
	if (read(fd, b.p, b.n) != (ssize_t)b.n || scratch_open(&scratch) < 0)
		return 2;
	close(fd);
	if (try_frame(buf_view(&b), &good) < 0)
		return 3;
	if (argv[2][0] == 'f')
		flip(buf_view(&b), strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
	else if (argv[2][0] == 'p')
		pieces(buf_view(&b), strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
	else if (argv[2][0] == 'c')
		cut(buf_view(&b));
	else
		shake(buf_view(&b), strtoull(argv[3], NULL, 10), (unsigned)atoi(argv[4]));
	printf("%u refused, %u same, %u other\n", refused, same, other);
	scratch_close(scratch);
	buf_free(&b);
	return 0;
}
