/*
 * What the files of the encoder share (zstd/fast.h). The way of a block:
 *
 *   zstd_find                the work has its sequences and literals   match.c, double.c
 *   zstd_count_literals      how often each byte is among these        literals.c, count.h
 *   zstd_plan_sequences      tables, and what the sequences cost       sequences.c, fse.c
 *     are they worth it?     if not, all of the block is literals      fast.c
 *   zstd_put_literals        their tree and codes                      literals.c, tree.c, codes.c
 *   zstd_put_sequences                                                 sequences.c
 *
 * What gets no smaller is stored. A "put" function returns the byte behind what it has written,
 * where the next part goes, or NULL.
 */
#ifndef CODEC_ZSTD_IMPL_H
#define CODEC_ZSTD_IMPL_H

#include "codec/zstd/fast.h"

/* What a reader knows from the blocks before; the pointers point into the work. */
struct zstd_known {
	uint32_t rep[2];                            /* the last two offsets  */
	const struct zstd_tree *tree;               /* NULL: none yet        */
	const struct zstd_table *table[ZSTD_KINDS]; /* NULL: none yet        */
};

/* The recent offsets with which every frame begins: RFC 8878, 3.1.1.5. */
#define FIRST_OFFSETS {1, 4}

/*
 * From this entropy per byte on, in 1/256 bit, bytes count as noise: a short sample of noise shows
 * 7.8.
 */
#define ZSTD_NOISE (256 * 31 / 4)

/*
 * How a stream is searched for matches, and which table of the work that uses. Planes are what a
 * filter has made: there a match has to be worth it (zstd/match.c).
 */
enum zstd_search {
	ZSTD_NEAR,         /* level 1, up to ZSTD_NEAR_MAX bytes; `near`                  */
	ZSTD_FAR,          /* level 1, more; `far`                                        */
	ZSTD_PLANES,       /* planes, up to ZSTD_NEAR_MAX bytes; `plane`                  */
	ZSTD_FAR_PLANES,   /* planes, more; `far`                                         */
	ZSTD_DOUBLE,       /* level 2; `pair`                                             */
	ZSTD_DOUBLE_SMALL, /* level 2, so few bytes that all matches are near; `pair`     */
};

struct zstd_finder {
	struct zstd_work *w;
	const uint8_t *src; /* the whole stream                                  */
	struct zstd_known known;
	enum zstd_search search;
	uint32_t bits;      /* entropy of a literal, in 1/256; 0: samples are to show it */
};

/* What a block is made of. */
struct zstd_parts {
	size_t nsequences;
	struct view literals; /* in the work, or the block itself */
	bool noise;           /* all bytes are about as frequent  */
};

/*
 * How many of n bytes a coded form has to save to be worth a reader's time, by the library's rule
 * for its fast levels.
 */
static inline size_t zstd_least_gain(size_t n)
{
	return n / 64 + 2;
}

/* Clears the table that the search uses: before the first block of a stream. */
void zstd_forget(struct zstd_work *w, enum zstd_search search);

/* Finds the work's sequences. The blocks of a stream must be searched in order. */
void zstd_find(struct zstd_finder *f, struct view block, struct zstd_parts *parts);

/* How sequences will be written: the header of their section, and what they cost. */
struct zstd_plan {
	size_t n;
	uint64_t price;      /* bits, with those for a reader's time (codec/price.h) */
	size_t nhead;        /* bytes of the head: number, modes, descriptions of tables */
	size_t last;         /* where in it the last description begins; 0: there is none */
	uint8_t head[2 + 1 + ZSTD_KINDS * FSE_DESCRIPTION_MAX];
};

/* Chooses tables for the first n >= 0 sequences of the work, and enters them into *k. */
void zstd_plan_sequences(struct zstd_work *w, struct zstd_known *k, size_t n, struct zstd_plan *p);

/*
 * Builds the best codes for literals with these counts. Returns the bits of all of them together.
 */
uint64_t zstd_build_tree(struct zstd_tree *t, const uint32_t count[static 256]);

/*
 * Writes the description of a tree: a byte, and then either half a byte for each weight or coded
 * weights, 127 bytes at most. Returns its length; 0: this tree cannot be described.
 */
#define ZSTD_TREE_MAX 128
size_t zstd_put_tree(const struct zstd_tree *t, uint8_t out[static ZSTD_TREE_MAX]);

/* Counts the literals into the work. Returns about how many bits they take in the best code. */
uint64_t zstd_count_literals(struct zstd_work *w, struct view v);

/* About how many bits the first n sequences take in the best codes, extra bits included. */
uint64_t zstd_count_sequences(const struct zstd_work *w, size_t n);

/*
 * Writes the literals. NULL: they do not fit. `bits`: what zstd_count_literals returned for them.
 */
uint8_t *zstd_put_literals(struct zstd_work *w, struct zstd_known *k, struct view v, uint64_t bits,
			   struct span dst);

/* NULL: they do not fit. */
uint8_t *zstd_put_sequences(const struct zstd_work *w, const struct zstd_known *k,
			    const struct zstd_plan *p, struct span dst);

#endif
