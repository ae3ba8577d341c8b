#include "base/bytes.h"

bool bytes_are_zero(struct view v)
{
	/*
	 * The first is zero and each equals the one before it: memcmp compares in the widest
	 * registers. The last is checked early, since data often begins with zeros.
	 */
	return !v.n || (!v.p[0] && !v.p[v.n - 1] && !memcmp(v.p, v.p + 1, v.n - 1));
}

#ifdef __x86_64__
#include <cpuid.h>
#include <stdatomic.h>

#define PAGE 4096u
#define LINE 64u

/* The string move is slowest where dst is less than this behind src, counted within pages. */
#define NEAR 32u

/* Above this length, the C library uses other loops, which are better than ours. */
#define MOST (1u << 20)

#define ZEN5 26 /* family */

/* A register of AVX2, or two of SSE2. */
typedef long long piece __attribute__((vector_size(32), may_alias));
typedef long long loose __attribute__((vector_size(32), may_alias, aligned(1)));

/* dst is line-aligned: loads that cross lines cost little, stores would cost more. */
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

/* The family of an AMD processor, such as 25 for Zen 3 and 4; 0: not AMD. */
static unsigned amd_family(void)
{
	unsigned a, b, c, d;
	if (!__builtin_cpu_is("amd") || !__get_cpuid(1, &a, &b, &c, &d))
		return 0;
	return (a >> 8 & 15) + (a >> 20 & 255);
}

/* When the string move has to be avoided. */
enum avoid { NOT_ASKED, NOTHING, CLOSE_BEHIND, UNLIKE_PLACES };

static enum avoid to_avoid(void)
{
	static _Atomic enum avoid known; /* cpuid traps in virtual machines: microseconds */
	enum avoid a = atomic_load_explicit(&known, memory_order_relaxed);

	if (a == NOT_ASKED) {
		unsigned amd = amd_family();
		a = amd >= ZEN5 ? NOTHING : amd ? UNLIKE_PLACES : CLOSE_BEHIND;
		atomic_store_explicit(&known, a, memory_order_relaxed);
	}
	return a;
}

/*
 * The string move, which the C library uses for long copies, is slow on some processors where dst
 * lies close behind src: 16 KiB take 16 times as long as by AVX2 on an AMD of family 25. AMD's also
 * want both sides to have the same alignment within a line; from Zen 5 on it is the fastest loop in
 * all cases.
 */
void bytes_copy_long(uint8_t *dst, const uint8_t *src, size_t n)
{
	size_t behind = ((uintptr_t)dst - (uintptr_t)src) % PAGE;
	size_t head = -(uintptr_t)dst % LINE;
	bool avx2 = __builtin_cpu_supports("avx2");
	enum avoid avoid = to_avoid();
	bool unlike = behind % LINE && avx2 && avoid == UNLIKE_PLACES;
	bool close = behind && behind < NEAR && avoid != NOTHING;

	if (n > MOST || !(unlike || close)) {
		memcpy(dst, src, n);
		return;
	}
	memcpy(dst, src, LINE);
	(avx2 ? move_avx2 : move_sse2)(dst + head, src + head, n - head);
}
#endif
