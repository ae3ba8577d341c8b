/*
 * Hostile frames: whatever is in a file, opening it as a frame, reading, verifying and changing it
 * gives bytes or an error, and touches nothing else. Meant for a build with sanitizers. All ways to
 * read a block have to agree; what was stored in a frame is read back, and what a commit has
 * written can be opened, with nothing to recover.
 *
 *   frame_fuzz SECONDS SEED FILE...
 *
 * tries the files as they are, then with changes; after most of them the checksums of root, chunk
 * and blocks are made right again, so that the change itself is what is tested (fuzz_loop.h).
 * Built with clang as frame_fuzz_libfuzzer, libFuzzer drives the same function.
 */
#include "base/sum.h"
#include "codec/block_sums.h"
#include "frame/chunk_sum.h"
#include "frame/era.h"
#include "frame/format/header.h"
#include "frame/format/trailer.h"
#include "frame/frame.h"
#include "frame/held.h"
#include "frame/ndarray.h"
#include "frame/npy_header.h"
#include "frame/root.h"
#include "fuzz_loop.h"

#define MEMORY (64u << 20)    /* that reading may take                                         */
#define PUT_MOST (128u << 10) /* chunks longer than that become holes instead                  */
#define MODEL 4096            /* chunks whose content is remembered                            */
#define CHUNKS_MOST 4000      /* a frame does not grow beyond that                             */

static struct scratch *scratch;

static void insist(bool holds, const char *what)
{
	if (holds)
		return;
	const struct err_note *note = err_last();
	fprintf(stderr, "frame_fuzz: not so: %s (last error: %s)\n", what, note->what);
	abort();
}

/* ---- Reading ---- */

static void try_metalayers(struct frame *f)
{
	const struct frame_info *info = frame_info(f);
	static struct ndarray array;
	uint8_t npy[NPY_HEADER_MAX];
	const char *name;
	struct view v;
	for (uint32_t i = 0; frame_meta_at(f, i, &name, &v); i++)
		(void)sum64(v);
	for (uint32_t i = 0; frame_vlmeta_at(f, i, &name, &v); i++)
		(void)sum64(v);
	if (!frame_meta(f, "b2nd", &v) ||
	    ndarray_parse(&array, v, info->type_size, info->chunk_size, info->nbytes) < 0 ||
	    npy_header(&array, npy) < 0)
		return;
	uint64_t at = 0;
	for (int i = 0; i < 1000 && at < array.nbytes; i++)
		at += ndarray_locate(&array, at).len;
}

/* Reads parts of block i in all ways. `whole`: the block, or NULL if it cannot be decoded. */
static void try_pieces(struct frame_chunk at, uint32_t i, const uint8_t *whole)
{
	const struct chunk *c = at.c;
	uint32_t len = chunk_run_bytes(c, (struct run){i, 1});
	uint32_t lo = (uint32_t)(next_random() % len);
	uint32_t k = 1 + (uint32_t)(next_random() % min_u64(len - lo, 5000));
	uint8_t *some = exact(k), *packed = exact(len);
	if (frame_can_pack(at)) {
		int rc = frame_read_packed(at, i, scratch, span_of(packed, len));
		insist((rc == 0) == (whole != NULL), "a block decodes packed, if it decodes");
		if (rc == 0) {
			rc = chunk_unpack(c, scratch, view_of(packed, len), lo, span_of(some, k));
			insist(rc == 0 && !memcmp(some, whole + lo, k), "packed, it is the same");
		}
	}
	if (frame_slot(at.f, at.n) == SLOT_STORED && chunk_has_parts(c, scratch)) {
		struct chunk_part part = {i, lo};
		int rc = frame_read_part(at, part, scratch, span_of(some, k));
		insist(!whole || rc >= 0, "a part decodes, if its block does");
		insist(!whole || rc != 0 || !memcmp(some, whole + lo, k), "it is that part");
	}
	if (frame_can_read_within(at)) {
		int rc = frame_read_within(at, i * c->blocksize + lo, span_of(some, k));
		insist(!whole || (rc == 0 && !memcmp(some, whole + lo, k)), "within, the same");
	}
	free(some);
	free(packed);
}

