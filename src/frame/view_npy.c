#include "frame/view_npy.h"

#include "frame/held.h"

/*
 * With one of these metalayers the reference's Python takes the frame for a recipe: an expression,
 * or a partial copy of an array stored elsewhere. Chunks that are not in the frame it fetches or
 * computes; here they would read as zeros.
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

/* Many arrays may be open: each keeps just as much text as it has, not a buffer for the longest. */
static int keep_text(struct npy *v, struct view head)
{
	struct view dtype = v->array.dtype;
	size_t n = head.n + dtype.n;

	if (!held_take(n, n <= HELD_SMALL))
		return -ENOMEM;
	int rc = buf_reserve(&v->text, n);
	if (rc < 0) {
		held_give(n);
		return rc;
	}
	IGNORE(buf_append(&v->text, head));
	IGNORE(buf_append(&v->text, dtype));
	v->head = view_of(v->text.p, head.n);
	v->array.dtype = view_of(v->text.p + head.n, dtype.n);
	return 0;
}

void npy_deinit(struct npy *v)
{
	held_give(v->text.n);
	buf_free(&v->text);
}

int npy_init(struct npy *v, const struct frame *f)
{
	const struct frame_info *info = frame_info(f);
	uint8_t head[NPY_HEADER_MAX];
	struct view meta;

	TRY(judge_recipe(f));
	if (!npy_meta(f, &meta))
		return CORRUPT("no b2nd metalayer in an array's frame", 0);
	TRY(ndarray_parse(&v->array, meta, info->type_size, info->chunk_size, info->nbytes));
	int len = npy_header(&v->array, head);
	TRY(len);
	if (add_overflows(v->array.nbytes, (uint64_t)len, &v->size) || v->size > INT64_MAX)
		return CORRUPT("array larger than a file can be", v->array.nbytes);
	return keep_text(v, view_of(head, (size_t)len));
}

int npy_probe_take(struct io *io, uint64_t *size, uint32_t *blocksize)
{
	struct frame *f;
	TRY(frame_open_take(&f, io));
	struct npy v = {0};
	int rc = npy_init(&v, f);
	if (rc >= 0) {
		*size = v.size;
		*blocksize = v.array.block_nbytes;
	}
	npy_deinit(&v);
	frame_close(f);
	return rc;
}
