#include "fs/file_log.h"

#include "fs/file_share.h"
#include "fs/flush.h"
#include "fs/times.h"
#include "fs/workspace.h"

/* Larger files keep their chunks: re-encoding them would cost more than the slices are worth. */
#define BYTEWISE_MAX (16u << 20)

static bool must_become_bytewise(struct file *f)
{
	uint64_t size = frame_size(f->frame);

	return f->items_whole && size <= BYTEWISE_MAX &&
	       policy_wants_bytewise(&f->policy, size, frame_info(f->frame)->chunk_size);
}

/* True: the chunk is stored with items of more than a byte. */
static bool is_typed(struct file *f, uint32_t n, struct workspace *ws)
{
	struct chunk c = {0};
	bool typed = frame_slot(f->frame, n) == SLOT_STORED &&
		     frame_load_chunk(f->frame, n, ws->scratch, &c) >= 0 && c.typesize > 1;
	chunk_deinit(&c);
	return typed;
}

/* The length is not whole items any more (policy.h): what was stored as items is stored anew. */
static int become_bytewise(struct file *f)
{
	struct workspace *ws = workspace_get();
	int rc = ws ? 0 : -ENOMEM;

	pthread_rwlock_wrlock(&f->lock);
	f->items_whole = false;
	for (uint32_t n = 0; rc >= 0 && n < frame_nchunks(f->frame); n++)
		if (is_typed(f, n, ws))
			rc = dirty_get_whole(f, n);
	pthread_rwlock_unlock(&f->lock);
	return rc < 0 ? rc : flush_all(f);
}

/* The header names the pipeline of the first data, which was not known before that came. */
static void name_choice(struct file *f)
{
	struct pipeline p;

	if (policy_first_choice(&f->policy, &p))
		frame_set_pipeline(f->frame, &p);
}

static int commit(struct file *f, enum durability how)
{
	int entered = frame_dirty(f->frame) ? file_enter_commit(f) : 0;
	TRY(entered);
	pthread_rwlock_wrlock(&f->lock);
	if (frame_dirty(f->frame))
		name_choice(f);
	int rc = frame_commit(f->frame, how);
	f->wants_commit = false;
	if (rc >= 0 && how == COMMIT_SYNC)
		touched_clear(&f->touched);
	pthread_rwlock_unlock(&f->lock);
	file_leave_commit(f, entered);
	if (rc >= 0)
		times_committed(f->inode, f->fd);
	return rc;
}

/* Of a file that is only read: what another program or an earlier close wrote gets durable. */
static int sync_read_only(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	int rc = f->fd < 0 ? 0 : io_sync(frame_io(f->frame));
	pthread_rwlock_unlock(&f->lock);
	return rc;
}

static int sync_gated(struct file *f, enum durability how)
{
	if (f->gone)
		return 0;
	if (f->lost)
		return -EIO;
	/* Even a clean commit may touch the file: mtime is kept for all of them. */
	times_hold(f->inode, f->fd);
	TRY(flush_all(f));
	if (must_become_bytewise(f))
		TRY(become_bytewise(f));
	TRY(commit(f, how));
	if (how == COMMIT_SYNC)
		file_log_committed(f);
	/* What is in the log still waits for a commit that is durable. */
	if (!intent_has(f->fs->intent, &f->mark))
		budget_file_clean(f->fs->budget, f);
	return 0;
}

int file_sync(struct file *f, enum durability how)
{
	if (!f->writable)
		return how == COMMIT_SYNC ? sync_read_only(f) : 0;
	pthread_rwlock_wrlock(&f->gate);
	int rc = 0;
	if (how == COMMIT_SYNC || file_changed(f))
		rc = sync_gated(f, how);
	else if (!intent_has(f->fs->intent, &f->mark))
		budget_file_clean(f->fs->budget, f);
	pthread_rwlock_unlock(&f->gate);
	return rc;
}

void file_lose(struct file *f, int rc)
{
	pthread_mutex_lock(&f->flight_lock);
	f->losses++;
	f->loss_rc = rc;
	pthread_mutex_unlock(&f->flight_lock);
}

int file_take_loss(struct file *f, _Atomic uint32_t *seen)
{
	pthread_mutex_lock(&f->flight_lock);
	int rc = *seen == f->losses ? 0 : f->loss_rc;
	*seen = f->losses;
	pthread_mutex_unlock(&f->flight_lock);
	return rc;
}

uint32_t file_losses(struct file *f)
{
	pthread_mutex_lock(&f->flight_lock);
	uint32_t n = f->losses;
	pthread_mutex_unlock(&f->flight_lock);
	return n;
}

int file_fsync(struct file *f)
{
	bool safe;

	file_log(f, &safe);
	return safe ? 0 : file_sync(f, COMMIT_SYNC);
}

bool file_in_log(struct file *f)
{
	return intent_has(f->fs->intent, &f->mark);
}
