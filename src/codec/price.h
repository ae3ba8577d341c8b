/*
 * What our Zstandard encoder pays in size to save its readers time: 200 bits per microsecond. All
 * its decisions (cuts, tables, which literals get codes, whether the matches of a block pay)
 * compare bits at this one price. With the same price per bit everywhere, no other stream of that
 * size is faster to read.
 *
 * The times are those of the library's decoder on an Intel processor, fitted to 2,400 streams;
 * docs/SPEED.md, "What a reader's time is worth", has the sizes for other prices. Internal to this
 * layer.
 */
#ifndef CODEC_PRICE_H
#define CODEC_PRICE_H

#include <stdint.h>

/* The price, in bits, of a reader's time. */
static inline uint64_t price_of(uint64_t nanoseconds)
{
	return nanoseconds / 5;
}

#define TREE_NS 4000   /* a Huffman tree: its description, and building its table          */
#define TABLE_NS 1000  /* one of the three tables of sequences, if it has a description    */
#define BLOCK_NS 4000  /* everything else in a block: its headers, tables of sequences     */
#define LITERAL_NS 1   /* a literal that has a code, beyond what a raw one takes           */
#define SEQUENCE_NS 20 /* a sequence, with the copies of its bytes                         */

/* About how many bits these take in a stream, for estimates. */
#define TREE_BITS 300  /* the description of a Huffman tree                                */
#define BLOCK_BITS 100 /* the header of a block, and of its literals and sequences         */

#endif
