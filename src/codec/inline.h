/*
 * For inner loops that are written once and compiled for several constants: each call is
 * specialised, and tests of the constants disappear.
 */
#ifndef CODEC_INLINE_H
#define CODEC_INLINE_H

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Of a power of two; constant if x is. */
#define LOG2(x) ((unsigned)__builtin_ctzl(x))

#endif
