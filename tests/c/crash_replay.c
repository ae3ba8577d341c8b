/*
 * Power cuts of a mount: reads what crash_record.c saw a daemon do, and builds disks that a power
 * cut at any moment could leave: what was synced, and any subset of the calls since then, torn at
 * 512 bytes. Each file is opened, which recovers it, and must have a content that the application
 * gave it at or after its last acknowledged fsync; a long file may be a mixture of such contents.
 * The intent log is cut like any other file, independently; what it has and the frame lacks is
 * applied to the frame.
 *
 * Names reach the disk when they are synced, or at any time before. An fsync includes the names of
 * its file, an fdatasync those from before its last change of length, an fsync of a directory all
 * names. That is what the tree log of btrfs does; a journal (ext4, xfs) includes all earlier
 * changes. An acknowledged fsync of a file must have brought its names to the disk, one of a
 * directory all names. As long as a rename over a file, or the removal of its last name, may not be
 * on the disk, the file may come back, with what was promised for it.
 *
 *   crash_replay TRACE STATES SEED [--skip-sync N | --skip-names N | --keep DIR]
 *
 * STATES: how many disks in all. --skip-sync: every N-th sync does nothing, which has to be
 * noticed; --skip-names: it does nothing to names. --keep: some recovered frames are left in DIR as
 * N.b2frame, with the content that they should have in N. Prints "POINTS points, STATES states,
 * RECOVERED recovered, APPLIED records applied"; exit code 1 and a line at the first violation.
 */
#include "base/log.h"
#include "frame/era.h"
#include "frame/format/header.h"
#include "crash_disk.h"
#include "crash_trace.h"
#include "fs/intent/record.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_FILES 256
/* Longer files are committed in parts when they are overwritten (fs/dirty/flush.h). */
#define IN_PARTS (1u << 20)
#define KEEP_EVERY 97
#define KEEP_MOST 100

struct file {
	uint64_t ino;
	struct buf now, safe;
	struct call *call; /* since the last sync */
	size_t ncalls, cap_calls;
	/* what the application made of it; those before `allowed` are gone for good */
	struct state *state;
	const uint8_t **bytes;
	size_t nstates, cap_states, allowed;
	bool promised; /* an fsync was acknowledged: it must open */
	bool is_log;
	/* when, as a number of changes of names (nlinks) */
	uint64_t linked;           /* the last change of its own names           */
	uint64_t removed;          /* it lost its last name; 0: it has one       */
	uint64_t changed, resized; /* the last change of it, and of its length   */
	uint64_t own;              /* up to here its own fsyncs took names along */
	uint64_t replacer;         /* the file that got its last name; 0: none   */
};

static struct file files[MAX_FILES];
static size_t nfiles;
static struct file *intent_log;
static uint64_t nlinks, safe_links; /* changes of names, and those that are on the disk */
static struct buf log_disk; /* as the cut left it */
static uint64_t napplied;
static uint64_t npoints, nopened, nrecovered, nboots, nkept, nsyncs, skip_every, skip_names;
static const char *keep_dir;
static struct scratch *scratch;

static void *grow(void *p, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return p;
	*cap = *cap ? 2 * *cap : 64;
	p = realloc(p, *cap * size);
	if (!p)
		abort();
	return p;
}

static struct file *file_of(uint64_t ino)
{
	for (size_t i = 0; i < nfiles; i++)
		if (files[i].ino == ino)
			return &files[i];
	if (nfiles == MAX_FILES)
		abort();
	files[nfiles].ino = ino;
	return &files[nfiles++];
}

static void add_call(struct file *f, struct call c, const uint8_t *bytes)
{
	f->call = grow(f->call, f->ncalls, &f->cap_calls, sizeof *f->call);
	if (bytes) {
		c.bytes = malloc(c.len);
		if (!c.bytes)
			abort();
		memcpy(c.bytes, bytes, c.len);
	}
	size_t before = f->now.n;
	apply(&f->now, &c, true);
	f->changed = nlinks;
	if (f->now.n != before)
		f->resized = nlinks;
	f->call[f->ncalls++] = c;
}

static void add_state(struct file *f, struct view content)
{
	size_t cap = f->cap_states;
	f->state = grow(f->state, f->nstates, &f->cap_states, sizeof *f->state);
	f->bytes = grow(f->bytes, f->nstates, &cap, sizeof *f->bytes);
	f->state[f->nstates] = (struct state){sum_of(content), content.n};
	f->bytes[f->nstates++] = content.p;
}

static void created(struct file *f)
{
	forget_calls(f->call, &f->ncalls);
	f->now.n = f->safe.n = 0;
	f->nstates = f->allowed = 0;
	f->promised = f->is_log = false;
	f->linked = f->removed = f->own = f->replacer = 0;
	f->changed = f->resized = nlinks;
	if (intent_log == f)
		intent_log = NULL;
	add_state(f, view_of(NULL, 0));
}