static void try_block(struct frame_chunk at)
{
	uint32_t i = (uint32_t)(next_random() % at.c->nblocks);
	struct run one = {i, 1};
	uint32_t len = chunk_run_bytes(at.c, one);
	if (!len || frame_run_memory(at, one, BLOCK_DECODED) > MEMORY)
		return;
	uint8_t *whole = exact(len);
	int rc = frame_read_blocks(at, one, scratch, span_of(whole, len));
	if (rc != -E2BIG)
		try_pieces(at, i, rc == 0 ? whole : NULL);
	free(whole);
}

static void try_chunk(struct frame *f, uint32_t n)
{
	struct chunk c = {0};
	struct buf copy = {0};
	struct frame_chunk at = {f, n, &c};
	if (frame_load_chunk(f, n, scratch, &c) == 0) {
		insist(c.nbytes == frame_chunk_span(f, n).len, "a chunk is as long as its span");
		for (int i = 0; i < 3 && c.nblocks; i++)
			try_block(at);
		(void)!frame_check_chunk(at);
	}
	if (frame_slot(f, n) == SLOT_STORED)
		(void)!frame_read_copy(f, n, MEMORY, scratch, &copy);
	chunk_deinit(&c);
	buf_free(&copy);
}

static void try_whole(struct frame *f, uint32_t n)
{
	uint32_t len = frame_chunk_span(f, n).len;
	if (frame_is_hole(f, n))
		return;
	uint8_t *bytes = exact(len);
	(void)!frame_read_chunk(f, n, scratch, span_of(bytes, len));
	free(bytes);
}

static void try_reading(struct frame *f)
{
	uint64_t size = frame_size(f);
	uint32_t n = frame_nchunks(f), count[SLOT_KINDS];
	try_metalayers(f);
	frame_count_slots(f, count);
	insist(n == (uint64_t)count[0] + count[1] + count[2] + count[3], "all slots are counted");
	for (int i = 0; i < 4 && n; i++)
		try_chunk(f, (uint32_t)(next_random() % n));
	for (int i = 0; i < 4 && size; i++) {
		uint64_t at = next_random() % size;
		size_t len = 1 + next_random() % min_u64(size - at, 10000);
		uint8_t *bytes = exact(len);
		(void)!frame_read(f, at, scratch, span_of(bytes, len));
		free(bytes);
	}
	for (uint32_t i = 0; i < n && size < FUZZ_FILE_MAX; i++)
		try_whole(f, i);
}

/* ---- Changing ---- */

/* The seeds of what was stored in the chunks; 0: something else. */
static uint64_t model[MODEL];

static void forget(uint32_t n)
{
	if (n < MODEL)
		model[n] = 0;
}

/* Bytes that compress well, a little, or not at all. */
static void fill(uint64_t seed, struct span to)
{
	uint64_t before = state;
	uint8_t mask = seed % 3 == 0 ? 0xFF : seed % 3 == 1 ? 0x0F : 0;
	state = seed | 1;
	for (size_t i = 0; i < to.n; i++)
		to.p[i] = (uint8_t)(next_random() & mask) + (uint8_t)(i >> 6);
	state = before;
}

static void put_hole(struct frame *f, uint32_t n)
{
	frame_put_zeros(f, n);
	forget(n);
}

static void put(struct frame *f, uint32_t n)
{
	uint32_t len = frame_chunk_span(f, n).len;
	uint64_t seed = next_random() | 1;
	struct frame_place place;
	if (!len || len > PUT_MOST) {
		put_hole(f, n);
		return;
	}
	struct pipeline p;
	pipeline_default(&p);
	p.typesize = 1;
	p.level = seed & 8 ? 0 : seed & 64 ? 1 : 2;
	p.no_sums = seed & 16;
	p.blocksize = seed & 32 ? 4096 : 0;
	uint8_t *plain = exact(len);
	struct buf cchunk = {0};
	fill(seed, span_of(plain, len));
	int rc = chunk_encode(scratch, &p, view_of(plain, len), &cchunk);
	insist(rc == 0, "anything can be encoded");
	if (frame_alloc(f, n, (uint32_t)cchunk.n, &place) == 0) {
		if (frame_write(f, &place, buf_view(&cchunk)) == 0 && seed & 0x700) {
			frame_put(f, n, &place);
			if (n < MODEL)
				model[n] = seed;
		} else {
			frame_unalloc(f, &place);
		}
	}
	buf_free(&cchunk);
	free(plain);
}

