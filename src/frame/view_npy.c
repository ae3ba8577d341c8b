#include "frame/view_npy.h"

int npy_init(struct npy *v, const struct frame *f)
{
	const struct frame_info *info = frame_info(f);
	struct view meta;

	if (!frame_meta(f, "b2nd", &meta) && !frame_meta(f, "caterva", &meta))
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
