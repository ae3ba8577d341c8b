/*
 * Compares our reader of Zstandard with the library's.
 *
 *   unzstd_check SECONDS SEED [FILE...]
 *
 * tries lengths near limits with each kind of bytes, then random mixtures of them or pieces of the
 * files, in frames by our encoder and by all levels of the library, with random blocks. Source and
 * result end, or begin, at a page that is not mapped. Plain frames must be decoded; frames with
 * changed bytes must be refused, or give what the library gives. The front of a frame has the same
 * bytes when it is decoded by itself, and can be decoded whenever the whole can. Prints "no reader"
 * if there is none for the processor.
 */
#include "base/buf.h"
#include "codec/kernels/cpu.h"
#include "codec/kernels/kernels.h"
#include "codec/zstd/fast.h"
#include "zstd_kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <zstd.h>

#define STREAM_MAX (300u << 10)
#define ROOM (STREAM_MAX + (16u << 10))
#define PAGE 4096u

static uint64_t round_seed;
static unsigned long decoded, changed, taken;
static struct kernels kernels;
static struct unzstd *reader;
static struct zstd_work *work;
static ZSTD_CCtx *cctx;
static ZSTD_DCtx *dctx;
static uint8_t *frame_area, *bytes_area, expected[ROOM];
static struct view *files;
static size_t nfiles;

static void fail(const char *what, size_t n)
{
	printf("%s: a stream of %zu bytes, seed %llu\n", what, n, (unsigned long long)round_seed);
	exit(1);
}

/* ROOM bytes between pages that are not mapped. */
static uint8_t *area_open(void)
{
	uint8_t *p = mmap(NULL, ROOM + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || mprotect(p + PAGE, ROOM, PROT_READ | PROT_WRITE) < 0)
		abort();
	return p + PAGE;
}

static uint8_t *place(uint8_t *area, size_t n, bool at_end)
{
	return at_end ? area + ROOM - n : area;
}

/* Decodes into dst; only the first `front` bytes are wanted. */
static bool read_front(struct view src, struct span dst, size_t front)
{
	memset(dst.p, 0xA5, dst.n);
	return kernels.get_zstd(&reader, src, dst, front);
}

/* Returns whether it was decoded. want.p: NULL if the result is not known. */
static bool try_frame(struct view frame, struct view want)
{
	bool at_end = below(4) != 0;
	uint8_t *from = place(frame_area, frame.n, at_end);
	struct view src = view_of(from, frame.n);
	struct span dst = {place(bytes_area, want.n, at_end), want.n};
	size_t front = below(want.n + 1);
	memcpy(from, frame.p, frame.n);
	if (!read_front(src, dst, want.n)) {
		(void)read_front(src, dst, front); /* the error may be after it */
		return false;
	}
	if (!want.p && ZSTD_decompressDCtx(dctx, expected, want.n, frame.p, frame.n) != want.n)
		fail("taken, but the library refuses it", want.n);
	if (!want.p)
		want.p = expected;
	if (memcmp(dst.p, want.p, want.n))
		fail("other bytes", want.n);
	if (!read_front(src, dst, front))
		fail("the front is refused", front);
	if (memcmp(dst.p, want.p, front))
		fail("other bytes in the front", front);
	return true;
}

/* A frame by the library, of any level, whose blocks end at random places. */
static size_t library_frame(struct view src, struct span dst)
{
	ZSTD_CCtx_reset(cctx, ZSTD_reset_session_and_parameters);
	ZSTD_CCtx_setParameter(cctx, ZSTD_c_compressionLevel, (int)below(25) - 5);
	if (below(2))
		return ZSTD_compress2(cctx, dst.p, dst.n, src.p, src.n);
	ZSTD_CCtx_setPledgedSrcSize(cctx, src.n);
	ZSTD_outBuffer out = {dst.p, dst.n, 0};
	size_t at = 0, left = 0;
	do {
		size_t part = 1 + below(below(4) ? 5000 : src.n);
		part = part < src.n - at ? part : src.n - at;
		ZSTD_inBuffer in = {src.p + at, part, 0};
		at += part;
		left = ZSTD_compressStream2(cctx, &out, &in,
					    at < src.n ? ZSTD_e_flush : ZSTD_e_end);
		if (ZSTD_isError(left) || left)
			return 0;
	} while (at < src.n);
	return out.pos;
}

#define HEADER_MAX 9

