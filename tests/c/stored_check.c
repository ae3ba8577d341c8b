/*
 * A chunk at the end of a file, though more bytes may belong to it: its head is loaded whatever
 * length is guessed for it, and a chunk that is cut off is not.
 */
#include "base/buf.h"
#include "codec/scratch.h"
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

static struct buf make(struct scratch *s, struct view src)
{
	struct buf out = {0};
	struct pipeline p;

	pipeline_default(&p);
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
	struct buf bytes = make(s, src);
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

int main(void)
{
	static uint8_t src[200000];
	struct scratch *s;

	if (scratch_open(&s) < 0)
		return 1;
	look(s, view_of(src, 7)); /* one repeated byte */
	for (size_t i = 0; i < sizeof src; i++)
		src[i] = (uint8_t)(i * i >> 7);
	look(s, view_of(src, 5));
	look(s, view_of(src, 3000));
	look(s, view_of(src, sizeof src));
	scratch_close(s);
	return 0;
}
