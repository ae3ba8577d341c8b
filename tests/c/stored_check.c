/*
 * The head of a chunk at the end of a file is loaded, whatever length is guessed for the chunk; a
 * chunk that is cut off is refused. Its blocks are compared with their checksums in steps, however
 * long they are.
 */
#include "base/buf.h"
#include "codec/scratch.h"
#include "frame/io/hash.h"
#include "frame/stored.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM 100000

static void check(bool right, const char *what, size_t guess)
{
	if (right)
		return;
	fprintf(stderr, "guess %zu: %s\n", guess, what);
	exit(1);
}

static struct buf make(struct scratch *s, struct view src, uint32_t blocksize)
{
	struct buf out = {0};
	struct pipeline p;

	pipeline_default(&p);
	p.blocksize = blocksize;
	check(chunk_encode(s, &p, src, &out) >= 0, "not encoded", 0);
	return out;
}

static int load(struct scratch *s, struct view bytes, uint32_t guess, struct chunk *c)
{
	struct stored st = {.at = 0, .room = ROOM};

	memset(c, 0, sizeof *c);
	if (io_mem_open(&st.io, bytes) < 0)
		return -ENOMEM;
	int rc = stored_load(&st, guess, s, c);
	io_close(st.io);
	return rc;
}

static void look(struct scratch *s, struct view src)
{
	struct buf bytes = make(s, src, 0);
	struct chunk c;

	for (uint32_t guess = 0; guess < bytes.n + 3000; guess += 1 + guess / 8) {
		check(load(s, buf_view(&bytes), guess, &c) == 0, "not loaded", guess);
		check(c.nbytes == src.n && c.cbytes == bytes.n, "another chunk", guess);
		chunk_deinit(&c);
		for (size_t cut = 0; cut < CHUNK_HEAD; cut++) {
			int rc = load(s, view_of(bytes.p, cut), guess, &c);
			check(rc == -EBADMSG, "loaded though it is cut off", guess);
			chunk_deinit(&c);
		}
	}
	buf_free(&bytes);
}

/* A file in memory, which notes the longest read. */
struct watched {
	struct io io;
	struct view bytes;
	size_t longest;
};

static int watched_pread(struct io *io, uint64_t at, struct span dst)
{
	struct watched *w = (struct watched *)io;

	if (at > w->bytes.n || dst.n > w->bytes.n - at)
		return -EBADMSG;
	w->longest = max_u64(w->longest, dst.n);
	memcpy(dst.p, w->bytes.p + at, dst.n);
	return 0;
}

static void compare(struct scratch *s, struct view src, uint32_t blocksize)
{
	static const struct io_ops ops = {.pread = watched_pread};
	struct buf bytes = make(s, src, blocksize);
	struct watched w = {.io = {&ops}, .bytes = buf_view(&bytes)};
	struct stored st = {.io = &w.io, .room = bytes.n};
	struct chunk c = {0};

	check(stored_load(&st, 0, s, &c) == 0 && c.sums, "no checksums", blocksize);
	check(stored_check_blocks(&st, &c, s) == 0, "sound, but refused", blocksize);
	check(w.longest <= IO_STEP, "too much at once", blocksize);
	for (uint32_t b = 0; b < c.nblocks; b++) {
		uint8_t *last = bytes.p + c.bend[b] - 1;
		*last ^= 1;
		check(stored_check_blocks(&st, &c, s) == -EBADMSG, "damage unseen", blocksize);
		*last ^= 1;
	}
	chunk_deinit(&c);
	buf_free(&bytes);
}

int main(void)
{
	static uint8_t src[200000], noise[1000000];
	struct scratch *s;

	if (scratch_open(&s) < 0)
		return 1;
	look(s, view_of(src, 7)); /* one repeated byte */
	for (size_t i = 0; i < sizeof src; i++)
		src[i] = (uint8_t)(i * i >> 7);
	look(s, view_of(src, 5));
	look(s, view_of(src, 3000));
	look(s, view_of(src, sizeof src));
	for (size_t i = 0; i < sizeof noise; i++)
		noise[i] = (uint8_t)(i * 0x9e3779b97f4a7c15u >> 56 ^ i * i * i >> 13);
	compare(s, view_of(noise, sizeof noise), 20000);
	compare(s, view_of(noise, sizeof noise), 300000);
	scratch_close(s);
	return 0;
}
