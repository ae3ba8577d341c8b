/*
 * Functions chosen by the features of the processor: the inner loops of the filters, and those of
 * our codecs that gain by newer instructions. kernels.c fills every slot but one with plain C,
 * which is the specification. Then each level that the processor supports (cpu.h) replaces the
 * slots that it does better; later levels win:
 *
 *   x86/sse2.c         shuffles, running sums
 *   x86/avx2.c         the same, and codecs: zstd/ and codecs/lz4_fast.c are compiled a second time
 *                      for AVX2, under names that end in _avx2; unzstd/ for AVX2 only
 *   x86/avx512bw.c     shuffles; Huffman codes, by x86/avx512_codes.c
 *   x86/avx512vbmi.c   the same, with wider registers; differences and running sums
 *   arm/neon.c         shuffles, running sums
 *
 * codec/meson.build has the flags of each. The shuffles of all levels share the bodies in *_impl.h.
 * tests/c/kernels_check compares every level with C, except for the encoder and the decoder of
 * Zstandard, which zstd_check, unzstd_check and codec_fuzz compare with C or with the library.
 *
 * No kernel reads or writes outside the bytes given in its comment; src and dst do not overlap
 * unless it says so.
 */
#ifndef CODEC_KERNELS_KERNELS_H
#define CODEC_KERNELS_KERNELS_H

#include "base/bytes.h"

#include <sys/types.h>

struct cuts;
struct lz4_table;
struct unzstd;
struct zstd_work;

struct kernels {
	/* n items of `size` bytes <-> `size` planes of n bytes: FORMAT.md 5.2 */
	void (*shuffle)(size_t size, size_t n, const uint8_t *src, uint8_t *dst);
	void (*unshuffle)(size_t size, size_t n, const uint8_t *src, uint8_t *dst);

	/* n items, a multiple of 8, <-> 8 * size bit planes of n / 8 bytes: FORMAT.md 5.3 */
	void (*bitshuffle)(size_t size, size_t n, const uint8_t *src, uint8_t *dst);
	void (*bitunshuffle)(size_t size, size_t n, const uint8_t *src, uint8_t *dst);

	/* dst[i] = a[i] ^ b[i]; a and b may overlap each other */
	void (*xor_bytes)(size_t n, const uint8_t *a, const uint8_t *b, uint8_t *dst);

	/* n words of 1, 2, 4 or 8 bytes: dst[i] = src[0] ^ ... ^ src[i] */
	void (*xor_scan)(size_t word, size_t n, const uint8_t *src, uint8_t *dst);

	/* dst[i] = src[i] - src[i - 1], and back by running sums; src[-1] counts as 0 */
	void (*sub_bytes)(size_t n, const uint8_t *src, uint8_t *dst);
	void (*sum_scan)(size_t n, const uint8_t *src, uint8_t *dst);

	/*
	 * Writes the Huffman codes of v.n >= 6 bytes as four streams of Zstandard, of (v.n + 3) / 4
	 * codes each except the last. code[x] has at most 11 bits, in the form of code_of in
	 * zstd/codes.h. The streams go to `to` one after the other; end[k] is the end of stream k.
	 * False: fewer than CODES_SLACK bytes of `to` would be left.
	 */
	bool (*put_codes)(const uint64_t code[256], struct view v, struct span to,
			  uint8_t *end[4]);

	/* Encodes a stream of LZ4: codecs/lz4_fast.h */
	ssize_t (*put_lz4)(struct lz4_table *t, int level, struct view src, struct span dst);

	/* Encodes a whole frame of Zstandard: zstd/fast.h */
	ssize_t (*put_zstd)(struct zstd_work *w, int level, struct view src,
			    const struct cuts *cuts, struct span dst);
	/* Estimates how many bytes a sample would take in such a frame */
	size_t (*estimate_zstd)(struct zstd_work *w, struct view sample, const struct cuts *cuts);

	/* Decodes such a frame: unzstd/unzstd.h. NULL: the library is as fast */
	bool (*get_zstd)(struct unzstd **u, struct view src, struct span dst, size_t want);

	/* The entropy of at most 32 Ki symbols in 1/4096 bits: entropy.h */
	uint32_t (*entropy)(const uint32_t count[256]);
};

/* `cpu`: bits of cpu.h; 0 gives the C versions. */
void kernels_init(struct kernels *k, unsigned cpu);

/*
 * The tails of the fast versions, in C: items from .. n - 1, where `from` is a multiple of 8 for
 * the bit kernels. The items before `from` have been done.
 */
void shuffle_rest(size_t size, size_t n, size_t from, const uint8_t *src, uint8_t *dst);
void unshuffle_rest(size_t size, size_t n, size_t from, const uint8_t *src, uint8_t *dst);
void bitshuffle_rest(size_t size, size_t n, size_t from, const uint8_t *src, uint8_t *dst);
void bitunshuffle_rest(size_t size, size_t n, size_t from, const uint8_t *src, uint8_t *dst);
void sum_scan_rest(size_t n, size_t from, const uint8_t *src, uint8_t *dst);

/*
 * Each replaces what its instruction set does better. Never called, nor built, where that is
 * absent.
 */
void kernels_sse2(struct kernels *k);
void kernels_avx2(struct kernels *k);
void kernels_avx512bw(struct kernels *k);
void kernels_avx512vbmi(struct kernels *k);
void kernels_neon(struct kernels *k);

#endif
