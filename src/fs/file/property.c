#include "fs/file/property.h"

#include "base/log.h"
#include "frame/view_npy.h"
#include "fs/file/alone.h"
#include "fs/file/open.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

static const char prefix[] = WISH_PREFIX;

static int get_pipeline(struct file *f, struct buf *out)
{
	char text[PIPELINE_TEXT_MAX];
	struct pipeline p = policy_header(&f->policy);
	pipeline_format(&p, text);
	return buf_print(out, "%s", text);
}

static int get_stored(struct file *f, struct buf *out)
{
	return buf_print(out, "%" PRIu64, frame_info_stored(frame_info(f->frame)));
}

static int get_ratio(struct file *f, struct buf *out)
{
	const struct frame_info *info = frame_info(f->frame);
	uint64_t stored = frame_info_stored(info);
	return buf_print(out, "%.2f", (double)info->nbytes / (double)max_u64(stored, 1));
}

static int get_chunksize(struct file *f, struct buf *out)
{
	return buf_print(out, "%u", frame_info(f->frame)->chunk_size);
}

static int get_blocksize(struct file *f, struct buf *out)
{
	return buf_print(out, "%u", frame_block_size(f->frame, frame_chunk_item(f->frame)));
}

static int get_shape(struct file *f, struct buf *out)
{
	if (!f->npy)
		return -ENODATA;
	TRY(buf_print(out, "["));
	for (int i = 0; i < f->npy->array.ndim; i++)
		TRY(buf_print(out, "%s%" PRIu64, i ? ", " : "", f->npy->array.shape[i]));
	return buf_print(out, "]");
}

static int get_dtype(struct file *f, struct buf *out)
{
	return f->npy ? buf_append(out, f->npy->array.dtype) : -ENODATA;
}

static const struct {
	const char *name;
	int (*get)(struct file *f, struct buf *out);
} rows[] = {
	{"pipeline", get_pipeline},   {"stored", get_stored},	    {"ratio", get_ratio},
	{"chunksize", get_chunksize}, {"blocksize", get_blocksize}, {"shape", get_shape},
	{"dtype", get_dtype},
};

bool property_may_be(const struct inode *n, const char *name)
{
	return inode_is_frame(n) && strncmp(name, prefix, sizeof prefix - 1) == 0;
}

static int get(struct file *f, const char *name, struct buf *out)
{
	struct view content;

	if (strncmp(name, "meta.", 5) == 0)
		return frame_meta(f->frame, name + 5, &content) ? buf_append(out, content)
								: -ENODATA;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (strcmp(name, rows[i].name) == 0)
			return rows[i].get(f, out);
	return -ENODATA;
}

int property_get(struct fs *fs, struct inode *n, const char *name, struct buf *value)
{
	struct file *f;

	TRY(file_get(fs, n, O_RDONLY, &f));
	pthread_rwlock_rdlock(&f->lock);
	int rc = get(f, name + sizeof prefix - 1, value);
	pthread_rwlock_unlock(&f->lock);
	file_put(fs, n);
	return rc;
}

/* *w: what the value, if any, stands for. */
static int judge(const struct property_change *x, const char *who, struct wish *w)
{
	struct err_reason why = {"not a short text"};
	char value[PIPELINE_TEXT_MAX + 1];

	*w = (struct wish){0};
	if (!x->value)
		return 0;
	snprintf(value, sizeof value, "%.*s", (int)min_u64(x->size, sizeof value - 1), x->value);
	if (x->size <= PIPELINE_TEXT_MAX && strlen(value) == x->size &&
	    wish_set(w, wish_word(x->name), value, &why) >= 0)
		return 0;
	log_info("%s: %s '%s' refused: %s", who, x->name, value, why.text);
	return -EINVAL;
}

static int change(struct fs *fs, struct inode *n, const struct property_change *x)
{
	char path[FD_PATH_MAX];
	int fd = inode_pin(fs->inodes, n);

	TRY(fd);
	fd_proc_path(fd, path);
	int rc = x->value ? setxattr(path, x->name, x->value, x->size, x->flags)
			  : removexattr(path, x->name);
	rc = rc < 0 ? -errno : 0;
	n->attr_changes++;
	inode_unpin(fs->inodes, n);
	return rc;
}

/*
 * The chunk size can only change while there are no chunks. Programs that copy attributes set and
 * remove them when the file already has its data; changes that change nothing are allowed.
 */
static int may_change(struct file *f, const struct property_change *x, const struct wish *w,
		      const char *who)
{
	uint64_t size = wish_apply(&f->fs->opt.settings, w).chunksize;

	if (!x->value || strcmp(wish_word(x->name), "chunksize") != 0 ||
	    frame_size(f->frame) == 0 || size == frame_info(f->frame)->chunk_size)
		return 0;
	log_info("%s: %s refused: the file is not empty", who, x->name);
	return -EINVAL;
}

int property_change(struct fs *fs, struct inode *n, const struct property_change *x)
{
	char who[INODE_LOG_NAME_MAX];
	struct wish wish;
	struct file *f;

	inode_log_name(fs->inodes, n, who);
	TRY(judge(x, who, &wish));
	if (n->type == S_IFDIR)
		return change(fs, n, x);
	TRY(file_get(fs, n, O_RDWR, &f));
	file_enter_alone(f);
	int rc = may_change(f, x, &wish, who);
	if (rc >= 0)
		rc = change(fs, n, x);
	if (rc >= 0)
		file_reload_wish(f);
	file_leave_alone(f);
	if (rc >= 0 && file_changed(f))
		uncommitted_add(f);
	file_put(fs, n);
	return rc;
}
