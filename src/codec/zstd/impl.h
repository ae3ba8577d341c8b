/*
 * Shared by the files of the encoder (zstd/fast.h). The steps for a block:
 *
 *   zstd_find                finds its sequences and literals          find.c, single.c, double.c
 *   zstd_count_literals      histogram of the literals                 literals.c, count.h
 *   zstd_plan_sequences      tables, and what the sequences cost       sequences.c, fse.c
 *     are they worth it?     if not, the whole block is literals       fast.c
 *   zstd_put_literals        their tree and codes                      literals.c, tree.c, codes.c
 *   zstd_put_sequences                                                 sequences.c
 *
 * Whatever does not get smaller is stored. A "put" function returns the end of what it has written,
 * where the next part goes, or NULL.
 */
#ifndef CODEC_ZSTD_IMPL_H
#define CODEC_ZSTD_IMPL_H

#include "codec/zstd/fast.h"

/* What a reader knows from previous blocks; the pointers point into struct zstd_work. */
struct zstd_known {
	uint32_t rep[2];                            /* the last two offsets  */
	const struct zstd_tree *tree;               /* NULL: none yet        */
	const struct zstd_table *table[ZSTD_KINDS]; /* NULL: none yet        */
};

/* The recent offsets at the start of every frame: RFC 8878, 3.1.1.5. */
#define FIRST_OFFSETS {1, 4}

/*
 * From this entropy per byte on, in 1/256 bit, bytes count as noise: that of a short sample of
 * noise is 7.8 bits.
 */
#define ZSTD_NOISE (256 * 31 / 4)

/*
 * How a stream is searched for matches, and the table of zstd_work that is used. Planes are the
 * output of a filter: there, only worthwhile matches are taken (zstd/single.c).
 */
enum zstd_search {
	ZSTD_NEAR,         /* level 1, up to ZSTD_NEAR_MAX bytes; `near`                  */
	ZSTD_FAR,          /* level 1, more; `far`                                        */
	ZSTD_PLANES,       /* planes, up to ZSTD_NEAR_MAX bytes; `plane`                  */
	ZSTD_FAR_PLANES,   /* planes, more; `far`                                         */
	ZSTD_DOUBLE,       /* level 2; `pair`                                             */
	ZSTD_DOUBLE_SMALL, /* level 2, short streams, where all matches are near; `pair`  */
};

struct zstd_finder {
	struct zstd_work *w;
	const uint8_t *src; /* the whole stream                                  */
	struct zstd_known known;
	enum zstd_search search;
	uint32_t bits;      /* entropy of a literal, in 1/256; 0: found from samples */
};

/* The parts of a block. */
struct zstd_parts {
	size_t nsequences;
	struct view literals; /* in zstd_work, or the block itself */
	bool noise;           /* all bytes are about equally frequent */
};

/*
 * How many of n bytes coding has to save to be worth a reader's time: the library's rule for its
 * fast levels.
 */
static inline size_t zstd_least_gain(size_t n)
{
	return n / 64 + 2;
}

/* Clears the table of a search, before the first block of a stream. */
void zstd_forget(struct zstd_work *w, enum zstd_search search);

/*
 * Finds the sequences of a block, into the workspace. The blocks of a stream must be searched in
 * order.
 */
void zstd_find(struct zstd_finder *f, struct view block, struct zstd_parts *parts);

/* How sequences will be written: the header of their section, and the cost. */
struct zstd_plan {
	size_t n;
	uint64_t price;      /* bits, including the price of a reader's time (codec/price.h) */
	size_t nhead;        /* length of the head: number, modes, descriptions of tables */
	size_t last;         /* where the last description in it begins; 0: none */
	uint8_t head[2 + 1 + ZSTD_KINDS * FSE_DESCRIPTION_MAX];
};

/* Chooses tables for the first n >= 0 sequences of the workspace, and enters them into *k. */
void zstd_plan_sequences(struct zstd_work *w, struct zstd_known *k, size_t n, struct zstd_plan *p);

/* Builds the best codes for literals with these counts. Returns the total length in bits. */
uint64_t zstd_build_tree(struct zstd_tree *t, const uint32_t count[static 256]);

/*
 * Writes the description of a tree: a byte, then either half a byte for each weight, or coded
 * weights, at most 127 bytes. Returns its length; 0: this tree cannot be described.
 */
#define ZSTD_TREE_MAX 128
size_t zstd_put_tree(const struct zstd_tree *t, uint8_t out[static ZSTD_TREE_MAX]);

/*
 * Counts the literals, into the workspace. Returns about how many bits they take in the best code.
 */
uint64_t zstd_count_literals(struct zstd_work *w, struct view v);

/* About how many bits the first n sequences take in the best codes, extra bits included. */
uint64_t zstd_count_sequences(const struct zstd_work *w, size_t n);

/*
 * Writes the literals. NULL: they do not fit. `bits`: the result of zstd_count_literals for them.
 */
uint8_t *zstd_put_literals(struct zstd_work *w, struct zstd_known *k, struct view v, uint64_t bits,
			   struct span dst);

/* NULL: they do not fit. */
uint8_t *zstd_put_sequences(const struct zstd_work *w, const struct zstd_known *k,
			    const struct zstd_plan *p, struct span dst);

#endif
