#include "codec/kernels/cpu.h"

#include <stdatomic.h>
#include <stdbool.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Older compilers cannot ask for it by name. Without it its code means another instruction. */
static bool has_lzcnt(void)
{
	unsigned a, b, c, d;
	return __get_cpuid(0x80000001, &a, &b, &c, &d) && c & 1u << 5;
}
#endif

static unsigned detect(void)
{
	unsigned f = 0;
#if defined(__x86_64__)
	f |= CPU_SSE2;
	/* These ask the operating system too: wide registers need its help. */
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
	    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") && has_lzcnt())
		f |= CPU_AVX2;
	/*
	 * Each is built with what those before it need, of which a hypervisor may hide some. DQ:
	 * gcc 12 takes it for granted where it gets half of a register.
	 */
	if (f & CPU_AVX2 && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
		f |= CPU_AVX512BW;
	if (f & CPU_AVX512BW && __builtin_cpu_supports("avx512vbmi") &&
	    __builtin_cpu_supports("gfni"))
		f |= CPU_AVX512VBMI;
#elif defined(__aarch64__)
	f |= CPU_NEON;
#endif
	return f;
}

unsigned cpu_features(void)
{
	static _Atomic unsigned known; /* a virtual machine's host is asked: microseconds */
	const unsigned asked = 1u << 31;
	unsigned f = atomic_load_explicit(&known, memory_order_relaxed);

	if (!f) {
		f = detect() | asked;
		atomic_store_explicit(&known, f, memory_order_relaxed);
	}
	return f & ~asked;
}
