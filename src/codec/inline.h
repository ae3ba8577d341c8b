/*
 * For inner loops that are written once and built for several constants: each call is then a
 * version of its own, in which the tests of its constants are gone.
 */
#ifndef CODEC_INLINE_H
#define CODEC_INLINE_H

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#endif
