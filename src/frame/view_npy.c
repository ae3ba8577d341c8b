#include "frame/view_npy.h"

/*
 * With one of these metalayers the reference's Python takes the frame for a recipe: an expression,
 * or a copy of some chunks of an array that is somewhere else. The others it fetches or computes;
 * in the frame they are zeros.
 */
static int judge_recipe(const struct frame *f)
{
	static const char *const names[] = {"b2o", "LazyArray", "proxy-source"};
	struct view meta;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (frame_meta(f, names[i], &meta))
			return UNSUPPORTED("array whose items are not in its frame", i);
	return 0;
}

bool npy_meta(const struct frame *f, struct view *content)
{
	return frame_meta(f, "b2nd", content) || frame_meta(f, "caterva", content);
}

int npy_init(struct npy *v, const struct frame *f)
{
	const struct frame_info *info = frame_info(f);
	struct view meta;

	TRY(judge_recipe(f));
	if (!npy_meta(f, &meta))
		return CORRUPT("no b2nd metalayer in an array's frame", 0);
	TRY(ndarray_parse(&v->array, meta, info->type_size, info->chunk_size, info->nbytes));
	int len = npy_header(&v->array, v->head);
	TRY(len);
	v->head_len = (uint32_t)len;
	if (add_overflows(v->array.nbytes, v->head_len, &v->size) || v->size > INT64_MAX)
		return CORRUPT("array larger than a file can be", v->array.nbytes);
	return 0;
}

int npy_probe_take(struct io *io, uint64_t *size, uint32_t *blocksize)
{
	struct frame *f;
	TRY(frame_open_take(&f, io));
	struct npy *v = mem_zalloc(sizeof *v);
	int rc = v ? npy_init(v, f) : -ENOMEM;
	if (rc >= 0) {
		*size = v->size;
		*blocksize = v->array.block_nbytes;
	}
	mem_free(v);
	frame_close(f);
	return rc;
}
