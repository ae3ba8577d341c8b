#include "fs/backing/probe.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/meter.h"
#include "frame/view_npy.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define RETRY_NS (2 * CLOCK_MS)

/* Direct-mapped: a collision costs one more read of a header. 13 MB once all have been used. */
#define SLOTS 131072

struct slot {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime, ctime;
	enum suffix suffix; /* one inode may have a name of each sort */
	bool used;
	bool told; /* probe_tell_once has returned true for it */
	/*
	 * until when it is valid (meter_now), since a change in the same clock step may not show;
	 * 0: for ever
	 */
	uint64_t until;
	struct probed result;
};

struct probes {
	pthread_mutex_t lock;
	struct slot slot[SLOTS]; /* under lock */
};

int probes_open(struct probes **out)
{
	struct probes *p = mem_zalloc(sizeof *p);
	if (!p)
		return -ENOMEM;
	pthread_mutex_init(&p->lock, NULL);
	*out = p;
	return 0;
}

void probes_close(struct probes *p)
{
	if (!p)
		return;
	pthread_mutex_destroy(&p->lock);
	mem_free(p);
}

/* The key under which an entry is remembered, and its slot. */
struct key {
	const struct stat *st;
	enum suffix suffix;
	struct slot *slot;
};

static struct key key_of(struct probes *p, const char *name, const struct stat *st)
{
	size_t stem;
	enum suffix suffix = suffix_of(name, &stem);

	return (struct key){st, suffix,
			    &p->slot[(st->st_ino ^ (st->st_dev << 7) ^ suffix) % SLOTS]};
}

/* Under the lock, here and in remember. */
static bool matches(const struct key *k)
{
	const struct slot *s = k->slot;
	const struct stat *st = k->st;

	return s->used && s->dev == st->st_dev && s->ino == st->st_ino && s->size == st->st_size &&
	       s->suffix == k->suffix && same_time(s->mtime, st->st_mtim) &&
	       same_time(s->ctime, st->st_ctim);
}

bool probe_tell_once(struct probes *p, const char *name, const struct stat *st)
{
	struct key k = key_of(p, name, st);

	pthread_mutex_lock(&p->lock);
	bool first = matches(&k) && !k.slot->told;
	if (first)
		k.slot->told = true;
	pthread_mutex_unlock(&p->lock);
	return first;
}

/* Opens by name, and checks that it is the same file: going through /proc takes twice as long. */
static int open_entry(const struct backing *b, const struct probe_entry *e)
{
	const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
	struct stat st;

	int rd = e->dirfd < 0
			 ? -1
			 : openat(e->dirfd, e->name, flags | O_NOFOLLOW | O_NOATIME | O_CLOEXEC);
	if (rd >= 0 && stat_fd(rd, &st) == 0 && st.st_ino == e->st->st_ino &&
	    st.st_dev == e->st->st_dev)
		return rd;
	if (rd >= 0)
		close(rd);
	return backing_reopen(b, e->fd, flags);
}

/*
 * Our attempt has asked another program, such as Samba, to give up its lease (fcntl(2)) on the
 * file, which most do within moments.
 */
#define LEASE_TRIES 50
#define LEASE_NAP_MAX_NS CLOCK_MS

static int open_patiently(const struct backing *b, const struct probe_entry *e)
{
	uint64_t nap = CLOCK_NAP;
	int rd = open_entry(b, e);

	for (int i = 0; rd == -EAGAIN && i < LEASE_TRIES; i++) {
		clock_nap(&nap, LEASE_NAP_MAX_NS);
		rd = open_entry(b, e);
	}
	return rd;
}

/* How the content of an entry is probed. */
struct task {
	const struct backing *b;
	const struct probe_entry *e;
	enum suffix suffix;
	bool corrected; /* the header may name another root than the one that an open finds */
};

