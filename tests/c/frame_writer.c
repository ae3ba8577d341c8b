/*
 * Writes chunks into space of a frame while another thread changes the frame: frame_writer FILE
 * ROUNDS. In the end all chunks must be there. Mainly for the thread sanitizer.
 */
#include "frame/frame.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define CHUNKS 4u
#define CHUNK (64u << 10)

static struct frame *frame;
static struct buf encoded;
static struct frame_place place[CHUNKS];
static uint8_t plain[CHUNK], all[CHUNKS * CHUNK];

static void *fill(void *unused)
{
	(void)unused;
	for (unsigned i = 0; i < CHUNKS; i++)
		if (frame_write(frame, &place[i], buf_view(&encoded)) < 0)
			return "cannot write";
	return NULL;
}

static int change(struct pipeline *p)
{
	for (unsigned i = 0; i < 20; i++) {
		p->typesize = 1 + i % 2 * 3;
		frame_set_pipeline(frame, p);
		TRY(frame_commit(frame, COMMIT_PART));
	}
	return 0;
}

static int go_round(struct pipeline *p)
{
	pthread_t thread;
	void *why = NULL;
	for (unsigned i = 0; i < CHUNKS; i++)
		TRY(frame_alloc(frame, i, (uint32_t)encoded.n, &place[i]));
	if (pthread_create(&thread, NULL, fill, NULL))
		return -ENOMEM;
	int rc = change(p);
	pthread_join(thread, &why);
	if (rc < 0 || why)
		return rc < 0 ? rc : -EIO;
	for (unsigned i = 0; i < CHUNKS; i++)
		frame_put(frame, i, &place[i]);
	return frame_commit(frame, COMMIT_LATER);
}

static int go(const char *file, unsigned rounds)
{
	struct pipeline p;
	struct scratch *s;
	struct io *io;
	int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (fd < 0)
		return -errno;
	pipeline_default(&p);
	p.blocksize = CHUNK / 4;
	for (unsigned i = 0; i < CHUNK; i++)
		plain[i] = (uint8_t)(i >> 6 ^ i % 7);
	TRY(scratch_open(&s));
	TRY(chunk_encode(s, &p, view_of(plain, CHUNK), &encoded));
	TRY(io_file_open_take(&io, fd));
	TRY(frame_create_take(&frame, io, &p, CHUNK));
	TRY(frame_resize(frame, sizeof all));
	for (unsigned i = 0; i < rounds; i++)
		TRY(go_round(&p));
	TRY(frame_read(frame, 0, s, span_of(all, sizeof all)));
	for (unsigned i = 0; i < CHUNKS; i++)
		if (memcmp(all + (size_t)i * CHUNK, plain, CHUNK) != 0)
			return -EIO;
	frame_close(frame);
	buf_free(&encoded);
	scratch_close(s);
	return 0;
}

int main(int argc, char **argv)
{
	int rc = argc == 3 ? go(argv[1], (unsigned)atoi(argv[2])) : -EINVAL;
	if (rc < 0)
		fprintf(stderr, "%d\n", rc);
	return rc < 0;
}
