/*
 * The levels of kernels (cpu.h); each includes the older ones of its family. CPU_MASK in the
 * environment names the highest that a test may use.
 */
#ifndef TESTS_CPU_LEVELS_H
#define TESTS_CPU_LEVELS_H

#include "codec/kernels/cpu.h"

#include <stdlib.h>
#include <string.h>

static const struct cpu_level {
	const char *name;
	unsigned features;
} cpu_levels[] = {
	{"c", 0},
	{"sse2", CPU_SSE2},
	{"avx2", CPU_SSE2 | CPU_AVX2},
	{"avx512bw", CPU_SSE2 | CPU_AVX2 | CPU_AVX512BW},
	{"avx512vbmi", CPU_SSE2 | CPU_AVX2 | CPU_AVX512BW | CPU_AVX512VBMI},
	{"neon", CPU_NEON},
};

#define CPU_LEVELS (sizeof cpu_levels / sizeof *cpu_levels)

/* The features that CPU_MASK allows: all if it is not set, none if it names no level. */
static inline unsigned cpu_mask(void)
{
	const char *name = getenv("CPU_MASK");
	if (!name)
		return ~0u;
	for (size_t i = 0; i < CPU_LEVELS; i++)
		if (!strcmp(name, cpu_levels[i].name))
			return cpu_levels[i].features;
	return 0;
}

#endif
