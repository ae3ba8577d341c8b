/*
 * For inner loops that are written once and compiled for several constants: every call becomes a
 * version of its own, in which tests of the constants are gone.
 */
#ifndef CODEC_INLINE_H
#define CODEC_INLINE_H

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Of a power of two; a constant where that is one. */
#define LOG2(x) ((unsigned)__builtin_ctzl(x))

#endif
