/*
 * The features of this processor, as bits for kernels_init. A narrower mask gives the kernels of an
 * older machine: that is how tests run every level.
 */
#ifndef CODEC_KERNELS_CPU_H
#define CODEC_KERNELS_CPU_H

enum cpu_feature {
	CPU_SSE2 = 1 << 0,
	CPU_AVX2 = 1 << 1, /* with BMI, BMI2 and LZCNT, introduced with it, and POPCNT */
	CPU_AVX512BW = 1 << 2, /* with F, VL and DQ */
	CPU_AVX512VBMI = 1 << 3, /* with GFNI: only Cannon Lake has VBMI without it */
	CPU_NEON = 1 << 4,
};

/* The features of the machine we run on. Constant, cheap, thread-safe. */
unsigned cpu_features(void);

#endif
