/* Applying the records of the intent log to a frame. */
#include "base/log.h"
#include "fs/file/alone.h"
#include "fs/file/discard.h"
#include "fs/file/loss.h"
#include "fs/file/open.h"
#include "fs/file/sync.h"
#include "fs/file/write.h"
#include "fs/inode/times.h"
#include "fs/intent/replay_impl.h"

static int apply_record(struct file *f, const struct intent_record *r)
{
	struct view bytes = r->bytes;

	for (uint32_t i = 0; i < r->nranges; i++) {
		struct byte_range t = intent_record_range(r, i);
		size_t len = t.hi - t.lo;
		struct file_data d = {.at = t.lo, .bytes = view_part(bytes, 0, len)};
		ssize_t done = file_write(f, &d, FILE_FROM_CALLER);
		TRY(done);
		if ((size_t)done != len)
			return -EIO;
		bytes = view_from(bytes, len);
	}
	TRY(file_extend(f, r->size));
	times_set_mtime(f->inode, &r->mtime);
	return 0;
}

/* False: the record belongs to a file that is gone, and this one has got its inode number. */
static bool is_same(const struct place *p, uint64_t inode, uint64_t birth)
{
	return p->inode == inode && (p->birth == birth || !p->birth || !birth);
}

/* With a high level this takes long, and the mount does not appear before it is done. */
static void say_once(struct replay *x)
{
	if (!x->said)
		log_info("intent log: what was synced last is being written to its frames");
	x->said = true;
}

/* Applies all records of the frame, in memory. Returns how many of them it did not contain. */
static int apply_all(struct replay *x, struct file *f, uint64_t inode)
{
	struct frame_roots roots = frame_roots(f->frame);
	uint64_t birth = backing_birth(f->fd);
	struct intent_record r;
	struct buf b = {0};
	int rc = 0, n = 0;

	for (uint32_t i = 0; rc >= 0 && i < x->n; i++) {
		const struct place *p = &x->place[i];
		if (!is_same(p, inode, birth))
			continue;
		rc = intent_record_judge(&p->roots, &roots);
		if (rc <= 0)
			continue;
		n++;
		if (x->only_looks)
			continue;
		say_once(x);
		rc = replay_read(x->fd, p->at, &b, &r);
		if (rc >= 0)
			rc = apply_record(f, &r);
	}
	buf_free(&b);
	return rc < 0 ? rc : n;
}

/*
 * Data over damage is lost, but not the rest of the file. Then the log, which has the only copy, is
 * kept.
 */
static int apply_open(struct replay *x, struct file *f, uint64_t inode)
{
	f->replaying = true;
	int n = apply_all(x, f, inode);
	int rc = n > 0 && !x->only_looks ? file_sync(f, COMMIT_SYNC) : n;
	if (rc < 0)
		file_discard(f);
	else
		x->failed += file_losses(f) > 0;
	f->replaying = false;
	return rc < 0 ? rc : n;
}

int replay_apply(struct replay *x, struct inode *dir, struct entry *e)
{
	struct fs *fs = x->fs;
	struct file *f;

	e->probed = (struct probed){.kind = NODE_FRAME};
	struct inode *n = inode_from_entry(fs->inodes, dir, e);
	if (!n)
		return -ENOMEM;
	int rc = file_get(fs, n, x->only_looks ? O_RDONLY : O_RDWR, &f);
	if (rc >= 0) {
		rc = apply_open(x, f, n->key.ino);
		file_put(fs, n);
	}
	inode_put(fs->inodes, n, 1);
	return rc;
}
