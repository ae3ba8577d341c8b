/*
 * Borrowed bytes, and numbers in them.
 *
 * `view` and `span` never own what they point at; `struct buf` (buf.h) does. A cursor reads a view
 * from front to back. Once a read goes past the end, it yields only zeros and sets `bad`, so one
 * check after the last field is enough.
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct view {
	const uint8_t *p;
	size_t n;
};

struct span {
	uint8_t *p;
	size_t n;
};

static inline struct view view_of(const void *p, size_t n)
{
	return (struct view){(const uint8_t *)p, n};
}

static inline struct span span_of(void *p, size_t n)
{
	return (struct span){(uint8_t *)p, n};
}

static inline struct view span_view(struct span s)
{
	return (struct view){s.p, s.n};
}

/*
 * memcpy for possibly long copies. The C library uses the processor's string move (rep movs) for
 * those, which is many times slower on some processors, depending on where dst and src lie.
 */
void bytes_copy_long(uint8_t *dst, const uint8_t *src, size_t n); /* bytes.c, x86 */

static inline void bytes_copy(uint8_t *dst, const uint8_t *src, size_t n)
{
#ifdef __x86_64__
	if (n > 1024) {
		bytes_copy_long(dst, src, n);
		return;
	}
#endif
	memcpy(dst, src, n);
}

/* Part of a view, and all from byte `at` on; the caller has checked that it lies inside. */
static inline struct view view_part(struct view v, size_t at, size_t n)
{
	return (struct view){v.p + at, n};
}

static inline struct view view_from(struct view v, size_t at)
{
	return (struct view){v.p + at, v.n - at};
}

static inline struct span span_from(struct span s, size_t at)
{
	return (struct span){s.p + at, s.n - at};
}

/* True: these are the bytes of `text`, without its NUL. */
static inline bool view_is(struct view v, const char *text)
{
	return v.n == strlen(text) && memcmp(v.p, text, v.n) == 0;
}

/* True: every byte is zero, or there are none. */
bool bytes_are_zero(struct view v);

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define BYTES_LE(bits, x) (x)
#define BYTES_BE(bits, x) __builtin_bswap##bits(x)
#else
#define BYTES_LE(bits, x) __builtin_bswap##bits(x)
#define BYTES_BE(bits, x) (x)
#endif

#define BYTES_ACCESS(name, bits, order)                                        \
	static inline uint##bits##_t get_##name##bits(const void *p)           \
	{                                                                      \
		uint##bits##_t x;                                              \
		memcpy(&x, p, sizeof x);                                       \
		return order(bits, x);                                         \
	}                                                                      \
	static inline void put_##name##bits(void *p, uint##bits##_t x)         \
	{                                                                      \
		x = order(bits, x);                                            \
		memcpy(p, &x, sizeof x);                                       \
	}

BYTES_ACCESS(le, 16, BYTES_LE)
BYTES_ACCESS(le, 32, BYTES_LE)
BYTES_ACCESS(le, 64, BYTES_LE)
BYTES_ACCESS(be, 16, BYTES_BE)
BYTES_ACCESS(be, 32, BYTES_BE)
BYTES_ACCESS(be, 64, BYTES_BE)

#undef BYTES_ACCESS

struct cursor {
	struct view src;
	size_t at;
	bool bad; /* a read went past the end */
};

static inline struct cursor cursor_of(struct view src)
{
	return (struct cursor){.src = src};
}

static inline size_t cursor_left(const struct cursor *c)
{
	return c->src.n - c->at;
}

/* Returns the next `n` bytes; or an empty view, and sets `bad`. */
static inline struct view cursor_bytes(struct cursor *c, size_t n)
{
	if (c->bad || n > cursor_left(c)) {
		c->bad = true;
		return (struct view){NULL, 0};
	}
	c->at += n;
	return (struct view){c->src.p + c->at - n, n};
}

static inline void cursor_skip(struct cursor *c, size_t n)
{
	(void)cursor_bytes(c, n);
}

#define CURSOR_READ(suffix, type, size, get)                                   \
	static inline type cursor_##suffix(struct cursor *c)                   \
	{                                                                      \
		struct view v = cursor_bytes(c, size);                         \
		return v.p ? (type)get(v.p) : 0;                               \
	}

static inline uint8_t get_u8(const void *p)
{
	return *(const uint8_t *)p;
}

CURSOR_READ(u8, uint8_t, 1, get_u8)
CURSOR_READ(le32, uint32_t, 4, get_le32)
CURSOR_READ(be16, uint16_t, 2, get_be16)
CURSOR_READ(be32, uint32_t, 4, get_be32)
CURSOR_READ(be64, uint64_t, 8, get_be64)

#undef CURSOR_READ

/* Arithmetic on numbers from a file. True: the result overflows. */
static inline bool add_overflows(uint64_t a, uint64_t b, uint64_t *sum)
{
	return __builtin_add_overflow(a, b, sum);
}

static inline bool mul_overflows(uint64_t a, uint64_t b, uint64_t *product)
{
	return __builtin_mul_overflow(a, b, product);
}

static inline uint64_t ceil_div(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

#endif
