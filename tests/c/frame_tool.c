/*
 * Changes a frame by commands, a line each on standard input, so that a
 * test can compare it with a model:
 *
 *   pipeline TEXT           for chunks from here on, and for create
 *   create FILE CHUNKSIZE   makes an empty frame
 *   open FILE               opens one; the frame that was open is closed without a commit
 *   adopt                   the pipeline goes into the header
 *   resize N                frame_resize; a last chunk whose length changes is stored again
 *   grow N                  frame_resize alone: the last chunk is yet to be stored again
 *   stored N                how many bytes the stored form of chunk N holds
 *   write AT HEXBYTES       plain bytes: the chunks that they touch are encoded anew
 *   fill AT N BYTE SEED     N bytes made from BYTE and SEED (see tests), otherwise as write
 *   zero N                  chunk N becomes a hole
 *   commit later|sync       frame_commit
 *   wants                   "yes" when frame_wants_commit says so, else "no"
 *   verify                  problems, chunks with and without a checksum
 *   compact N               frame_compact in steps of N bytes, each committed, until it is done
 *   compact-once N          one such step, without a commit
 *   tight                   frame_set_tight
 *   copy FILE               all chunks of another frame, as they are stored, and its size
 *   fail N [ERRNO|short]    from now on every N-th call that changes the file fails, 0: none
 *   once N [ERRNO|short|lost]
 *                           only the N-th does; lost: it says that it went well
 *   behind N                as if the clock was N seconds behind when files were changed last
 *   die N                   after N more changes of the file every one fails
 *   crash SEED              power is lost: of the writes since the last sync some are
 *                           undone, drawn by SEED; the frame is closed, faults end,
 *                           and what follows counts as after another boot
 *   read AT N               prints the bytes in hex
 *   sum                     prints size and FNV-1a of all bytes, twice: read by chunks and by range
 *
 * A failed command prints "error NAME" and the run goes on; others print what
 * is said above, or "ok".
 */
#include "frame/era.h"
#include "frame/frame_impl.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct tool {
	struct frame *frame;
	struct scratch *scratch;
	struct pipeline pipeline;
	bool first; /* no data was written yet: the pipeline goes into the header */
};

/* What a write covered, so that it can be undone. */
struct undo {
	uint64_t at, size; /* size of the file before */
	struct buf old;
};

/* An io whose calls fail when told to, and which can lose what was not synced. */
static struct {
	const struct io_ops *real;
	struct io_ops ops;
	uint64_t every, count, once;
	int error; /* 0: EIO */
	bool cut;  /* writes fail half way */
	bool lost; /* writes are not done, and do not fail */
	bool dying;
	uint64_t life;
	uint64_t behind; /* seconds */
	struct undo undo[4096];
	size_t nundo;
} fault;

static int fault_now(void)
{
	if (fault.dying && fault.life-- == 0) {
		fault.life = 0;
		return -EIO;
	}
	fault.count++;
	bool hit = (fault.every && fault.count % fault.every == 0) || fault.count == fault.once;
	return hit ? -(fault.error ? fault.error : EIO) : 0;
}

static int fault_pwrite(struct io *io, uint64_t at, struct view src)
{
	int rc = fault_now();
	if (rc < 0 && fault.lost)
		return 0;
	if (rc < 0 && fault.cut)
		IGNORE(fault.real->pwrite(io, at, view_part(src, 0, src.n / 2)));
	TRY(rc);
	assert(fault.nundo < sizeof fault.undo / sizeof *fault.undo);
	struct undo *u = &fault.undo[fault.nundo++];
	*u = (struct undo){.at = at};
	TRY(fault.real->size(io, &u->size));
	size_t n = u->size > at ? min_u64(u->size - at, src.n) : 0;
	TRY(buf_reserve(&u->old, n));
	u->old.n = n;
	if (n)
		TRY(fault.real->pread(io, at, buf_span(&u->old)));
	return fault.real->pwrite(io, at, src);
}

