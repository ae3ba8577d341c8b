/* Reads the header of a block's sequences (RFC 8878, 3.1.1.3.2). */
#include "codec/unzstd/impl.h"

static const struct shares predefined[ZSTD_KINDS] = {
	[ZSTD_LITERALS] = ZSTD_PREDEFINED_LITERALS,
	[ZSTD_OFFSET] = ZSTD_PREDEFINED_OFFSET,
	[ZSTD_MATCH] = ZSTD_PREDEFINED_MATCH,
};

static const unsigned symbols[ZSTD_KINDS] = {36, 32, FSE_SYMBOLS};
static const unsigned log_max[ZSTD_KINDS] = ZSTD_TABLE_LOGS;

/* Offsets larger than we support: a block with them is left to the library. */
#define FAR {UINT32_MAX, 0}

static const struct meaning meaning[ZSTD_KINDS][FSE_SYMBOLS] = {
	[ZSTD_LITERALS] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}, {8, 0},
		{9, 0}, {10, 0}, {11, 0}, {12, 0}, {13, 0}, {14, 0}, {15, 0}, {16, 1},
		{18, 1}, {20, 1}, {22, 1}, {24, 2}, {28, 2}, {32, 3}, {40, 3}, {48, 4},
		{64, 6}, {128, 7}, {256, 8}, {512, 9}, {1024, 10}, {2048, 11}, {4096, 12},
		{8192, 13}, {16384, 14}, {32768, 15}, {65536, 16}},
	[ZSTD_OFFSET] = {{1, 0}, {2, 1}, {4, 2}, {8, 3}, {16, 4}, {32, 5}, {64, 6}, {128, 7},
		{256, 8}, {512, 9}, {1 << 10, 10}, {1 << 11, 11}, {1 << 12, 12}, {1 << 13, 13},
		{1 << 14, 14}, {1 << 15, 15}, {1 << 16, 16}, {1 << 17, 17}, {1 << 18, 18},
		{1 << 19, 19}, {1 << 20, 20}, {1 << 21, 21}, {1 << 22, 22}, {1 << 23, 23},
		{1 << 24, 24}, FAR, FAR, FAR, FAR, FAR, FAR, FAR},
	[ZSTD_MATCH] = {{3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}, {8, 0}, {9, 0}, {10, 0}, {11, 0},
		{12, 0}, {13, 0}, {14, 0}, {15, 0}, {16, 0}, {17, 0}, {18, 0}, {19, 0}, {20, 0},
		{21, 0}, {22, 0}, {23, 0}, {24, 0}, {25, 0}, {26, 0}, {27, 0}, {28, 0}, {29, 0},
		{30, 0}, {31, 0}, {32, 0}, {33, 0}, {34, 0}, {35, 1}, {37, 1}, {39, 1}, {41, 1},
		{43, 2}, {47, 2}, {51, 3}, {59, 3}, {67, 4}, {83, 4}, {99, 5}, {131, 7},
		{259, 8}, {515, 9}, {1027, 10}, {2051, 11}, {4099, 12}, {8195, 13}, {16387, 14},
		{32771, 15}, {65539, 16}},
};

static const uint16_t first_own[ZSTD_KINDS] = {OWN_LITERALS, OWN_OFFSET, OWN_MATCH};
static const uint16_t first_predefined[ZSTD_KINDS] = {
	PREDEFINED_LITERALS, PREDEFINED_OFFSET, PREDEFINED_MATCH,
};

void sequences_init(struct unzstd *u)
{
	for (unsigned k = 0; k < ZSTD_KINDS; k++)
		states_fill(u->cell, first_predefined[k], &predefined[k], meaning[k]);
}

/* Returns the bytes read, or -1. */
static ptrdiff_t states_read(struct unzstd *u, unsigned kind, unsigned mode, struct view v)
{
	const struct meaning *m = meaning[kind];
	uint16_t first = first_own[kind];
	struct shares s;
	size_t n;
	switch (mode) {
	case ZSTD_TABLE_PREDEFINED:
		u->states[kind] = (struct states){first_predefined[kind],
						  (uint16_t)predefined[kind].log};
		return 0;
	case ZSTD_TABLE_REPEAT:
		return u->states_ready ? 0 : -1;
	case ZSTD_TABLE_RLE:
		if (!v.n || v.p[0] >= symbols[kind])
			return -1;
		m += v.p[0];
		u->states[kind] = (struct states){first, 0};
		u->cell[first] = (struct cell){m->base, first, 0, m->extra};
		return 1;
	default:
		n = shares_read(&s, v, symbols[kind], log_max[kind]);
		if (!n)
			return -1;
		u->states[kind] = (struct states){first, (uint16_t)s.log};
		states_fill(u->cell, first, &s, m);
		return (ptrdiff_t)n;
	}
}

size_t sequences_head(struct unzstd *u, struct view v, size_t *n)
{
	size_t at = 1;
	if (!v.n)
		return 0;
	*n = v.p[0];
	if (*n == 0)
		return v.n == 1;
	if (v.n < 4)
		return 0;
	if (*n == 255) {
		*n = get_le16(v.p + 1) + 0x7F00u;
		at = 3;
	} else if (*n >= 128) {
		*n = (*n - 128) << 8 | v.p[1];
		at = 2;
	}
	unsigned modes = v.p[at++];
	if (!*n || modes & 3)
		return 0;
	for (unsigned k = 0; k < ZSTD_KINDS; k++) {
		ptrdiff_t used = states_read(u, k, modes >> (6 - 2 * k) & 3, view_from(v, at));
		if (used < 0)
			return 0;
		at += (size_t)used;
	}
	u->states_ready = true;
	return at < v.n ? at : 0;
}