/* A stored chunk whose length has changed has to be replaced: here, by a hole. */
static void resize(struct frame *f, uint64_t to)
{
	uint32_t before = frame_nchunks(f);
	struct frame_span last = {0};
	if (before)
		last = frame_chunk_span(f, before - 1);
	if (to > frame_max_size(f) || frame_resize(f, to) < 0)
		return;
	uint32_t after = frame_nchunks(f);
	for (uint32_t n = after; n < MODEL; n++)
		model[n] = 0;
	if (before && before <= after && frame_chunk_span(f, before - 1).len != last.len)
		put_hole(f, before - 1);
	if (after && after < before)
		put_hole(f, after - 1);
}

static void check_model(struct frame *f)
{
	uint32_t nchunks = frame_nchunks(f);
	for (uint32_t n = 0; n < MODEL && n < nchunks; n++) {
		if (!model[n])
			continue;
		uint32_t len = frame_chunk_span(f, n).len;
		uint8_t *want = exact(len), *got = exact(len);
		fill(model[n], span_of(want, len));
		int rc = frame_read_chunk(f, n, scratch, span_of(got, len));
		insist(rc == 0 && !memcmp(got, want, len), "what was put comes back");
		free(want);
		free(got);
	}
}

/* The frame as another process would open it, or NULL if the commit was refused. */
static struct frame *reopen(struct frame *f)
{
	struct frame *again;
	struct io *io;
	uint64_t size = frame_size(f);
	if (frame_commit(f, next_random() % 2 ? COMMIT_SYNC : COMMIT_LATER) < 0)
		return NULL;
	insist(!frame_dirty(f), "a commit leaves nothing to do");
	if (io_mem_open(&io, io_mem_bytes(frame_io(f))) < 0)
		abort();
	insist(frame_open_take(&again, io) == 0, "what was committed opens");
	insist(!frame_went_back(again), "there is nothing to recover");
	insist(frame_size(again) == size, "its size is what it was");
	return again;
}

static void change_once(struct frame *f)
{
	uint64_t size = frame_size(f), r = next_random();
	uint32_t nchunks = frame_nchunks(f), n = nchunks ? (uint32_t)(r % nchunks) : 0;
	switch (r >> 32 & 15) {
	case 0: resize(f, size / 2); break;
	case 1: resize(f, size - min_u64(size, r & 0xFFFF)); break;
	case 2: resize(f, nchunks < CHUNKS_MOST ? size + (r & 0x7FFF) : size); break;
	case 3:
		if (nchunks < CHUNKS_MOST)
			resize(f, size + frame_info(f)->chunk_size * (r & 7));
		break;
	case 4: (void)!frame_commit(f, COMMIT_SYNC); break;
	case 5: (void)!frame_commit(f, COMMIT_LATER); break;
	case 6: (void)!frame_commit_part(f, UINT32_MAX); break;
	case 7: (void)!frame_compact(f, 1u << (r & 15)); break;
	case 8: frame_set_tight(f, r & 1); break;
	case 9: frame_expect_items(f, 1 + (r & 7)); break;
	case 10: check_model(f); break;
	default:
		if (nchunks && r & 0x100)
			put(f, n);
		else if (nchunks && r & 0x600)
			put(f, (uint32_t)min_u64(r & 3, nchunks - 1));
		else if (nchunks)
			put_hole(f, n);
	}
}

/* Takes ownership of f. */
static void try_changing(struct frame *f)
{
	memset(model, 0, sizeof model);
	for (uint64_t i = next_random() % 24; i; i--) {
		struct frame *again = next_random() % 6 ? NULL : reopen(f);
		if (again) {
			frame_close(f);
			f = again;
		}
		if (!frame_writable(f))
			break;
		change_once(f);
	}
	struct frame *again = frame_writable(f) ? reopen(f) : NULL;
	if (again) {
		check_model(f);
		check_model(again);
		try_reading(again);
	}
	frame_close(again);
	frame_close(f);
}

/* The bound of held.h for the next frame; one that is changed may find too little memory. */
static uint64_t bound = UINT64_MAX;