static int probe_io_take(const struct task *t, struct io *io, struct probed *out)
{
	struct frame_info info;

	if (t->suffix == SUFFIX_ARRAY) {
		*out = (struct probed){.kind = NODE_ARRAY};
		return npy_probe_take(io, &out->size, &out->blocksize);
	}
	int rc = t->corrected ? frame_probe_all(io, &info) : frame_probe(io, &info);
	io_close(io);
	*out = (struct probed){.kind = NODE_FRAME,
			       .size = rc < 0 ? 0 : info.nbytes,
			       .blocksize = rc < 0 ? 0 : info.block_size,
			       .corrected = t->corrected};
	return rc;
}

static int probe_contiguous(const struct task *t, struct probed *out)
{
	struct io *io;

	int rd = open_patiently(t->b, t->e);
	if (rd == -EBADMSG || rd == -ENOTSUP || rd == -E2BIG)
		return -EIO; /* of fs-verity, say: it has not been read yet */
	TRY(rd);
	int rc = io_file_open(&io, rd);
	if (rc >= 0)
		rc = probe_io_take(t, io, out);
	if (rc >= 0 && t->e->reader)
		*t->e->reader = rd;
	else
		close(rd);
	return rc;
}

/* A directory is a sparse frame if its index says so; any other stays a directory. */
static int probe_directory(int fd, struct probed *out)
{
	struct frame_info info;

	int rd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (rd < 0)
		return -errno;
	int rc = faccessat(rd, NAMES_SPARSE_INDEX, F_OK, AT_SYMLINK_NOFOLLOW) < 0
			 ? -errno
			 : frame_probe_sparse(rd, &info);
	close(rd);
	*out = (struct probed){.kind = NODE_SPARSE, .size = rc < 0 ? 0 : info.nbytes,
			       .blocksize = rc < 0 ? 0 : info.block_size};
	return rc;
}

static int probe_content(const struct task *t, struct probed *out)
{
	err_clear();
	return S_ISDIR(t->e->st->st_mode) ? probe_directory(t->e->fd, out)
					  : probe_contiguous(t, out);
}

/* A frame that is being written may look broken for a moment: probes it until nothing changes. */
static int probe_steady(const struct task *t, struct probed *out)
{
	struct stat before = *t->e->st, after;

	for (int tries = 0;; tries++) {
		int rc = probe_content(t, out);
		if (rc != -EBADMSG || tries == 8 || stat_fd(t->e->fd, &after) < 0)
			return rc;
		if (backing_is_fresh(after.st_ctim))
			clock_sleep(RETRY_NS);
		else if (after.st_size == before.st_size &&
			 same_time(after.st_ctim, before.st_ctim))
			return rc;
		before = after;
	}
}

/*
 * A frame that we may not read, for example with mode 000, keeps its name: programs that create
 * such a file find it again, and tar replaces it by a link. Its size is the one from before its
 * mode changed; or else its stored size, as a guess. (A change of the mode shows in ctime.)
 */
static void take_unreadable(struct probes *p, const struct key *k, struct probed *out)
{
	*out = (struct probed){
		.kind = k->suffix == SUFFIX_ARRAY ? NODE_ARRAY : NODE_FRAME,
		.size = (uint64_t)k->st->st_size,
		.guess = true,
	};
	struct stat st = *k->st;
	struct key was = {&st, k->suffix, k->slot};

	pthread_mutex_lock(&p->lock);
	st.st_ctim = k->slot->ctime;
	if (matches(&was) && k->slot->result.kind == out->kind)
		*out = k->slot->result;
	pthread_mutex_unlock(&p->lock);
}

/*
 * Remembers a result. True: the entry was already known not to be a frame. What was probed before,
 * and is still the same after `until`, is no longer `fresh`.
 */
static bool remember(const struct key *k, struct probed *result)
{
	const struct stat *st = k->st;
	struct slot *s = k->slot;
	uint64_t now = meter_now();
	bool same = matches(k), old = same && s->until && now >= s->until;
	bool was_plain = same && s->result.kind == NODE_PLAIN;

	result->fresh &= !old;
	*s = (struct slot){
		.dev = st->st_dev, .ino = st->st_ino, .size = st->st_size, .mtime = st->st_mtim,
		.ctime = st->st_ctim, .suffix = k->suffix, .used = true, .told = same && s->told,
		.result = *result,
		.until = result->fresh ? now + BACKING_STEP_NS : 0,
	};
	return was_plain;
}

