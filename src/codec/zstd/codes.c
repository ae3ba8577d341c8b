/* put_codes (kernels.h) in plain C, which is built for AVX2 and BMI2 as well. */
#include "codec/zstd/codes.h"

#define AT_ONCE 5 /* codes of 11 bits that fit between flushes, which leave up to seven */

/* Four streams in turn keep a processor busy that waits for each of them. */
void zstd_put_codes(const uint32_t code[256], size_t n, const uint8_t *src, uint8_t *to[4])
{
	size_t each = (n + 3) / 4, last = n - 3 * each, i = each;
	struct bits a = {.out = to[0]}, b = {.out = to[1]}, c = {.out = to[2]}, d = {.out = to[3]};
	const uint8_t *p = src, *q = p + each, *r = q + each, *s = r + each;
	/* The last stream may be shorter. */
	for (; i > last || i % AT_ONCE; i--) {
		put_code(&a, code, p[i - 1]);
		put_code(&b, code, q[i - 1]);
		put_code(&c, code, r[i - 1]);
		if (i <= last)
			put_code(&d, code, s[i - 1]);
		bits_flush(&a);
		bits_flush(&b);
		bits_flush(&c);
		bits_flush(&d);
	}
	for (; i; i -= AT_ONCE) {
		for (size_t k = i; k-- > i - AT_ONCE;) {
			put_code(&a, code, p[k]);
			put_code(&b, code, q[k]);
			put_code(&c, code, r[k]);
			put_code(&d, code, s[k]);
		}
		bits_flush(&a);
		bits_flush(&b);
		bits_flush(&c);
		bits_flush(&d);
	}
	to[0] = bits_end(&a);
	to[1] = bits_end(&b);
	to[2] = bits_end(&c);
	to[3] = bits_end(&d);
}
