/*
 * How large does a file get that is rewritten at random again and again?
 *
 *   frame_rewrite FILE MIB CHUNKSIZE TIMES PIPELINE SEED
 *
 * Makes a frame of MIB MiB, overwrites runs of its chunks until TIMES its size was written, commits
 * without waiting when frame_wants_commit says so and now and then, opens it again and again, and
 * compares all bytes each time. Prints "live N most N", the live bytes and the longest file.
 */
#include "frame/frame.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static struct {
	struct frame *f;
	struct scratch *s;
	struct pipeline p;
	const char *name;
	uint8_t *model;
	uint64_t size, most, live;
	uint32_t chunk;
} r;

static uint64_t seed;

static uint64_t draw(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

/* Bytes that compress more or less, so that the sizes of chunks differ. */
static void scribble(uint8_t *p, uint32_t n)
{
	unsigned bits = (unsigned)draw(8);
	for (uint32_t i = 0; i < n; i += 8) {
		draw(1);
		uint64_t x = seed & (0x0101010101010101u * (uint64_t)(0xffu >> bits));
		memcpy(p + i, &x, min_u64(8, n - i));
	}
}

static int put(uint32_t n)
{
	struct frame_span sp = frame_chunk_span(r.f, n);
	struct buf packed = {0};
	struct frame_place place;
	scribble(r.model + sp.start, sp.len);
	int rc = chunk_encode(r.s, &r.p, view_of(r.model + sp.start, sp.len), &packed);
	if (rc == 0)
		rc = frame_alloc(r.f, n, (uint32_t)packed.n, &place);
	if (rc == 0)
		rc = frame_write(r.f, &place, buf_view(&packed));
	if (rc == 0)
		frame_put(r.f, n, &place);
	buf_free(&packed);
	return rc;
}

static int commit(enum durability how)
{
	struct stat st;
	TRY(frame_commit(r.f, how));
	if (stat(r.name, &st) < 0)
		return -errno;
	r.most = max_u64(r.most, (uint64_t)st.st_size);
	return 0;
}

static int compare(void)
{
	uint8_t *got = malloc(r.chunk);
	int rc = got ? 0 : -ENOMEM;
	for (uint32_t n = 0; rc == 0 && n < frame_nchunks(r.f); n++) {
		struct frame_span sp = frame_chunk_span(r.f, n);
		rc = frame_read_chunk(r.f, n, r.s, span_of(got, sp.len));
		if (rc == 0 && memcmp(got, r.model + sp.start, sp.len) != 0)
			rc = CORRUPT("bytes of a chunk", n);
	}
	free(got);
	return rc;
}

static int reopen(int flags)
{
	struct io *io;
	frame_close(r.f);
	r.f = NULL;
	int fd = open(r.name, O_RDWR | flags | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	TRY(io_file_open_take(&io, fd));
	if (flags)
		return frame_create_take(&r.f, io, &r.p, r.chunk);
	TRY(frame_open_take(&r.f, io));
	return compare();
}

static int measure(void)
{
	struct buf b = {0};
	uint64_t live = 0;
	for (uint32_t n = 0; n < frame_nchunks(r.f); n++) {
		if (frame_slot(r.f, n) != SLOT_STORED)
			continue;
		TRY(frame_read_raw(r.f, n, &b));
		live += b.n;
	}
	r.live = max_u64(r.live, live);
	buf_free(&b);
	return 0;
}

static int run(uint64_t times)
{
	TRY(reopen(O_CREAT | O_EXCL));
	TRY(frame_resize(r.f, r.size));
	for (uint32_t n = 0; n < frame_nchunks(r.f); n++)
		TRY(put(n));
	TRY(commit(COMMIT_LATER));
	TRY(measure());
	for (uint64_t done = 0, opened = 0; done < times * r.size;) {
		uint32_t n = (uint32_t)draw(frame_nchunks(r.f)), run = 1 + (uint32_t)draw(4);
		for (; run-- && n < frame_nchunks(r.f); n++, done += r.chunk)
			TRY(put(n));
		if (frame_wants_commit(r.f) || draw(64) == 0)
			TRY(commit(COMMIT_LATER));
		if (done / r.size == opened)
			continue;
		opened++;
		TRY(commit(draw(2) ? COMMIT_SYNC : COMMIT_LATER));
		TRY(measure());
		TRY(reopen(0));
	}
	return commit(COMMIT_SYNC);
}

int main(int argc, char **argv)
{
	char why[ERR_TEXT_MAX];
	if (argc != 7)
		return 2;
	r.name = argv[1];
	r.size = strtoull(argv[2], NULL, 10) << 20;
	r.chunk = (uint32_t)strtoul(argv[3], NULL, 10);
	seed = strtoull(argv[6], NULL, 10) * 0x9e3779b97f4a7c15 + 1;
	pipeline_default(&r.p);
	r.model = calloc(1, r.size);
	int rc = r.model ? pipeline_parse(&r.p, argv[5], NULL) : -ENOMEM;
	if (rc == 0)
		rc = scratch_open(&r.s);
	if (rc == 0)
		rc = run(strtoull(argv[4], NULL, 10));
	printf("live %" PRIu64 " most %" PRIu64 "\n", r.live, r.most);
	if (rc < 0)
		printf("%s\n", err_text(rc, why));
	frame_close(r.f);
	scratch_close(r.s);
	free(r.model);
	return rc < 0;
}
