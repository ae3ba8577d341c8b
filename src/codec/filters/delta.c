/*
 * Delta, FORMAT.md 5.4: block 0 by xor of neighbouring words, later blocks by xor with block 0. The
 * reference library drops a trailing partial word; we copy it.
 */
#include "codec/filter.h"

#include <assert.h>

static size_t word_of(uint32_t typesize)
{
	if (typesize == 1 || typesize == 2 || typesize == 4)
		return typesize;
	return typesize % 8 == 0 ? 8 : 1;
}

static size_t xor_ref(const struct kernels *k, const struct filter_arg *arg, struct view src,
		      uint8_t *dst)
{
	size_t word = word_of(arg->typesize), done = src.n / word * word;
	assert(arg->ref.n >= src.n);
	k->xor_bytes(done, src.p, arg->ref.p, dst);
	return done;
}

static size_t delta_forward(const struct kernels *k, const struct filter_arg *arg, struct view src,
			    uint8_t *dst)
{
	if (arg->ref.n)
		return xor_ref(k, arg, src, dst);
	size_t word = word_of(arg->typesize), done = src.n / word * word;
	if (done) {
		memcpy(dst, src.p, word);
		k->xor_bytes(done - word, src.p + word, src.p, dst + word);
	}
	return done;
}

static size_t delta_backward(const struct kernels *k, const struct filter_arg *arg, struct view src,
			     uint8_t *dst)
{
	if (arg->ref.n)
		return xor_ref(k, arg, src, dst);
	size_t word = word_of(arg->typesize), n = src.n / word;
	k->xor_scan(word, n, src.p, dst);
	return n * word;
}

const struct filter filter_delta = {
	.name = "delta",
	.what = "differences between neighbours and to the first block",
	.id = FILTER_DELTA,
	.forward = delta_forward,
	.backward = delta_backward,
};
