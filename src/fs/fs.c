#include "fs/fs.h"

#include "base/container.h"
#include "base/log.h"
#include "base/meter.h"
#include "frame/held.h"
#include "fs/backing/claim.h"
#include "fs/fit.h"
#include "fs/intent/replay.h"
#include "fs/ops/ops.h"
#include "fs/session/stopper.h"
#include "fs/workspace.h"

#include <assert.h>

#define THREADS 16 /* that serve requests, at most */

/* Memory for spare chunk buffers, in addition to -o dirty_max. The keeper frees unused ones. */
#define SPARE_MOST (16u << 20)

void fs_init(struct fs *fs, const struct options *o)
{
	*fs = (struct fs){.opt = *o,
			  .backing = BACKING_NONE,
			  .absent.lock = PTHREAD_MUTEX_INITIALIZER,
			  .uncommitted.lock = PTHREAD_MUTEX_INITIALIZER,
			  .uncommitted.unpinned = PTHREAD_COND_INITIALIZER,
			  .refitting = PTHREAD_MUTEX_INITIALIZER,
			  .relief = {.lock = PTHREAD_MUTEX_INITIALIZER, .most = RELIEF_MOST},
			  .began = meter_now()};
	seek_queue_init(&fs->seeks);
	fs->threads = fit_space(&fs->opt, THREADS);
	if (fs->threads < THREADS)
		fs->relief.most = fs->threads;
	fit_memory(&fs->opt);
}

static int lock_backing(struct fs *fs)
{
	const char *who = fs->opt.read_only ? "another cframefs that writes" : "another cframefs";
	struct holder h;

	int rc = claim_take(&fs->backing, fs->opt.read_only, stopper_is_asked, &h);
	if (rc == -EBUSY && h.at[0])
		log_err("backing directory '%s': %s has %s mounted %s '%s'", fs->opt.backing, who,
			h.has, h.elsewhere ? "on another machine," : "at", h.at);
	else if (rc == -EBUSY || rc == -EINTR)
		log_err("backing directory '%s': %s%s uses %s%s", fs->opt.backing, who,
			h.process, h.has,
			rc == -EINTR ? "; a signal has ended the wait for that" : "");
	return rc == -EINTR ? -EBUSY : rc;
}

static int open_parts(struct fs *fs)
{
	TRY(workspace_init());
	TRY(backing_open(&fs->backing, fs->opt.backing));
	TRY(lock_backing(fs));
	TRY(probes_open(&fs->probes));
	unsigned long limit = backing_raise_nofile();
	backing_reserve_fds(&fs->backing, limit);
	TRY(inodes_open(&fs->inodes, &fs->backing, limit));
	TRY(cache_open(&fs->cache, fs->opt.cache));
	TRY(large_open(&fs->large, fs->cache));
	held_bound(large_most(fs->large));
	TRY(budget_open(&fs->budget, fs));
	TRY(spare_open(&fs->spare, min_u64(fs->opt.dirty_max / 4, SPARE_MOST)));
	TRY(pool_open(&fs->pool, (unsigned)fs->opt.workers));
	fs->checkpoint = checkpoint_open(&fs->backing, fs->opt.read_only, &fs->sync_failed);
	TRY(replay(fs));
	if (fs->opt.intent && fs->opt.commit > 0 && !fs->opt.read_only)
		TRY(intent_open(&fs->intent, &fs->backing, fs->opt.intent));
	return 0;
}

int fs_open(struct fs *fs)
{
	char text[ERR_TEXT_MAX];

	recall_init(&fs->recall);
	int rc = open_parts(fs);
	if (rc < 0 && rc != -EBUSY) /* -EBUSY was logged where it was found */
		log_err("backing directory '%s': cannot be mounted: %s", fs->opt.backing,
			err_text(rc, text));
	return rc;
}

void fs_close(struct fs *fs)
{
	if (fs->pool)
		ops_close_all(fs);
	intent_settle(fs->intent, &fs->sync_failed);
	intent_close(fs->intent);
	checkpoint_close(fs->checkpoint);
	workspace_end_spare();
	pool_close(fs->pool);
	budget_close(fs->budget);
	assert(!fs->uncommitted.oldest);
	spare_close(fs->spare);
	recall_deinit(&fs->recall);
	inodes_close(fs->inodes);
	large_close(fs->large);
	cache_close(fs->cache);
	probes_close(fs->probes);
	backing_close(&fs->backing);
	workspace_end();
}

static void warm_run(struct pool_job *job)
{
	struct fs *fs = CONTAINER_OF(job, struct fs, warm);

	cache_warm(fs->cache);
	atomic_store(&fs->warming, false);
}

void fs_warm_cache(struct fs *fs)
{
	if (atomic_load(&fs->warming) || !cache_wants_warm(fs->cache) ||
	    atomic_exchange(&fs->warming, true))
		return;
	fs->warm.run = warm_run;
	pool_submit(fs->pool, &fs->warm, POOL_LATER);
}