static uint64_t fault_changed(struct io *io)
{
	return fault.real->changed(io) + fault.behind * 1000000000;
}

static void forget_undo(void)
{
	while (fault.nundo)
		buf_free(&fault.undo[--fault.nundo].old);
}

static int fault_sync(struct io *io)
{
	TRY(fault_now());
	forget_undo();
	return fault.real->sync(io);
}

static int fault_truncate(struct io *io, uint64_t size)
{
	TRY(fault_now());
	return fault.real->truncate(io, size);
}

/* Newest first; what was past the old end becomes zeros, like blocks that were never written. */
static int undo_some(struct io *io, unsigned seed)
{
	static const uint8_t zeros[65536];
	for (size_t i = fault.nundo; i-- > 0;) {
		struct undo *u = &fault.undo[i];
		uint64_t size;
		if (rand_r(&seed) >> 8 & 1)
			continue;
		if (u->old.n)
			TRY(fault.real->pwrite(io, u->at, buf_view(&u->old)));
		TRY(fault.real->size(io, &size));
		if (u->size <= u->at && u->at < size)
			TRY(fault.real->pwrite(io, u->at,
					       view_of(zeros, min_u64(32, size - u->at))));
	}
	forget_undo();
	return 0;
}

static int file_io(const char *name, int flags, struct io **io)
{
	int fd = open(name, flags | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	TRY(io_file_open_take(io, fd));
	fault.real = (*io)->ops;
	fault.ops = *fault.real;
	fault.ops.pwrite = fault_pwrite;
	fault.ops.sync = fault_sync;
	fault.ops.truncate = fault_truncate;
	fault.ops.changed = fault_changed;
	(*io)->ops = &fault.ops;
	return 0;
}

static int do_open(struct tool *t, const char *name)
{
	struct io *io;
	frame_close(t->frame);
	t->frame = NULL;
	forget_undo();
	TRY(file_io(name, O_RDWR, &io));
	return frame_open_take(&t->frame, io);
}

static int do_create(struct tool *t, const char *args)
{
	struct io *io;
	char name[512];
	uint32_t chunk_size;
	if (sscanf(args, "%511s %" SCNu32, name, &chunk_size) != 2)
		return -EINVAL;
	frame_close(t->frame);
	t->frame = NULL;
	TRY(file_io(name, O_RDWR | O_CREAT | O_EXCL, &io));
	t->first = true;
	return frame_create_take(&t->frame, io, &t->pipeline, chunk_size);
}

static int put_encoded(struct tool *t, uint32_t n, struct view plain)
{
	struct buf packed = {0};
	struct frame_place place;
	int rc = chunk_encode(t->scratch, &t->pipeline, plain, &packed);
	if (rc == 0)
		rc = frame_alloc(t->frame, n, (uint32_t)packed.n, &place);
	if (rc == 0) {
		rc = frame_write(t->frame, &place, buf_view(&packed));
		if (rc == 0)
			frame_put(t->frame, n, &place);
		else
			frame_unalloc(t->frame, &place);
	}
	if (rc == 0 && t->first) {
		frame_set_pipeline(t->frame, &t->pipeline);
		t->first = false;
	}
	buf_free(&packed);
	return rc;
}

/* Replaces chunk n, of `len` bytes: `data` from byte lo on, the rest from its `old` bytes. */
static int rewrite(struct tool *t, uint32_t n, uint32_t lo, struct view data)
{
	struct frame_span sp = frame_chunk_span(t->frame, n);
	uint8_t *plain = mem_zalloc(sp.len);
	assert(plain);
	int rc = 0;
	if (lo || data.n < sp.len)
		rc = frame_read_chunk(t->frame, n, t->scratch, span_of(plain, sp.len));
	if (rc == 0 && data.n)
		memcpy(plain + lo, data.p, data.n);
	if (rc == 0)
		rc = put_encoded(t, n, view_of(plain, sp.len));
	mem_free(plain);
	return rc;
}

/*
 * As the file system does for frame_resize: the short last chunk, old and new,
 * is read with the old length and stored again with the new one.
 */
static int do_resize(struct tool *t, uint64_t size)
{
	struct frame *f = t->frame;
	uint64_t old = frame_size(f), cut = min_u64(old, size);
	if (size == old || cut == 0 || cut % frame_info(f)->chunk_size == 0)
		return frame_resize(f, size);
	uint32_t n = frame_chunk_at(f, cut - 1);
	struct frame_span was = frame_chunk_span(f, n);
	bool holds = !frame_is_hole(f, n);
	uint8_t *plain = mem_zalloc(frame_info(f)->chunk_size);
	assert(plain);
	int rc = holds ? frame_read_chunk(f, n, t->scratch, span_of(plain, was.len)) : 0;
	if (rc == 0)
		rc = frame_resize(f, size);
	/* A failed put can be repeated; without it, the frame must not be committed. */
	for (int tries = 0; holds && (rc == 0 || tries) && tries < 3; tries++) {
		rc = put_encoded(t, n, view_of(plain, frame_chunk_span(f, n).len));
		if (rc == 0)
			break;
	}
	mem_free(plain);
	return rc;
}

static int write_bytes(struct tool *t, uint64_t at, struct view v)
{
	if (at + v.n > frame_size(t->frame))
		TRY(do_resize(t, at + v.n));
	while (v.n) {
		uint32_t n = frame_chunk_at(t->frame, at);
		struct frame_span sp = frame_chunk_span(t->frame, n);
		uint32_t lo = (uint32_t)(at - sp.start);
		size_t len = min_u64(v.n, sp.len - lo);
		TRY(rewrite(t, n, lo, view_part(v, 0, len)));
		v = view_part(v, len, v.n - len);
		at += len;
	}
	return 0;
}

/*
 * Not by sscanf, which looks for the end of the line each time: it may have millions of digits.
 */
static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int do_write(struct tool *t, const char *args)
{
	uint64_t at;
	int skip = 0;
	if (sscanf(args, "%" SCNu64 " %n", &at, &skip) != 1)
		return -EINVAL;
	struct buf b = {0};
	const char *hex = args + skip;
	TRY(buf_reserve(&b, strlen(hex) / 2 + 1));
	for (int hi, lo; (hi = hex_digit(hex[0])) >= 0 && (lo = hex_digit(hex[1])) >= 0; hex += 2)
		b.p[b.n++] = (uint8_t)(hi << 4 | lo);
	int rc = write_bytes(t, at, buf_view(&b));
	buf_free(&b);
	return rc;
}

static int do_fill(struct tool *t, const char *args)
{
	uint64_t at, n, byte, seed;
	if (sscanf(args, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &at, &n, &byte, &seed) !=
	    4)
		return -EINVAL;
	struct buf b = {0};
	TRY(buf_reserve(&b, n + 1));
	for (b.n = 0; b.n < n; b.n++)
		b.p[b.n] = (uint8_t)(byte + (seed * b.n >> 7));
	int rc = write_bytes(t, at, buf_view(&b));
	buf_free(&b);
	return rc;
}

static void print_hex(struct view v)
{
	for (size_t i = 0; i < v.n; i++)
		printf("%02x", v.p[i]);
	printf("\n");
}

static int do_read(struct tool *t, const char *args)
{
	uint64_t at, n;
	struct buf b = {0};
	if (sscanf(args, "%" SCNu64 " %" SCNu64, &at, &n) != 2)
		return -EINVAL;
	TRY(buf_reserve(&b, n + 1));
	int rc = frame_read(t->frame, at, t->scratch, span_of(b.p, n));
	if (rc == 0)
		print_hex(view_of(b.p, n));
	buf_free(&b);
	return rc < 0 ? rc : 1;
}

static uint64_t fnv(uint64_t h, struct view v)
{
	for (size_t i = 0; i < v.n; i++)
		h = (h ^ v.p[i]) * 0x100000001b3;
	return h;
}

#define FNV_START 0xcbf29ce484222325

static int do_sum(struct tool *t)
{
	struct frame *f = t->frame;
	uint64_t size = frame_size(f), by_chunk = FNV_START, by_range = FNV_START;
	struct buf b = {0};
	for (uint32_t n = 0; n < frame_nchunks(f); n++) {
		uint32_t len = frame_chunk_span(f, n).len;
		TRY(buf_reserve_fresh(&b, len + 1));
		TRY(frame_read_chunk(f, n, t->scratch, span_of(b.p, len)));
		by_chunk = fnv(by_chunk, view_of(b.p, len));
	}
	TRY(buf_reserve_fresh(&b, 1009));
	for (uint64_t at = 0; at < size; at += 1009) {
		struct span part = {b.p, min_u64(1009, size - at)};
		TRY(frame_read(f, at, t->scratch, part));
		by_range = fnv(by_range, span_view(part));
	}
	printf("%" PRIu64 " %016" PRIx64 " %016" PRIx64 "\n", size, by_chunk, by_range);
	buf_free(&b);
	return 1;
}

static int do_verify(struct tool *t)
{
	struct frame *f = t->frame;
	struct buf b = {0};
	uint32_t problems = 0, with_sum = 0, without_sum = 0;
	for (uint32_t n = 0; n < frame_nchunks(f); n++) {
		uint32_t len = frame_chunk_span(f, n).len;
		TRY(buf_reserve_fresh(&b, len + 1));
		problems += frame_read_chunk(f, n, t->scratch, span_of(b.p, len)) < 0;
		if (frame_slot(f, n) != SLOT_STORED)
			continue;
		with_sum += frame_sum(f, n) != 0;
		without_sum += frame_sum(f, n) == 0;
	}
	printf("%u %u %u\n", problems, with_sum, without_sum);
	buf_free(&b);
	return 1;
}

static int do_compact(struct tool *t, uint64_t step)
{
	int rc;
	while ((rc = frame_compact(t->frame, step)) > 0)
		TRY(frame_commit(t->frame, COMMIT_SYNC));
	return rc;
}

static int copy_chunk(struct tool *t, struct frame *from, uint32_t n, struct buf *b)
{
	struct frame_place place;
	TRY(frame_read_copy(from, n, UINT64_MAX, t->scratch, b));
	if (b->n == 0)
		return 0;
	TRY(frame_alloc(t->frame, n, (uint32_t)b->n, &place));
	TRY(frame_write(t->frame, &place, buf_view(b)));
	frame_put(t->frame, n, &place);
	return 0;
}

static int do_copy(struct tool *t, const char *name)
{
	struct frame *from;
	struct buf b = {0};
	struct io *io;
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	TRY(io_file_open_take(&io, fd));
	TRY(frame_open_take(&from, io));
	int rc = frame_resize(t->frame, frame_size(from));
	for (uint32_t n = 0; rc == 0 && n < frame_nchunks(from); n++)
		rc = copy_chunk(t, from, n, &b);
	frame_close(from);
	buf_free(&b);
	return rc;
}

static int do_crash(struct tool *t, unsigned seed)
{
	int rc = undo_some(frame_io(t->frame), seed);
	frame_close(t->frame);
	t->frame = NULL;
	era_boot_set(era_boot() + 2);
	fault.dying = false;
	fault.every = fault.once = 0;
	return rc;
}

static int do_fault(const char *cmd, const char *args)
{
	uint64_t n = strtoull(args, NULL, 10);
	const char *how = strchr(args, ' ');
	fault.cut = how && strcmp(how, " short") == 0;
	fault.lost = how && strcmp(how, " lost") == 0;
	fault.error = how && strcmp(how, " ENOSPC") == 0 ? ENOSPC : EIO;
	fault.once = cmd[0] == 'o' ? n : 0;
	fault.every = cmd[0] == 'f' ? n : 0;
	fault.count = 0;
	fault.dying = cmd[0] == 'd';
	fault.life = n;
	return 0;
}

/* Commands that are about free space. */
static int do_space(struct tool *t, const char *cmd, const char *args)
{
	uint64_t n = strtoull(args, NULL, 10);
	if (strcmp(cmd, "wants") == 0) {
		printf("%s\n", frame_wants_commit(t->frame) ? "yes" : "no");
		return 1;
	}
	if (strcmp(cmd, "stored") == 0) {
		printf("%" PRIu32 "\n", frame_stored_len(t->frame, (uint32_t)n));
		return 1;
	}
	if (strcmp(cmd, "tight") == 0) {
		frame_set_tight(t->frame, true);
		return 0;
	}
	if (strcmp(cmd, "compact-once") == 0) {
		int rc = frame_compact(t->frame, n);
		return rc < 0 ? rc : 0;
	}
	return strcmp(cmd, "compact") == 0 ? do_compact(t, n) : -EINVAL;
}

static int do_line(struct tool *t, const char *cmd, const char *args)
{
	if (strcmp(cmd, "pipeline") == 0)
		return pipeline_parse(&t->pipeline, args, NULL);
	if (strcmp(cmd, "create") == 0)
		return do_create(t, args);
	if (strcmp(cmd, "open") == 0)
		return do_open(t, args);
	if (strcmp(cmd, "fail") == 0 || strcmp(cmd, "die") == 0 || strcmp(cmd, "once") == 0)
		return do_fault(cmd, args);
	if (strcmp(cmd, "behind") == 0) {
		fault.behind = strtoull(args, NULL, 10);
		return 0;
	}
	if (!t->frame)
		return -EBADF;
	if (strcmp(cmd, "adopt") == 0) {
		frame_set_pipeline(t->frame, &t->pipeline);
		return 0;
	}
	if (strcmp(cmd, "resize") == 0)
		return do_resize(t, strtoull(args, NULL, 10));
	if (strcmp(cmd, "grow") == 0)
		return frame_resize(t->frame, strtoull(args, NULL, 10));
	if (strcmp(cmd, "write") == 0)
		return do_write(t, args);
	if (strcmp(cmd, "fill") == 0)
		return do_fill(t, args);
	if (strcmp(cmd, "zero") == 0) {
		frame_put_zeros(t->frame, (uint32_t)strtoul(args, NULL, 10));
		return 0;
	}
	if (strcmp(cmd, "commit") == 0)
		return frame_commit(t->frame,
				    strcmp(args, "sync") == 0 ? COMMIT_SYNC : COMMIT_LATER);
	if (strcmp(cmd, "verify") == 0)
		return do_verify(t);
	if (strcmp(cmd, "copy") == 0)
		return do_copy(t, args);
	if (strcmp(cmd, "crash") == 0)
		return do_crash(t, (unsigned)strtoul(args, NULL, 10));
	if (strcmp(cmd, "read") == 0)
		return do_read(t, args);
	if (strcmp(cmd, "sum") == 0)
		return do_sum(t);
	return do_space(t, cmd, args);
}

int main(void)
{
	struct tool t = {0};
	char *line = NULL;
	size_t room = 0;
	pipeline_default(&t.pipeline);
	if (scratch_open(&t.scratch) < 0)
		return 1;
	while (getline(&line, &room, stdin) > 0) {
		line[strcspn(line, "\n")] = 0;
		char *args = line + strcspn(line, " ");
		if (*args)
			*args++ = 0;
		int rc = do_line(&t, line, args);
		char text[ERR_TEXT_MAX];
		if (rc < 0)
			printf("error %d: %s\n", -rc, err_text(rc, text));
		else if (rc == 0)
			printf("ok\n");
		fflush(stdout);
	}
	free(line);
	forget_undo();
	frame_close(t.frame);
	scratch_close(t.scratch);
	return 0;
}