/* True: a later change may go unnoticed. */
static bool is_fresh(const struct stat *st)
{
	return backing_is_fresh(st->st_ctim) || backing_is_fresh(st->st_mtim);
}

bool probe_correct(struct probes *p, const char *name, const struct stat *st,
		   const struct probed *is)
{
	struct key k = key_of(p, name, st);
	struct probed result = *is;

	result.corrected = true;
	result.fresh = is_fresh(st);
	pthread_mutex_lock(&p->lock);
	bool known = matches(&k) && k.slot->result.kind == is->kind &&
		     k.slot->result.size == is->size;
	if (!known)
		(void)remember(&k, &result);
	pthread_mutex_unlock(&p->lock);
	return !known;
}

/* True: a new file whose name got to the disk before a power cut, but not its content. */
static bool is_empty_frame(const struct key *k)
{
	return S_ISREG(k->st->st_mode) && k->st->st_size == 0 && k->suffix == SUFFIX_FRAME;
}

/* *out becomes what was found before. True: that still holds. */
static bool recall(struct probes *p, const struct key *k, struct probed *out)
{
	const struct slot *s = k->slot;

	pthread_mutex_lock(&p->lock);
	bool same = matches(k);
	bool known = same && (!s->until || meter_now() < s->until);
	if (same)
		*out = s->result;
	pthread_mutex_unlock(&p->lock);
	return known;
}

/*
 * True: an entry that could not be probed for this reason is no frame, or none that we can show. No
 * failure of a disk or a server proves that.
 */
static bool is_no_frame(const struct stat *st, int rc)
{
	if (S_ISDIR(st->st_mode) && (rc == -ENOENT || rc == -EACCES || rc == -EPERM))
		return true; /* it has no index, or nobody knows */
	return rc == -EBADMSG || rc == -ENOTSUP || rc == -E2BIG || rc == -EFBIG;
}

static int probe_anew(struct probes *p, const struct task *t, const struct key *k,
		      struct probed *out)
{
	char name[PATH_MAX], text[ERR_TEXT_MAX];

	/* Before it is read: either a later change will show, or we know that it may not. */
	bool fresh = is_fresh(k->st);
	int rc = probe_steady(t, out);
	if ((rc == -EACCES || rc == -EPERM) && S_ISREG(k->st->st_mode)) {
		take_unreadable(p, k, out);
		rc = 0;
	}
	if (rc < 0 && !is_no_frame(k->st, rc)) {
		if (!t->e->silent) {
			backing_log_name(t->b, t->e->fd, t->e->name, name);
			log_err("%s: could not be read: %s", name, err_text(rc, text));
		}
		return rc;
	}
	if (rc < 0)
		*out = (struct probed){.kind = NODE_PLAIN};
	out->fresh = fresh;
	pthread_mutex_lock(&p->lock);
	bool told = remember(k, out);
	pthread_mutex_unlock(&p->lock);
	if (rc < 0 && !told && !(S_ISDIR(k->st->st_mode) && rc == -ENOENT)) {
		backing_log_name(t->b, t->e->fd, t->e->name, name);
		log_warn("%s: shown under its own name: %s", name, err_text(rc, text));
	}
	return 0;
}

int probe_get(struct probes *p, const struct backing *b, const struct probe_entry *e,
	      struct probed *out)
{
	struct key k = key_of(p, e->name, e->st);

	*out = (struct probed){.kind = NODE_PLAIN};
	if (names_may_be(e->name, e->st->st_mode) == NODE_PLAIN)
		return 0;
	if (is_empty_frame(&k)) {
		out->kind = NODE_FRAME;
		return 0;
	}
	if (recall(p, &k, out))
		return 0;
	struct task t = {b, e, k.suffix, out->corrected};
	return probe_anew(p, &t, &k, out);
}
