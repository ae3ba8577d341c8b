/*
 * Bytedelta, FORMAT.md 5.7: the block is a number of channels (the planes of shuffle), each
 * replaced by differences of neighbouring bytes. The older id 34 restarted the differences after
 * the last whole 16 bytes of a channel.
 */
#include "codec/filter.h"

static size_t each_channel(void (*kernel)(size_t, const uint8_t *, uint8_t *), size_t channels,
			   struct view src, uint8_t *dst)
{
	size_t n = src.n / channels, done = n * channels;
	for (size_t at = 0; at < done; at += n)
		kernel(n, src.p + at, dst + at);
	return done;
}

static size_t bytedelta_forward(const struct kernels *k, const struct filter_arg *arg,
				struct view src, uint8_t *dst)
{
	return each_channel(k->sub_bytes, arg->param, src, dst);
}

static size_t bytedelta_backward(const struct kernels *k, const struct filter_arg *arg,
				 struct view src, uint8_t *dst)
{
	return each_channel(k->sum_scan, arg->param, src, dst);
}

static size_t old_backward(const struct kernels *k, const struct filter_arg *arg, struct view src,
			   uint8_t *dst)
{
	size_t n = src.n / arg->param, done = n * arg->param, wide = n & ~(size_t)15;
	for (size_t at = 0; at < done; at += n) {
		k->sum_scan(wide, src.p + at, dst + at);
		k->sum_scan(n - wide, src.p + at + wide, dst + at + wide);
	}
	return done;
}

const struct filter filter_bytedelta = {
	.name = "bytedelta",
	.what = "differences of bytes, after shuffle",
	.id = FILTER_BYTEDELTA,
	.forward = bytedelta_forward,
	.backward = bytedelta_backward,
};

/* Only read, never written. */
const struct filter filter_bytedelta_old = {
	.name = "bytedelta-old",
	.what = "bytedelta as releases 2.8 and 2.9 wrote it; read only",
	.id = FILTER_BYTEDELTA_OLD,
	.backward = old_backward,
};
