#include "base/bytes.h"

#ifdef __x86_64__
#define PAGE 4096u
#define NEAR 32u /* less than this behind its source, modulo pages, the string move crawls */
#define LINE 64u

/* The C library has better ways with more: other loops, past the caches at last. */
#define MOST (1u << 20)

/* In registers that hold it, or in two that hold half of it. */
typedef long long piece __attribute__((vector_size(32), may_alias));
typedef long long loose __attribute__((vector_size(32), may_alias, aligned(1)));

/* dst begins a line: loads across two lines cost little, stores would cost more. */
static inline __attribute__((always_inline)) void move(uint8_t *dst, const uint8_t *src, size_t n)
{
	for (; n >= 128; n -= 128, dst += 128, src += 128) {
		const loose *from = (const void *)src;
		piece *to = (void *)dst, a = from[0], b = from[1], c = from[2], d = from[3];
		to[0] = a, to[1] = b, to[2] = c, to[3] = d;
	}
	memcpy(dst, src, n);
}

__attribute__((target("avx2"))) static void move_avx2(uint8_t *dst, const uint8_t *src, size_t n)
{
	move(dst, src, n);
}

static void move_sse2(uint8_t *dst, const uint8_t *src, size_t n)
{
	move(dst, src, n);
}

/*
 * The string move of AMD's processors, which the C library uses for long copies, wants both sides
 * at the same place of a line, and is ten times slower where dst lies close behind src.
 */
void bytes_copy_long(uint8_t *dst, const uint8_t *src, size_t n)
{
	size_t behind = ((uintptr_t)dst - (uintptr_t)src) % PAGE;
	size_t head = -(uintptr_t)dst % LINE;
	bool avx2 = __builtin_cpu_supports("avx2");
	bool slow = behind % LINE && avx2 && __builtin_cpu_is("amd");

	if (n > MOST || !(slow || (behind && behind < NEAR))) {
		memcpy(dst, src, n);
		return;
	}
	memcpy(dst, src, LINE);
	(avx2 ? move_avx2 : move_sse2)(dst + head, src + head, n - head);
}
#endif
