#include "codec/kernels/cpu.h"

#include <stdatomic.h>
#include <stdbool.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Older compilers do not know its name. Without LZCNT, its opcode is another instruction. */
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
	/* These also check the operating system, which has to support wide registers. */
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
	    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") && has_lzcnt())
		f |= CPU_AVX2;
	/*
	 * Each level is built on those before it, and a hypervisor may hide features. DQ: gcc 12
	 * uses it, unasked, to extract half of a register.
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
	static _Atomic unsigned known; /* cpuid traps in virtual machines: microseconds */
	const unsigned asked = 1u << 31;
	unsigned f = atomic_load_explicit(&known, memory_order_relaxed);

	if (!f) {
		f = detect() | asked;
		atomic_store_explicit(&known, f, memory_order_relaxed);
	}
	return f & ~asked;
}
