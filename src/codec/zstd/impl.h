/*
 * What the files of zstd/fast.h share. The way of a block:
 *
 *   zstd_find                the work has its sequences and literals   match.c, double.c
 *   zstd_count_literals      how often each byte is among these        literals.c, count.h
 *   zstd_plan_sequences      tables, and what the sequences cost       sequences.c, fse.c
 *     are they worth it?     if not, all of the block is literals      fast.c
 *   zstd_put_literals        their tree and codes                      literals.c, tree.c, codes.c
 *   zstd_put_sequences                                                 sequences.c
 *
 * What gets no smaller is stored. Bytes "behind" are those where the next part goes.
 */
#ifndef CODEC_ZSTD_IMPL_H
#define CODEC_ZSTD_IMPL_H

#include "codec/zstd/fast.h"

/* What a reader knows of the blocks before; the pointers go into the work. */
struct zstd_known {
	uint32_t rep[2];                            /* the last two offsets  */
	const struct zstd_tree *tree;               /* NULL: none yet        */
	const struct zstd_table *table[ZSTD_KINDS]; /* NULL: none yet        */
};

/* The offsets that every frame begins with, as if they had been used: 3.1.1.5. */
#define FIRST_OFFSETS {1, 4}

/* More bits of a byte, in 1/256, are noise, of which a few bytes show 7.8 bits each. */
#define ZSTD_NOISE (256 * 31 / 4)

/* How a stream is searched for matches, and the table of the work that it takes. */
enum zstd_search {
	ZSTD_NEAR,         /* level 1, up to ZSTD_NEAR_MAX bytes; `near`                  */
	ZSTD_FAR,          /* level 1, more; `far`                                        */
	ZSTD_PLANES,       /* either level: a short stream that a filter made; `plane`    */
	ZSTD_FAR_PLANES,   /* level 1: a longer one; `far`                                */
	ZSTD_DOUBLE,       /* level 2; `pair`                                             */
	ZSTD_DOUBLE_SMALL, /* level 2, so few bytes that all matches are near; `pair`     */
};

struct zstd_finder {
	struct zstd_work *w;
	const uint8_t *src; /* the whole stream                                  */
	struct zstd_known known;
	enum zstd_search search;
	uint32_t bits;      /* of a literal, in 1/256; 0: samples are to show it */
};

/* What a block is made of. */
struct zstd_parts {
	size_t nsequences;
	struct view literals; /* in the work, or the block itself */
	bool noise;           /* its bytes are all as frequent    */
};

/*
 * Of n bytes a coded form has to spare so many: less is not worth a reader's time. The library's
 * rule for fast levels.
 */
static inline size_t zstd_least_gain(size_t n)
{
	return n / 64 + 2;
}

/* Fills the work's sequences. The blocks in front of this one in its stream came before. */
void zstd_find(struct zstd_finder *f, struct view block, struct zstd_parts *parts);

/* Sequences to be written: their number and tables as the format tells them. */
struct zstd_plan {
	size_t n;
	uint64_t price;      /* bits, with those for a reader's time (price.h) */
	size_t nhead;
	size_t last;         /* where in the head the last description begins; 0: there is none */
	uint8_t head[2 + 1 + ZSTD_KINDS * FSE_DESCRIPTION_MAX];
};

/* Chooses tables for the work's first n sequences; n may be 0. */
void zstd_plan_sequences(struct zstd_work *w, struct zstd_known *k, size_t n, struct zstd_plan *p);

/* The best codes for literals with these counts. Returns the bits of all of them together. */
uint64_t zstd_build_tree(struct zstd_tree *t, const uint32_t count[static 256]);

/*
 * The description of a tree: a byte, and half a byte for each weight or coded weights, 127 at most.
 * Returns its length; 0: it has none.
 */
#define ZSTD_TREE_MAX 128
size_t zstd_put_tree(const struct zstd_tree *t, uint8_t out[static ZSTD_TREE_MAX]);

/* Counts them in the work; the bits that the best codes for them have. */
uint64_t zstd_count_literals(struct zstd_work *w, struct view v);

/* Bits that the best codes for the work's first n sequences have, with their extra bits. */
uint64_t zstd_count_sequences(const struct zstd_work *w, size_t n);

/* The byte behind, or NULL: they do not fit. `bits`: what the count of these said. */
uint8_t *zstd_put_literals(struct zstd_work *w, struct zstd_known *k, struct view v, uint64_t bits,
			   struct span dst);

/* The byte behind, or NULL: they do not fit. */
uint8_t *zstd_put_sequences(const struct zstd_work *w, const struct zstd_known *k,
			    const struct zstd_plan *p, struct span dst);

#endif
