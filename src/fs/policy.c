#include "fs/policy.h"

#include "codec/filter.h"

void policy_note_item(struct pipeline *p)
{
	if (p->typesize > 255)
		return;
	for (int i = 0; i < FILTER_SLOTS; i++)
		if (p->filter[i] == FILTER_SHUFFLE && !p->meta[i])
			p->meta[i] = (uint8_t)p->typesize;
		else if (p->filter[i] == FILTER_BITSHUFFLE) /* which ignores its parameter */
			p->meta[i] = (uint8_t)p->typesize;
}

struct pipeline policy_recover_item(const struct pipeline *header)
{
	struct pipeline p = *header;

	for (int i = 0; p.typesize == 1 && i < FILTER_SLOTS; i++)
		if ((p.filter[i] == FILTER_SHUFFLE || p.filter[i] == FILTER_BITSHUFFLE) && p.meta[i])
			p.typesize = p.meta[i];
	p.blocksize -= p.blocksize % p.typesize;
	return p;
}

/* Bit shuffle looks at the typesize alone: bytes are gathered by a shuffle first, then bits. */
static bool add_filter(struct pipeline *out, int *n, uint8_t filter, uint8_t meta)
{
	if (*n == FILTER_SLOTS)
		return false;
	out->filter[*n] = filter;
	out->meta[(*n)++] = meta;
	return true;
}

bool policy_bytewise(const struct pipeline *p, struct pipeline *out)
{
	uint8_t item = (uint8_t)p->typesize;
	bool fits = p->typesize > 1 && p->typesize <= 255;
	int n = 0;

	*out = *p;
	memset(out->filter, 0, sizeof out->filter);
	memset(out->meta, 0, sizeof out->meta);
	out->typesize = 1;
	for (int i = 0; fits && i < FILTER_SLOTS; i++) {
		uint8_t meta = p->meta[i];
		switch (p->filter[i]) {
		case FILTER_NONE: break;
		case FILTER_SHUFFLE: fits = add_filter(out, &n, FILTER_SHUFFLE, meta ? meta : item); break;
		case FILTER_BYTEDELTA: fits = add_filter(out, &n, FILTER_BYTEDELTA, meta ? meta : item); break;
		case FILTER_BITSHUFFLE:
			fits = add_filter(out, &n, FILTER_SHUFFLE, item) &&
			       add_filter(out, &n, FILTER_BITSHUFFLE, 0);
			break;
		default: fits = false;
		}
	}
	return fits;
}
