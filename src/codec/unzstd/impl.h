/*
 * Shared by the files that implement unzstd.h. The steps for a block (unzstd.c):
 *
 *   literals_read        their tree and codes               literals.c, tree.c, huffman.c
 *   sequences_head       how many sequences, and tables     sequences.c, fse.c
 *   sequences_execute    each is decoded and copied         execute.c
 */
#ifndef CODEC_UNZSTD_IMPL_H
#define CODEC_UNZSTD_IMPL_H

#include "codec/unzstd/unzstd.h"
#include "codec/zstd/format.h"

#define BLOCK_MAX (128u << 10)
#define UNZSTD_SLACK 64 /* bytes that a copy may write or read past its end */

/*
 * Bits are read from the last byte to the first, in eight-byte words that end at the current byte,
 * so up to eight bytes before a stream are read as well. These belong to the headers of frame and
 * block.
 */
_Static_assert(ZSTD_HEADERS_MIN >= 8, "bytes before any stream");

/* The number of bits in a stream; -1: it has no end mark. */
static inline ptrdiff_t bits_begin(struct view v)
{
	if (!v.n || !v.p[v.n - 1])
		return -1;
	return (ptrdiff_t)v.n * 8 - __builtin_clz(v.p[v.n - 1]) + 24 - 1;
}

/* The word that holds the next bits: its lowest bits_held ones. */
static inline uint64_t bits_word(const uint8_t *from, ptrdiff_t left)
{
	return get_le64(from + (left >> 3) - 7);
}

/* How many bits of that word are unread: at least 56. */
static inline unsigned bits_held(ptrdiff_t left)
{
	return 56 + (left & 7);
}

/* Takes the next n bits, n >= 0. */
static inline uint32_t bits_take(uint64_t word, unsigned *held, unsigned n)
{
	*held -= n;
	return (uint32_t)(word >> (*held & 63)) & ((1u << n) - 1);
}

/* Huffman codes of literals (4.2). */
#define HUF_LOG ZSTD_CODE_MAX
#define HUF_SIZE (1u << HUF_LOG)

struct huffman {
	bool ready, many_ready;
	uint16_t one[HUF_SIZE]; /* by the next 11 bits: length of the code, symbol above */
	/*
	 * The same for up to three codes: symbols, their total length in 6 bits, their number in 2.
	 */
	uint32_t many[HUF_SIZE];
};

struct huffman_streams {
	unsigned n; /* 1 or 4 */
	struct view in[4];
	struct span out[4];
};

struct cell {
	uint32_t base;
	uint16_t next;
	uint8_t bits;  /* for the next state                */
	uint8_t extra; /* extra bits to add to the base     */
};

/*
 * A table of states: the index of its first cell, and the number of bits that select the first
 * state.
 */
struct states {
	uint16_t first, log;
};

/*
 * The tables of a block and the predefined ones share one array; a state is an index into it. The
 * logarithms of the predefined ones are from ZSTD_PREDEFINED_LITERALS etc.
 */
enum {
	OWN_LITERALS = 0,
	OWN_OFFSET = OWN_LITERALS + (1 << ZSTD_LITERALS_LOG),
	OWN_MATCH = OWN_OFFSET + (1 << ZSTD_OFFSET_LOG),
	PREDEFINED_LITERALS = OWN_MATCH + (1 << ZSTD_MATCH_LOG),
	PREDEFINED_OFFSET = PREDEFINED_LITERALS + (1 << 6),
	PREDEFINED_MATCH = PREDEFINED_OFFSET + (1 << 5),
	CELLS = PREDEFINED_MATCH + (1 << 6),
};

/* The sequences of a block, and where their output goes. */
struct sequences {
	size_t n;
	struct view bits;
	const struct cell *cell;
	struct states states[ZSTD_KINDS];
	struct view literals; /* UNZSTD_SLACK more bytes may be read */
	struct span dst;      /* of the frame                                       */
	size_t at, end;       /* where the block begins in it, and its limit */
	size_t stop;          /* the caller needs dst up to here; above dst.n: all of it */
};

struct unzstd {
	struct huffman huffman;
	bool states_ready;            /* those of the last block may be reused */
	struct states states[ZSTD_KINDS];
	uint32_t rep[3];
	struct cell cell[CELLS];
	uint8_t literals[BLOCK_MAX + UNZSTD_SLACK];
};

/* Normalised counts of symbols; -1: less than one (4.1.1). */
struct shares {
	unsigned log, n;
	int16_t share[FSE_SYMBOLS + 3];
};

/*
 * Reads the description of a table of at most `symbols` symbols and `log` bits. Returns its length;
 * 0: invalid.
 */
size_t shares_read(struct shares *s, struct view v, unsigned symbols, unsigned log);

/* What a symbol stands for: a base value, and the number of extra bits added to it. */
struct meaning {
	uint32_t base;
	uint8_t extra;
};

/* Fills in the cells of a table, from cell[first] on. */
void states_fill(struct cell *cell, unsigned first, const struct shares *s,
		 const struct meaning *m);

/* Reads the tree at the start of v into a table. Returns its length; 0: left to the library. */
size_t huffman_read(struct huffman *h, struct view v);

/* Reads the header of a block's sequences. *n: their number. Returns as huffman_read. */
size_t sequences_head(struct unzstd *u, struct view v, size_t *n);
void sequences_init(struct unzstd *u);

/*
 * Decodes and executes the sequences. Returns where the block ends in dst, or where it was left
 * because `stop` was reached; 0: left to the library. rep: the last offsets, undefined after an
 * early end.
 */
size_t sequences_execute(const struct sequences *s, uint32_t rep[3]);

/* Decodes the streams. False: one of them does not end at its last bit. */
bool huffman_decode(struct huffman *h, const struct huffman_streams *s);

/* Reads the literals of a block; advances *in past them. False: left to the library. */
bool literals_read(struct unzstd *u, struct view *in, struct view *literals, struct span room);

#endif
