/* Byte shuffle, FORMAT.md 5.2: groups byte j of all items. A partial item stays as it is. */
#include "codec/filter.h"

static size_t item_of(const struct filter_arg *arg)
{
	return arg->param ? arg->param : arg->typesize;
}

static bool shuffle_idle(const struct filter_arg *arg)
{
	return item_of(arg) == 1;
}

static size_t shuffle_forward(const struct kernels *k, const struct filter_arg *arg,
			      struct view src, uint8_t *dst)
{
	size_t size = item_of(arg), n = src.n / size;
	k->shuffle(size, n, src.p, dst);
	return n * size;
}

static size_t shuffle_backward(const struct kernels *k, const struct filter_arg *arg,
			       struct view src, uint8_t *dst)
{
	size_t size = item_of(arg), n = src.n / size;
	k->unshuffle(size, n, src.p, dst);
	return n * size;
}

const struct filter filter_shuffle = {
	.name = "shuffle",
	.what = "byte j of all items together",
	.id = FILTER_SHUFFLE,
	.idle = shuffle_idle,
	.forward = shuffle_forward,
	.backward = shuffle_backward,
};