/* Returns whether it could be opened. */
static bool try_frame(struct view v)
{
	struct frame_info info;
	struct frame *f;
	struct io *io;
	if (!scratch) {
		if (scratch_open(&scratch) < 0)
			abort();
		scratch_bound(scratch, MEMORY);
	}
	if (io_mem_open(&io, v) < 0)
		abort();
	insist(held_bytes() == 0, "what was counted for the frame before is given back");
	held_bound(bound);
	int probed = frame_probe(io, &info), rc = frame_open_take(&f, io);
	held_bound(UINT64_MAX);
	if (rc < 0)
		return false;
	insist(probed == 0, "what opens was taken for a frame before");
	try_reading(f);
	if (frame_writable(f))
		try_changing(f);
	else
		frame_close(f);
	return true;
}

/* ---- Making files hostile ---- */

static uint64_t awkward(uint64_t was)
{
	static const uint64_t n[] = {0, 1, 2, 7, 255, 256, 4095, 65536, 0x7FFFFFFF, 0x80000000,
				     UINT32_MAX, 1ull << 32, 1ull << 40, INT64_MAX, UINT64_MAX};
	uint64_t r = next_random() % (sizeof n / sizeof n[0] + 8);
	return r < sizeof n / sizeof n[0] ? n[r] : was + next_random() % 9 - 4;
}

/* Changes a number in the header: FORMAT.md 9.1 says where they are. */
static void change_header(uint8_t *p, size_t n)
{
	static const struct {
		uint8_t at, len;
	} field[] = {{0x0b, 4}, {0x10, 8}, {0x19, 1}, {0x1a, 1}, {0x1b, 1}, {0x1c, 1},
		     {0x1e, 8}, {0x27, 8}, {0x30, 4}, {0x35, 4}, {0x3a, 4}, {0x3f, 2},
		     {0x42, 2}, {0x44, 1}, {0x47, 8}, {0x4f, 8}, {0x55, 1}};
	size_t i = next_random() % (sizeof field / sizeof field[0]);
	if (field[i].at + 8u > n)
		return;
	uint8_t *at = p + field[i].at;
	uint64_t x = 0;
	for (uint8_t k = 0; k < field[i].len; k++)
		x = x << 8 | at[k];
	x = awkward(x);
	for (uint8_t k = field[i].len; k--; x >>= 8)
		at[k] = (uint8_t)x;
}

static void change_bytes(uint8_t *p, size_t n)
{
	for (uint64_t i = 1 + next_random() % 4; i; i--) {
		size_t at = next_random() % n;
		if (next_random() % 2)
			p[at] = (uint8_t)awkward(p[at]);
		else if (n - at >= 8)
			put_le64(p + at, awkward(get_le64(p + at)));
	}
}

/*
 * Makes the fingerprint of a root right, or as if another program had written last. `at`: where the
 * index begins.
 */
static void seal(uint8_t *p, size_t len, size_t header_len, size_t at)
{
	bool ours = next_random() % 4;
	uint64_t word = next_random() % 2 ? era_word(0, 1) : ROOT_SYNCED; /* of the present era */
	struct root_bytes r = {.head = view_of(p, header_len), .tail = span_of(p + at, len - at)};
	struct fingerprint fp;
	if (root_sign(&r, word, &fp) < 0)
		abort();
	fp.type = ours ? TRAILER_TYPE_64 : TRAILER_TYPE_NONE;
	trailer_set_fingerprint(r.tail, fp);
}

/* Makes a chunk's checksums right, if it has any: of its head, and if that is valid, of blocks. */
static void seal_blocks(struct span chunk)
{
	struct chunk c = {0};
	uint32_t blocksize = get_le32(chunk.p + 8);
	uint64_t nblocks = blocksize ? ceil_div(get_le32(chunk.p + 4), blocksize) : 0;
	uint64_t at = CHUNK_HEAD + 4 * nblocks, head = at + block_sums_len((uint32_t)nblocks);
	if (nblocks < 2 || head > chunk.n || memcmp(chunk.p + at, "CFS1", 4) != 0)
		return;
	block_sums_seal(chunk.p, at, (uint32_t)nblocks);
	if (chunk_parse(&c, view_of(chunk.p, chunk.n), chunk.n, 1) == 0 && c.sums) {
		for (uint32_t i = 0; i < c.nblocks; i++) {
			struct view v = view_of(chunk.p + c.bstart[i], c.bend[i] - c.bstart[i]);
			block_sums_put(chunk.p + at, i, block_sums_of(v));
		}
		block_sums_seal(chunk.p, at, c.nblocks);
	}
	chunk_deinit(&c);
}