static void synced(struct file *f)
{
	if (skip_every && ++nsyncs % skip_every == 0)
		return;
	f->safe.n = 0;
	if (buf_append(&f->safe, buf_view(&f->now)) < 0)
		abort();
	forget_calls(f->call, &f->ncalls);
}

/* The newest such state, or -1 if none is allowed. */
static ssize_t find_state(const struct file *f, struct state st)
{
	for (size_t i = f->nstates; i-- > f->allowed;)
		if (f->state[i].hash == st.hash && f->state[i].size == st.size)
			return (ssize_t)i;
	return -1;
}

static bool some_state_has(const struct file *f, uint64_t at, uint8_t byte)
{
	for (size_t i = f->nstates; i-- > f->allowed;)
		if ((at < f->state[i].size ? f->bytes[i][at] : 0) == byte)
			return true;
	return false;
}

/* For a file that is committed in parts: each byte is from a state that is allowed. */
static bool is_mixture(const struct file *f, struct view got)
{
	uint64_t least = UINT64_MAX, most = 0;
	for (size_t i = f->allowed; i < f->nstates; i++) {
		least = min_u64(least, f->state[i].size);
		most = max_u64(most, f->state[i].size);
	}
	if (most <= IN_PARTS || got.n < least || got.n > most)
		return false;
	for (uint64_t at = 0; at < got.n; at++)
		if (!some_state_has(f, at, got.p[at]))
			return false;
	return true;
}

static int complain(const struct file *f, const char *what, int rc, struct state st)
{
	char text[ERR_TEXT_MAX];
	printf("file %" PRIu64 ": %s: %s; size %" PRIu64
	       ", states %zu..%zu, %zu calls, point %" PRIu64 "\n",
	       f->ino, what, rc < 0 ? err_text(rc, text) : "no such state", st.size,
	       f->allowed, f->nstates, f->ncalls, npoints);
	return -EIO;
}

static void save(const char *suffix, struct view bytes)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%" PRIu64 "%s", keep_dir, nkept, suffix);
	FILE *out = fopen(path, "w");
	if (!out || fwrite(bytes.p ? bytes.p : (const uint8_t *)"", 1, bytes.n, out) != bytes.n ||
	    fclose(out) != 0)
		abort();
}

/* Opened again, it is the same. */
static int judge_again(struct file *f, struct frame *opened, struct state st)
{
	struct io *io;
	struct frame *again;
	struct state now = {0};
	TRY(io_mem_open(&io, io_mem_bytes(frame_io(opened))));
	TRY(frame_open_take(&again, io));
	int rc = content(again, scratch, &now);
	frame_close(again);
	if (rc < 0 || now.hash != st.hash || now.size != st.size)
		return complain(f, "second opening", rc, now);
	return 0;
}

/* As replay.c does, but with bytes in memory. */
static int apply_record(struct buf *b, const struct intent_record *r)
{
	struct view from = r->bytes;
	for (uint32_t i = 0; i < r->nranges; i++) {
		struct byte_range t = intent_record_range(r, i);
		uint64_t len = t.hi - t.lo;
		apply_write(b, t.lo, from.p, len);
		from = view_part(from, len, from.n - len);
	}
	napplied++;
	return ensure(b, r->size);
}

static int apply_log(const struct file *f, const struct frame_roots *found, struct buf *b)
{
	struct view rest = buf_view(&log_disk);
	struct intent_record r;
	uint64_t generation = 0;
	for (uint64_t i = 0;; i++) {
		uint64_t len = intent_record_length(rest);
		if (!len || len > rest.n || intent_record_parse(&r, view_part(rest, 0, len)) < 0)
			return 0;
		generation = i ? generation : r.generation;
		if (r.generation != generation || r.sequence != i)
			return 0;
		rest = view_part(rest, len, rest.n - len);
		int rc = r.inode == f->ino ? intent_record_judge(&r.roots, found) : 0;
		if (rc > 0)
			rc = apply_record(b, &r);
		TRY(rc);
	}
}

/*
 * What a mount after the power cut shows. -EBADMSG: it puts the log
 * aside, which a power cut must not lead to.
 */
static int shown(const struct file *f, struct frame *opened, struct view *bytes)
{
	static struct buf b;
	struct frame_roots roots = frame_roots(opened);
	TRY(buf_reserve(&b, frame_size(opened) + 1));
	b.n = frame_size(opened);
	TRY(frame_read(opened, 0, scratch, buf_span(&b)));
	int rc = apply_log(f, &roots, &b);
	*bytes = buf_view(&b);
	return rc;
}