static void change(uint8_t *p, size_t *n, struct view other)
{
	for (size_t i = 1 + below(3); i; i--) {
		size_t from = below(8) ? HEADER_MAX : 0, reach = *n;
		if (reach > 200 && below(2))
			reach = 200;
		if (reach <= from)
			return;
		size_t at = from + below(reach - from), most = *n - at;
		switch (below(5)) {
		case 0: p[at] = (uint8_t)next_random(); break;
		case 1: p[at] ^= (uint8_t)(1 << below(8)); break;
		case 2: p[at] += (uint8_t)(below(5) - 2); break;
		case 3: *n = below(4) ? *n : at + 1; break;
		default:
			most = most < other.n ? most : other.n;
			most = 1 + below(most < 40 ? most : 40);
			memcpy(p + at, other.p + below(other.n - most + 1), most);
		}
	}
}

static void try_changed(struct view frame, size_t n)
{
	static uint8_t other[ROOM], p[ROOM];
	static size_t other_n;
	size_t len = frame.n;
	if (!other_n)
		memcpy(other, frame.p, other_n = frame.n);
	for (int i = 0; i < 10 && len > HEADER_MAX; i++) {
		len = frame.n;
		memcpy(p, frame.p, len);
		change(p, &len, view_of(other, other_n));
		changed++;
		taken += try_frame(view_of(p, len), view_of(NULL, n));
	}
	memcpy(other, frame.p, other_n = frame.n);
}

static void try_bytes(const uint8_t *bytes, size_t n)
{
	static uint8_t frame[ROOM];
	struct view src = view_of(bytes, n);
	struct cuts cuts = random_cuts(n);
	bool own = below(2);
	int level = 1 + (int)below(2);
	ssize_t len = own ? zstd_fast(work, level, src, &cuts, span_of(frame, ROOM))
			  : (ssize_t)library_frame(src, span_of(frame, ROOM));
	if (len <= 0 || (size_t)len > ROOM)
		return;
	/* What is not the window may be left to the library. */
	if (!try_frame(view_of(frame, (size_t)len), src) && frame[4] & ZSTD_SINGLE_SEGMENT)
		fail("a plain frame is refused", n);
	decoded++;
	try_changed(view_of(frame, (size_t)len), n);
}

/* A piece of a file, usually after a filter. */
static size_t piece(uint8_t *bytes, size_t n)
{
	struct view v = files[below(nfiles)];
	size_t size = (size_t)1 << below(4), from = below(v.n), plane;
	n = n < v.n - from ? n : v.n - from;
	plane = n / size;
	for (size_t i = 0; i < plane * size; i++)
		bytes[i % size * plane + i / size] = v.p[from + i];
	memcpy(bytes + plane * size, v.p + from + plane * size, n - plane * size);
	return n;
}

static void map_files(char **name, size_t n)
{
	files = calloc(n + 1, sizeof *files);
	for (size_t i = 0; i < n; i++) {
		FILE *f = fopen(name[i], "rb");
		if (!f || fseek(f, 0, SEEK_END) < 0)
			continue;
		size_t size = (size_t)ftell(f);
		void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fileno(f), 0);
		fclose(f);
		if (size && p != MAP_FAILED)
			files[nfiles++] = view_of(p, size);
	}
}

static void setup(void)
{
	kernels_init(&kernels, cpu_features());
	work = calloc(1, sizeof *work);
	if (!work || !(cctx = ZSTD_createCCtx()) || !(dctx = ZSTD_createDCtx()))
		abort();
	work->put_codes = kernels.put_codes;
	frame_area = area_open();
	bytes_area = area_open();
}

int main(int argc, char **argv)
{
	static uint8_t bytes[STREAM_MAX];
	if (argc < 3)
		return 2;
	time_t end = time(NULL) + atoi(argv[1]);
	setup();
	if (!kernels.get_zstd) {
		puts("no reader");
		return 0;
	}
	map_files(argv + 3, (size_t)argc - 3);
	round_seed = strtoull(argv[2], NULL, 10) | 1;
	state = round_seed;
	if (!nfiles)
		sweep(bytes, try_bytes);
	unsigned long rounds = 0;
	do {
		round_seed = round_seed * 6364136223846793005u + 1442695040888963407u;
		state = round_seed | 1;
		size_t n = random_length(STREAM_MAX);
		if (nfiles)
			n = piece(bytes, n);
		else
			mixture(bytes, n);
		try_bytes(bytes, n);
		rounds++;
	} while (time(NULL) < end);
	printf("%lu rounds, %lu frames read, %lu of %lu changed ones taken\n", rounds, decoded,
	       taken, changed);
	mem_free(reader);
	ZSTD_freeCCtx(cctx);
	ZSTD_freeDCtx(dctx);
	free(work);
	free(files);
	return 0;
}
