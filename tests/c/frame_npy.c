/*
 * Writes the array of a .b2nd frame as an .npy file, in the pieces that ndarray_locate finds:
 * frame_npy FILE [STEP] > out.npy. STEP is the longest piece, so that pieces also start in the
 * middle of contiguous items.
 */
#include "frame/frame.h"
#include "frame/npy_header.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

static int write_piece(struct frame *f, const struct ndarray *a, struct scratch *s, uint64_t at,
		       uint32_t *len)
{
	struct ndarray_piece p = ndarray_locate(a, at);
	uint64_t pos = (uint64_t)p.chunk * a->chunk_nbytes + (uint64_t)p.block * a->block_nbytes +
		       p.in_block;
	struct buf b = {0};
	if (p.len == 0 || p.in_block + (uint64_t)p.len > a->block_nbytes || p.len > a->nbytes - at)
		abort();
	*len = (uint32_t)min_u64(*len, p.len);
	int rc = buf_reserve(&b, *len);
	if (rc == 0)
		rc = frame_read(f, pos, s, span_of(b.p, *len));
	if (rc == 0)
		fwrite(b.p, 1, *len, stdout);
	buf_free(&b);
	return rc;
}

static int run(struct frame *f, struct scratch *s, uint32_t step)
{
	static struct ndarray a;
	static uint8_t head[NPY_HEADER_MAX];
	const struct frame_info *info = frame_info(f);
	struct view meta;
	if (!frame_meta(f, "b2nd", &meta))
		return -EINVAL;
	TRY(ndarray_parse(&a, meta, info->type_size, info->chunk_size, info->nbytes));
	int n = npy_header(&a, head);
	TRY(n);
	fwrite(head, 1, (size_t)n, stdout);
	for (uint64_t at = 0; at < a.nbytes;) {
		uint32_t len = step;
		TRY(write_piece(f, &a, s, at, &len));
		at += len;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct frame *f = NULL;
	struct scratch *s;
	struct io *io;
	char text[ERR_TEXT_MAX];
	int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
	if (fd < 0 || io_file_open_take(&io, fd) < 0 || scratch_open(&s) < 0)
		return 2;
	int rc = frame_open_take(&f, io);
	if (rc == 0)
		rc = run(f, s, argc > 2 ? (uint32_t)atoi(argv[2]) : UINT32_MAX);
	if (rc < 0)
		fprintf(stderr, "%s\n", err_text(rc, text));
	frame_close(f);
	scratch_close(s);
	return rc < 0;
}
