#include "fs/xattr.h"

#include "fs/view_npy.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static const char prefix[] = "user.cframefs.";

__attribute__((format(printf, 2, 3))) static int print(struct buf *out, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return buf_append(out, view_of(text, min_u64((uint64_t)n, sizeof text - 1)));
}

static int get_pipeline(struct file *f, struct buf *out)
{
	char text[PIPELINE_TEXT_MAX];
	struct pipeline p = policy_header(&f->policy);
	pipeline_format(&p, text);
	return print(out, "%s", text);
}

static int get_stored(struct file *f, struct buf *out)
{
	return print(out, "%" PRIu64, frame_info(f->frame)->frame_len);
}

static int get_ratio(struct file *f, struct buf *out)
{
	const struct frame_info *info = frame_info(f->frame);
	return print(out, "%.2f", (double)info->nbytes / (double)max_u64(info->frame_len, 1));
}

static int get_chunksize(struct file *f, struct buf *out)
{
	return print(out, "%u", frame_info(f->frame)->chunk_size);
}

static int get_blocksize(struct file *f, struct buf *out)
{
	return print(out, "%u", frame_info(f->frame)->block_size);
}

static int get_shape(struct file *f, struct buf *out)
{
	if (!f->npy)
		return -ENODATA;
	TRY(print(out, "["));
	for (int i = 0; i < f->npy->array.ndim; i++)
		TRY(print(out, "%s%" PRIu64, i ? ", " : "", f->npy->array.shape[i]));
	return print(out, "]");
}

static int get_dtype(struct file *f, struct buf *out)
{
	return f->npy ? print(out, "%s", f->npy->array.dtype) : -ENODATA;
}

static const struct {
	const char *name;
	int (*get)(struct file *f, struct buf *out);
} rows[] = {
	{"pipeline", get_pipeline},   {"stored", get_stored},	    {"ratio", get_ratio},
	{"chunksize", get_chunksize}, {"blocksize", get_blocksize}, {"shape", get_shape},
	{"dtype", get_dtype},
};

bool xattr_is_ours(const struct inode *n, const char *name)
{
	return inode_is_frame(n) && strncmp(name, prefix, sizeof prefix - 1) == 0;
}

static int get(struct file *f, const char *name, struct buf *out)
{
	struct view content;

	if (strncmp(name, "meta.", 5) == 0)
		return frame_meta(f->frame, name + 5, &content) ? buf_append(out, content) : -ENODATA;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (strcmp(name, rows[i].name) == 0)
			return rows[i].get(f, out);
	return -ENODATA;
}

int xattr_get(struct fs *fs, struct inode *n, const char *name, struct buf *value)
{
	struct file *f;

	TRY(file_get(fs, n, false, &f));
	pthread_rwlock_rdlock(&f->lock);
	int rc = get(f, name + sizeof prefix - 1, value);
	pthread_rwlock_unlock(&f->lock);
	file_put(fs, n);
	return rc;
}