static int judge_frame(struct file *f, struct buf *b, struct frame *opened)
{
	struct state st = {0}, plain = {0};
	struct view bytes = {0};
	int rc = content(opened, scratch, &plain);
	if (rc == 0)
		rc = shown(f, opened, &bytes);
	if (rc == 0)
		st = (struct state){sum_of(bytes), bytes.n};
	ssize_t at = rc < 0 ? -1 : find_state(f, st);
	if (rc < 0 || (at < 0 && !is_mixture(f, bytes)))
		return complain(f, rc < 0 ? "read" : "content", rc, st);
	struct view after = io_mem_bytes(frame_io(opened));
	nrecovered += memcmp(after.p, b->p, min_u64(b->n, HEADER_FIXED)) != 0;
	if (at >= 0 && keep_dir && nkept < KEEP_MOST && nopened % KEEP_EVERY == 0 &&
	    plain.hash == st.hash && plain.size == st.size) {
		save(".b2frame", after);
		save("", view_of(f->bytes[at], st.size));
		nkept++;
	}
	return judge_again(f, opened, plain);
}

static int judge(struct file *f, struct buf *b)
{
	struct io *io;
	struct frame *opened;
	struct frame_info probed;
	struct state none = {0};
	/*
	 * If only an empty root is left, and bytes follow it, the
	 * frame is refused rather than taken for empty.
	 */
	bool may_fail = !f->promised || find_state(f, none) >= 0;
	nopened++;
	if (b->n == 0) /* for the mount, that is an empty file */
		return may_fail ? 0 : complain(f, "no bytes", 0, none);
	TRY(io_mem_open(&io, buf_view(b)));
	int rc = frame_probe(io, &probed);
	if (rc < 0)
		io_close(io);
	else
		rc = frame_open_take(&opened, io);
	if (rc < 0)
		return may_fail && rc == -EBADMSG ? 0 : complain(f, "open", rc, none);
	rc = judge_frame(f, b, opened);
	frame_close(opened);
	return rc;
}

/* Its last name is certainly gone. */
static bool is_gone(const struct file *f)
{
	const struct file *by = f->replacer ? file_of(f->replacer) : f;
	return f->removed && f->removed <= max_u64(safe_links, max_u64(f->own, by->own));
}

/* What to check after a change of the log, on which all files depend, or of a file that is gone. */
static struct file *any_frame(void)
{
	size_t first = draw((uint32_t)nfiles);
	for (size_t i = 0; i < nfiles; i++) {
		struct file *f = &files[(first + i) % nfiles];
		if (!f->is_log && f->nstates && !is_gone(f))
			return f;
	}
	return NULL;
}

static int cut_power(struct file *f, uint64_t count)
{
	static struct buf b;
	int rc = 0;
	uint64_t boot = era_boot();
	for (uint64_t i = 0; rc == 0 && i < count; i++) {
		/* what was verified on another disk does not count */
		era_boot_set(boot + 2 * ++nboots);
		build_disk(&b, buf_view(&f->safe), f->call, f->ncalls);
		if (intent_log)
			build_disk(&log_disk, buf_view(&intent_log->safe), intent_log->call,
				   intent_log->ncalls);
		rc = judge(f, &b);
	}
	era_boot_set(boot);
	return rc;
}

static void note_log(struct file *f, uint64_t at, struct view bytes)
{
	if (at || !intent_record_length(bytes))
		return;
	f->is_log = true;
	intent_log = f;
}

static void linked(uint64_t ino, uint64_t gone)
{
	nlinks++;
	if (ino) {
		struct file *f = file_of(ino);
		f->linked = f->changed = nlinks;
		f->removed = 0;
	}
	if (gone) {
		struct file *f = file_of(gone);
		f->linked = f->changed = f->removed = nlinks;
		f->replacer = ino;
	}
}

static void names_synced(uint64_t *safe, uint64_t up_to)
{
	if (!skip_names || ++nsyncs % skip_names)
		*safe = max_u64(*safe, up_to);
}

static void all_synced(void)
{
	for (size_t i = 0; i < nfiles; i++)
		synced(&files[i]);
	names_synced(&safe_links, nlinks);
}

/* -EIO if a name that was promised could be missing after a power cut. */
static int judge_names(const struct file *f)
{
	uint64_t safe = max_u64(safe_links, f->own);
	if (f->is_log || f->linked <= safe)
		return 0;
	printf("file %" PRIu64 ": its names are not on the disk: %" PRIu64 " of %" PRIu64
	       ", its own %" PRIu64 "; point %" PRIu64 "\n",
	       f->ino, safe, nlinks, f->linked, npoints);
	return -EIO;
}

static int judge_all_names(void)
{
	for (size_t i = 0; i < nfiles; i++)
		TRY(judge_names(&files[i]));
	return 0;
}

