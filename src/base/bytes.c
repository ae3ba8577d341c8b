#include "base/bytes.h"

#ifdef __x86_64__
#define PAGE 4096u
#define LINE 64u

/* The string move is slowest where dst is less than this behind src, counted within pages. */
#define NEAR 32u

/* With more bytes than this, the C library uses other loops, which are better than ours. */
#define MOST (1u << 20)

/* A register of AVX2, or two of SSE2. */
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
