#include "fs/file/file.h"

#include "base/log.h"
#include "frame/policy/rules.h"
#include "frame/view_npy.h"
#include "fs/room.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void file_log_err(const struct file *f, const char *fmt, ...)
{
	char name[INODE_LOG_NAME_MAX], text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	inode_log_name(f->fs->inodes, f->inode, name);
	log_err("%s: %s", name, text);
}

struct settings file_settings(const struct file *f)
{
	return wish_apply(&f->fs->opt.settings, &f->wish);
}

void file_load_wish(struct file *f)
{
	char name[NAME_MAX + 1];

	f->wish = (struct wish){0};
	if (inode_kind(f->inode) != NODE_FRAME)
		return;
	if (f->fs->opt.settings.rules) {
		inode_name(f->fs->inodes, f->inode, name);
		name[strlen(name) - strlen(names_suffix(name))] = 0;
		rules_match(f->fs->opt.settings.rules, name, &f->wish);
	}
	wish_load(&f->wish, f->fd);
}

void file_reload_wish(struct file *f)
{
	file_load_wish(f);
	struct settings s = file_settings(f);
	policy_follow(&f->policy, &s, f->frame);
	if (frame_size(f->frame) == 0)
		file_adopt_pipeline(f);
}

/* A file that is empty, new or truncated, follows the present options of the mount. */
void file_adopt_pipeline(struct file *f)
{
	struct settings s = file_settings(f);
	struct pipeline p = policy_for_header(&s);

	if (s.chunksize != frame_info(f->frame)->chunk_size)
		frame_set_chunk_size(f->frame, (uint32_t)s.chunksize);
	f->chunk_size = frame_info(f->frame)->chunk_size;
	frame_set_pipeline(f->frame, &p);
	policy_follow(&f->policy, &s, f->frame);
	f->dirty.next = f->dirty.held = 0;
	f->maybe_typed = true;
	f->maybe_foreign = false;
}

void file_free(struct file *f)
{
	if (!f)
		return;
	frame_close(f->frame);
	if (f->npy)
		npy_deinit(f->npy);
	mem_free(f->npy);
	policy_deinit(&f->policy);
	touched_clear(&f->unsynced.touched);
	arrivals_clear(&f->arrivals);
	readahead_deinit(&f->readahead);
	pthread_cond_destroy(&f->flight.landed);
	pthread_mutex_destroy(&f->flight.lock);
	pthread_mutex_destroy(&f->writing);
	pthread_rwlock_destroy(&f->lock);
	sidecar_deinit(&f->sidecar);
	pthread_rwlock_destroy(&f->gate);
	mem_free(f);
}

struct file *file_new(struct fs *fs, struct inode *n)
{
	struct file *f = mem_zalloc(sizeof *f);

	if (!f)
		return NULL;
	*f = (struct file){
		.fs = fs, .inode = n,
		.writing = PTHREAD_MUTEX_INITIALIZER,
		/* By default a stream of readers could keep writers out for ever. */
		.gate = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP,
		.lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP,
		.flight = {.lock = PTHREAD_MUTEX_INITIALIZER, .landed = PTHREAD_COND_INITIALIZER},
	};
	dirty_set_init(&f->dirty.dirty);
	dirty_set_init(&f->dirty.flushing);
	policy_init(&f->policy);
	readahead_init(&f->readahead);
	sidecar_init(&f->sidecar, &fs->relief, fs->inodes, &n->told.lock);
	return f;
}

void file_replace_chunk(struct file *f, uint32_t n, const struct frame_place *p)
{
	if (p->len)
		frame_put(f->frame, n, p);
	else
		frame_put_zeros(f->frame, n);
	f->wants_commit = frame_wants_commit(f->frame);
	cache_drop(f->fs->cache, (struct cache_key){f->cache_owner, n});
}

bool file_changed_locked(const struct file *f)
{
	return f->dirty.dirty.count || f->dirty.flushing.count || frame_dirty(f->frame);
}

bool file_changed(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	bool changed = file_changed_locked(f);
	pthread_rwlock_unlock(&f->lock);
	return changed;
}

uint64_t file_size_locked(const struct file *f)
{
	return f->npy ? f->npy->size : frame_size(f->frame);
}

uint64_t file_size(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	uint64_t size = file_size_locked(f);
	pthread_rwlock_unlock(&f->lock);
	return size;
}

bool file_has_a_name(const struct file *f)
{
	struct stat st;

	return stat_fd(f->fd, &st) < 0 || st.st_nlink > 0;
}

enum root_match file_compare_root(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	enum root_match is = frame_compare_root(f->frame);
	pthread_rwlock_unlock(&f->lock);
	return is;
}

bool file_room_comes(struct file *f, int rc, struct room_wait *w)
{
	return !f->inode->nameless && room_soon(f->fs, w, rc);
}

int file_check_change(const struct file *f)
{
	if (f->lost)
		return -EIO;
	return frame_writable(f->frame) ? 0 : -EROFS;
}
