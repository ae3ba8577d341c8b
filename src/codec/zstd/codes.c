/* put_codes (kernels.h) in plain C, also built for AVX2 and BMI2. */
#include "codec/zstd/codes.h"

uint8_t *zstd_put_stream(const uint64_t code[256], struct view v, struct span to)
{
	struct bits b = {.out = to.p};
	if (to.n < CODES_SLACK)
		return NULL;
	const uint8_t *limit = to.p + to.n - CODES_SLACK;
	put_literals(&b, code, v, limit);
	return end_stream(&b, limit);
}

bool zstd_put_codes(const uint64_t code[256], struct view v, struct span to, uint8_t *end[4])
{
	for (unsigned k = 0; k < 4; k++) {
		end[k] = zstd_put_stream(code, part_of_four(v, k), to);
		if (!end[k])
			return false;
		to = span_of(end[k], (size_t)(to.p + to.n - end[k]));
	}
	return true;
}