/* Changes a number in a chunk's head or block offsets, or the length of a block's first stream. */
static void change_chunk(struct span chunk)
{
	static const uint8_t place[] = {1, 2, 3, 16, 21, 22, 23, 24, 29, 30, 31};
	uint64_t r = next_random() % 24, len = chunk.n - CHUNK_HEAD;
	uint8_t *at = chunk.p + 4 * (1 + r % 3);
	if (r < sizeof place) {
		chunk.p[place[r]] = (uint8_t)awkward(chunk.p[place[r]]);
		return;
	}
	if (r >= 15 && len >= 4) /* an offset, of one of few blocks */
		at = chunk.p + CHUNK_HEAD + 4 * (next_random() % min_u64(len / 4, 16));
	if (r >= 17 && len >= 4 && get_le32(at) <= chunk.n - 4)
		at = chunk.p + get_le32(at);
	if (r >= 22 && len)
		change_bytes(chunk.p + CHUNK_HEAD, len);
	else
		put_le32(at, (uint32_t)awkward(get_le32(at)));
}

/*
 * Changes a stored chunk of a frame whose index and note are not compressed, and makes its
 * checksums in the chunk and in the note right. `area`: where chunks are; `tail`: index and
 * trailer.
 */
static void change_stored(struct span area, struct span tail)
{
	static const char key[] = "\xa4xxh3\xc6";
	uint64_t entries = tail.n < CHUNK_HEAD ? 0 : get_le32(tail.p + 4) / 8, nth = 0, i = 0;
	uint8_t *note = memmem(tail.p, tail.n, key, sizeof key - 1);
	if (!entries || entries > (tail.n - CHUNK_HEAD) / 8)
		return;
	for (uint64_t want = next_random() % entries; i < want; i++)
		nth += !(get_le64(tail.p + CHUNK_HEAD + 8 * i) >> 63);
	uint64_t at = get_le64(tail.p + CHUNK_HEAD + 8 * i);
	if (at >= area.n || area.n - at < CHUNK_HEAD)
		return;
	struct span chunk = span_of(area.p + at, get_le32(area.p + at + 12));
	if (chunk.n < CHUNK_HEAD || chunk.n > area.n - at)
		return;
	change_chunk(chunk);
	if (next_random() % 4)
		seal_blocks(chunk);
	if (!note || (uint64_t)(tail.p + tail.n - note) < sizeof key + 3 + 8 * (nth + 1))
		return;
	put_le64(note + sizeof key + 3 + 8 * nth, chunk_sum_make(view_of(chunk.p, chunk.n)));
}

static void change(uint8_t *p, size_t n)
{
	bound = next_random() % 8 ? UINT64_MAX : next_random() % 2000;
	if (n < HEADER_EMPTY + TRAILER_LEAST) {
		change_bytes(p, n);
		return;
	}
	uint64_t header_len = get_be32(p + 0x0b), len = get_be64(p + 0x10);
	uint64_t at = header_len + min_u64(get_be64(p + 0x27), n);
	bool lies_in = header_len >= HEADER_FIXED && len <= n && at + TRAILER_LEAST <= len;
	if (lies_in && at - header_len > CHUNK_HEAD && next_random() % 3 == 0)
		change_stored(span_of(p + header_len, at - header_len), span_of(p + at, len - at));
	else if (next_random() % 3 == 0)
		change_header(p, n);
	else if (lies_in && next_random() % 2)
		change_bytes(p + at, len - at);
	else
		change_bytes(p, next_random() % 2 ? n : HEADER_EMPTY);
	if (lies_in && next_random() % 4)
		seal(p, len, header_len, at);
}

#ifdef FUZZ_TARGET

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
size_t LLVMFuzzerMutate(uint8_t *p, size_t n, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *p, size_t n, size_t room, unsigned seed);

/* All that is random depends on the input alone. */
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	state = sum64(view_of(p, n)) | 1;
	(void)try_frame(view_of(p, n));
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *p, size_t n, size_t room, unsigned seed)
{
	state = (seed * 0x9e3779b97f4a7c15u) | 1;
	if (!n || next_random() % 4 == 0)
		return LLVMFuzzerMutate(p, n, room);
	change(p, n);
	return n;
}

#else

int main(int argc, char **argv)
{
	static const struct fuzz_target t = {try_frame, change, "opened"};
	int rc = fuzz_loop(&t, argc - 1, argv + 1);
	scratch_close(scratch);
	return rc;
}

#endif
