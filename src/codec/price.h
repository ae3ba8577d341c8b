/*
 * What a writer of Zstandard pays to spare its readers' time: 200 bits for a microsecond. All that
 * it decides goes by bits and this price: cuts, tables, which literals get codes, and whether a
 * block's matches are worth it. Where a bit buys as much time everywhere, no other stream of this
 * size is faster to read. The times are those of the library's decoder on an Intel, fitted to 2,400
 * streams (docs/SPEED.md, "What a reader's time is worth", has the sizes for other prices).
 * Internal to this layer.
 */
#ifndef CODEC_PRICE_H
#define CODEC_PRICE_H

#include <stdint.h>

/* In bits. */
static inline uint64_t price_of(uint64_t nanoseconds)
{
	return nanoseconds / 5;
}

#define TREE_NS 4000   /* a Huffman tree: its description, and the table of it            */
#define TABLE_NS 1000  /* one of the three tables of sequences, if it has a description   */
#define BLOCK_NS 4000  /* what else comes with a block: its headers, tables of sequences  */
#define LITERAL_NS 1   /* a literal with a code, more than one without                    */
#define SEQUENCE_NS 20 /* a sequence, with the copies of its bytes                        */

#endif