/* Returns whether it changed the disk. */
static bool take(const struct crash_record *r, const uint8_t *bytes)
{
	struct file *f = r->ino ? file_of(r->ino) : NULL;
	uint64_t n = 0;
	switch (r->kind) {
	case CRASH_CREATE: created(f); return false;
	case CRASH_WRITE:
		note_log(f, r->at, view_of(bytes, r->len));
		add_call(f, (struct call){CALL_WRITE, r->at, r->len, NULL}, bytes);
		return true;
	case CRASH_TRUNCATE:
		add_call(f, (struct call){CALL_TRUNCATE, r->at, 0, NULL}, NULL);
		return true;
	case CRASH_PUNCH:
		memcpy(&n, bytes, sizeof n);
		add_call(f, (struct call){CALL_PUNCH, r->at, n, NULL}, NULL);
		return true;
	case CRASH_SYNC:
		synced(f);
		names_synced(&f->own, r->at ? f->changed : f->resized);
		return true;
	case CRASH_NAMES_SYNC: names_synced(&safe_links, nlinks); return false;
	case CRASH_ALL_SYNC: all_synced(); return false;
	case CRASH_LINK: linked(r->ino, r->at); return false;
	case CRASH_CONTENT: add_state(f, view_of(bytes, r->len)); return false;
	case CRASH_SYNCED:
		f->allowed = f->nstates - 1;
		f->promised = true;
		return true;
	default: return false;
	}
}

/* Goes through the trace, and tries about `count` disks in all. */
static int replay(struct view trace, uint64_t points, uint64_t count)
{
	struct crash_record r;
	uint64_t done = 0;
	for (size_t at = 0; at + sizeof r <= trace.n; at += sizeof r + r.len) {
		memcpy(&r, trace.p + at, sizeof r);
		if (r.len > trace.n - at - sizeof r)
			return -EBADMSG;
		bool changed = take(&r, trace.p + at + sizeof r);
		if (r.kind == CRASH_SYNCED)
			TRY(judge_names(file_of(r.ino)));
		if (r.kind == CRASH_NAMES_SYNCED)
			TRY(judge_all_names());
		if (!changed)
			continue;
		npoints++;
		uint64_t due = points ? count * npoints / points : 0;
		struct file *f = file_of(r.ino);
		f = f->is_log || is_gone(f) ? any_frame() : f;
		if (!f)
			continue; /* the next point gets the disks that are due here */
		TRY(cut_power(f, due - done));
		done = due;
	}
	return 0;
}

static int map_trace(const char *path, struct view *trace)
{
	int fd = open(path, O_RDONLY);
	off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	if (size <= 0)
		return -ENOENT;
	void *p = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return -errno;
	*trace = view_of(p, (size_t)size);
	return 0;
}

static void forget_all(void)
{
	for (size_t i = 0; i < nfiles; i++) {
		struct file *f = &files[i];
		forget_calls(f->call, &f->ncalls);
		free(f->call);
		free(f->state);
		free(f->bytes);
		buf_free(&f->now);
		buf_free(&f->safe);
	}
	memset(files, 0, sizeof files);
	nfiles = 0;
	intent_log = NULL;
	nlinks = safe_links = 0;
	buf_free(&log_disk);
}

int main(int argc, char **argv)
{
	struct view trace = {0};
	if (argc < 4)
		return 2;
	seed = (unsigned)atoi(argv[3]) * 2654435761u;
	if (argc == 6 && strcmp(argv[4], "--skip-sync") == 0)
		skip_every = (uint64_t)atoll(argv[5]);
	else if (argc == 6 && strcmp(argv[4], "--skip-names") == 0)
		skip_names = (uint64_t)atoll(argv[5]);
	else if (argc == 6)
		keep_dir = argv[5];
	log_init(LOG_LEVEL_ERR, LOG_SINK_STDERR);
	int rc = map_trace(argv[1], &trace);
	if (rc == 0)
		rc = scratch_open(&scratch);
	if (rc == 0)
		rc = replay(trace, 0, 0); /* counts the points */
	uint64_t points = npoints;
	npoints = nsyncs = 0;
	forget_all();
	if (rc == 0)
		rc = replay(trace, points, (uint64_t)atoll(argv[2]));
	printf("%" PRIu64 " points, %" PRIu64 " states, %" PRIu64 " recovered, %" PRIu64
	       " records applied%s\n",
	       npoints, nopened, nrecovered, napplied, rc < 0 ? ", FAILED" : "");
	fflush(stdout);
	if (rc < 0)
		_exit(1); /* nobody tidies up after a failure */
	forget_all();
	scratch_close(scratch);
	munmap((void *)(uintptr_t)trace.p, trace.n);
	return 0;
}
