/*
 * Many threads read one frame at once, each in its own order: frame_readers FILE
 * THREADS ROUNDS. All must read the bytes that one thread read before. Also for the thread
 * sanitizer.
 */
#include "frame/frame.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static struct frame *frame;
static struct buf expect;
static unsigned rounds;

static void *reader(void *arg)
{
	unsigned seed = (unsigned)(size_t)arg;
	struct scratch *s;
	uint8_t *mine = mem_zalloc(expect.n + 1);
	if (!mine || scratch_open(&s) < 0)
		return "no memory";
	char *failed = NULL;
	for (unsigned i = 0; i < rounds && !failed; i++) {
		size_t at = (size_t)rand_r(&seed) % expect.n;
		size_t n = (size_t)rand_r(&seed) % (i % 4 ? 5000 : expect.n);
		n = min_u64(n, expect.n - at);
		if (frame_read(frame, at, s, span_of(mine, n)) < 0)
			failed = "cannot read";
		else if (memcmp(mine, expect.p + at, n) != 0)
			failed = "other bytes";
	}
	scratch_close(s);
	mem_free(mine);
	return failed;
}

static int open_and_read(const char *file)
{
	struct scratch *s;
	struct io *io;
	int fd = open(file, O_RDONLY);
	if (fd < 0)
		return -errno;
	TRY(io_file_open_take(&io, fd));
	TRY(frame_open_take(&frame, io));
	TRY(scratch_open(&s));
	expect.n = frame_size(frame);
	size_t n = expect.n;
	expect.n = 0;
	TRY(buf_reserve(&expect, n));
	expect.n = n;
	int rc = frame_read(frame, 0, s, buf_span(&expect));
	scratch_close(s);
	return rc;
}

int main(int argc, char **argv)
{
	pthread_t thread[16];
	int n = argc == 4 ? atoi(argv[2]) : 0, failures = 0;
	if (n < 1 || n > 16 || open_and_read(argv[1]) < 0 || expect.n == 0)
		return 2;
	rounds = (unsigned)atoi(argv[3]);
	for (int i = 0; i < n; i++)
		if (pthread_create(&thread[i], NULL, reader, (void *)(size_t)(i + 1)))
			return 2;
	for (int i = 0; i < n; i++) {
		void *why = NULL;
		pthread_join(thread[i], &why);
		if (why)
			fprintf(stderr, "%s\n", (char *)why);
		failures += why != NULL;
	}
	frame_close(frame);
	buf_free(&expect);
	return failures != 0;
}
