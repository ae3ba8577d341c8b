/*
 * sparse_frame FILE NCHUNKS: a frame of so many chunks of 1 MiB, each of one repeated item. A chunk
 * takes 40 bytes, and the index has as many different entries as that of a frame full of data: so
 * the bench gets a frame of 1 TiB in a few seconds, without 1 TiB.
 */
#include "frame/frame.h"

#include "codec/chunk.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#define CHUNK (1u << 20)
#define ITEM_MAX 8

/* A chunk that repeats one item of `size` bytes: the header says so, and the item follows. */
static uint32_t make_chunk(uint8_t out[static CHUNK_HEAD + ITEM_MAX], uint8_t size, uint8_t value)
{
	static const uint8_t head[CHUNK_HEAD] = {5, 1, 0x05};

	memcpy(out, head, sizeof head);
	out[3] = size;
	put_le32(out + 4, CHUNK);
	put_le32(out + 8, 64 << 10);
	put_le32(out + 12, CHUNK_HEAD + size);
	out[31] = 3 << 4; /* a repeated value */
	memset(out + CHUNK_HEAD, value, size);
	return CHUNK_HEAD + size;
}

/*
 * Lengths differ as those of real chunks do: offsets in equal steps would make a very small index.
 */
static int fill(struct frame *f, uint32_t nchunks)
{
	uint8_t chunk[CHUNK_HEAD + ITEM_MAX];

	TRY(frame_resize(f, (uint64_t)nchunks * CHUNK));
	for (uint32_t n = 0; n < nchunks; n++) {
		uint8_t size = (uint8_t)(1u << (n * 2654435761u >> 30)); /* 1, 2, 4, 8 */
		uint32_t len = make_chunk(chunk, size, (uint8_t)(n | 1));
		struct frame_place place;
		TRY(frame_alloc(f, n, len, &place));
		TRY(frame_write(f, &place, view_of(chunk, len)));
		frame_put(f, n, &place);
	}
	return frame_commit(f, COMMIT_LATER);
}

static int make(const char *name, uint32_t nchunks)
{
	struct pipeline p;
	struct frame *f;
	struct io *io;

	pipeline_default(&p);
	int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	TRY(io_file_open_take(&io, fd));
	TRY(frame_create_take(&f, io, &p, CHUNK));
	int rc = fill(f, nchunks);
	frame_close(f);
	return rc;
}

int main(int argc, char **argv)
{
	char text[ERR_TEXT_MAX];
	long nchunks = argc == 3 ? strtol(argv[2], NULL, 10) : 0;

	if (nchunks < 1 || nchunks > 1 << 24) {
		fprintf(stderr, "usage: sparse_frame FILE NCHUNKS\n");
		return 2;
	}
	int rc = make(argv[1], (uint32_t)nchunks);
	if (rc < 0)
		fprintf(stderr, "sparse_frame: %s: %s\n", argv[1], err_text(rc, text));
	return rc < 0;
}
