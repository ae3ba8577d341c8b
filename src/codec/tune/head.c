/*
 * Headers that say what a file contains. A row for each format: where its magic is, how many bytes
 * its function needs, and the function, which checks the rest, and reads beyond those bytes only
 * with a bounds check. All input is untrusted.
 */
#include "codec/tune/impl.h"

/* Parses a number in text: digits from `at` on, after any blanks. *at becomes the end. */
static uint32_t text_number(struct view v, size_t *at)
{
	uint32_t x = 0;
	while (*at < v.n && (v.p[*at] == ' ' || v.p[*at] == '\n' || v.p[*at] == '\t'))
		++*at;
	for (; *at < v.n && v.p[*at] >= '0' && v.p[*at] <= '9'; ++*at)
		x = x < 100000000 ? x * 10 + (v.p[*at] - '0') : x;
	return x;
}

/*
 * 'xN', where x is a type of NumPy: the bytes per element, where the parts of a complex number
 * count separately.
 */
static uint32_t npy_type(struct view v, size_t *at, uint32_t *total)
{
	uint8_t kind = v.p[*at];
	++*at;
	uint32_t n = text_number(v, at);
	if (kind == 'U')
		n = n < 64 ? 4 * n : 256;
	*total += n < 256 ? n : 256;
	return kind == 'c' ? n / 2 : n;
}

static bool read_npy(struct view head, struct tune_hint *h)
{
	size_t n = 10 + (size_t)get_le16(head.p + 8);
	struct view v = view_part(head, 0, min_u64(n, head.n));
	uint32_t total = 0, types = 0, item = 0;
	for (size_t at = 10; at + 3 < v.n && total < 256;) {
		uint8_t order = v.p[at + 1];
		if (v.p[at] != '\'' || (order != '<' && order != '>' && order != '|')) {
			at++;
			continue;
		}
		at += 2;
		item = npy_type(v, &at, &total);
		types++;
	}
	h->item = types == 1 ? item : 0;
	h->record = types > 1 ? total : 0;
	return types > 0;
}

#define FITS_CARD 80
#define FITS_UNIT 2880

static bool card_is(const uint8_t *card, const char *key)
{
	return memcmp(card, key, 8) == 0 && card[8] == '=';
}

static uint32_t card_number(const uint8_t *card)
{
	struct view v = view_of(card, FITS_CARD);
	size_t at = 10;
	while (at < v.n && (v.p[at] == ' ' || v.p[at] == '-'))
		at++;
	return text_number(v, &at);
}

/*
 * Parses one header from *at on, and advances *at to its end. False: cut short. *naxis: dimensions
 * of its data.
 */
static bool fits_header(struct view v, size_t *at, struct tune_hint *h, uint32_t *naxis)
{
	bool table = false;
	*naxis = 0;
	for (; *at + FITS_CARD <= v.n; *at += FITS_CARD) {
		const uint8_t *card = v.p + *at;
		if (card_is(card, "BITPIX  "))
			h->item = card_number(card) / 8;
		if (card_is(card, "NAXIS   "))
			*naxis = card_number(card);
		if (card_is(card, "XTENSION"))
			table = memcmp(card + 11, "BINTABLE", 8) == 0;
		if (card_is(card, "NAXIS1  ") && table)
			h->record = card_number(card);
		if (memcmp(card, "END     ", 8) == 0) {
			*at = (*at / FITS_UNIT + 1) * FITS_UNIT;
			if (table)
				h->item = 0;
			return true;
		}
	}
	return false;
}

/* A primary header without data precedes a table. */
static bool read_fits(struct view head, struct tune_hint *h)
{
	uint32_t naxis;
	size_t at = 0;
	if (fits_header(head, &at, h, &naxis) && naxis == 0 && at + FITS_CARD <= head.n &&
	    card_is(head.p + at, "XTENSION"))
		(void)fits_header(head, &at, h, &naxis);
	return true;
}

/* The first field of the header is its length, and shows the byte order. */
#define NIFTI_HEAD 348
#define NIFTI_BITPIX 72

static bool read_nifti(struct view head, struct tune_hint *h)
{
	const uint8_t *bits = head.p + NIFTI_BITPIX;
	bool little = get_le32(head.p) == NIFTI_HEAD;
	if (!little && get_be32(head.p) != NIFTI_HEAD)
		return false;
	h->item = (little ? get_le16(bits) : get_be16(bits)) / 8u;
	return true;
}

/* At most this many RIFF chunks are searched for the format. */
#define WAV_CHUNKS 16

static bool read_wav(struct view head, struct tune_hint *h)
{
	struct cursor c = cursor_of(head);
	if (memcmp(head.p + 8, "WAVE", 4) != 0)
		return false;
	cursor_skip(&c, 12);
	for (int i = 0; i < WAV_CHUNKS && !c.bad; i++) {
		struct view id = cursor_bytes(&c, 4);
		uint32_t length = cursor_le32(&c);
		if (c.bad || memcmp(id.p, "fmt ", 4) != 0) {
			cursor_skip(&c, (size_t)length + (length & 1));
			continue;
		}
		struct view fmt = cursor_bytes(&c, 16);
		if (fmt.p) {
			h->record = get_le16(fmt.p + 12);    /* block align     */
			h->item = get_le16(fmt.p + 14) / 8u; /* bits per sample */
		}
		return true;
	}
	return true;
}

struct tiff {
	struct view v;
	bool big;
};

/* Offsets are 64 bits: the largest in a file must not wrap around if size_t has 32. */
static uint32_t tiff_16(const struct tiff *t, uint64_t at)
{
	if (at + 2 > t->v.n)
		return 0;
	return t->big ? get_be16(t->v.p + at) : get_le16(t->v.p + at);
}

static uint32_t tiff_32(const struct tiff *t, uint64_t at)
{
	if (at + 4 > t->v.n)
		return 0;
	return t->big ? get_be32(t->v.p + at) : get_le32(t->v.p + at);
}

/* A directory is a count, and then entries: tag, type, count, and a value or its offset. */
#define TIFF_ENTRY 12
#define TIFF_ENTRIES_MAX 64
enum { TIFF_BITS_PER_SAMPLE = 258, TIFF_COMPRESSION = 259, TIFF_SAMPLES_PER_PIXEL = 277 };
enum { TIFF_UNCOMPRESSED = 1 };

/*
 * Reads the first directory, if it is in the head; only uncompressed strips and tiles have items.
 */
static bool read_tiff(struct view head, struct tune_hint *h)
{
	struct tiff t = {head, head.p[0] == 'M'};
	uint64_t dir = tiff_32(&t, 4);
	uint32_t n = tiff_16(&t, dir), bits = 0, samples = 1;
	uint32_t compression = TIFF_UNCOMPRESSED;
	for (uint32_t i = 0; i < n && i < TIFF_ENTRIES_MAX; i++) {
		uint64_t at = dir + 2 + TIFF_ENTRY * (uint64_t)i;
		uint32_t tag = tiff_16(&t, at), count = tiff_32(&t, at + 4);
		if (tag == TIFF_BITS_PER_SAMPLE)
			bits = count <= 2 ? tiff_16(&t, at + 8) : tiff_16(&t, tiff_32(&t, at + 8));
		if (tag == TIFF_COMPRESSION)
			compression = tiff_16(&t, at + 8);
		if (tag == TIFF_SAMPLES_PER_PIXEL)
			samples = tiff_16(&t, at + 8);
	}
	if (compression == TIFF_UNCOMPRESSED) {
		h->item = bits / 8;
		h->record = samples > 1 ? h->item * samples : 0;
	}
	return true;
}

/* P5 and P6: width, height, maximum value. */
static bool read_pnm(struct view head, struct tune_hint *h)
{
	size_t at = 2;
	uint32_t width = text_number(head, &at), height = text_number(head, &at);
	uint32_t most = text_number(head, &at);
	if (!width || !height || !most || most > 65535)
		return false;
	h->item = most > 255 ? 2 : 1;
	h->record = head.p[1] == '6' ? 3 * h->item : 0;
	return true;
}

/* Princeton Instruments: a number for the type of a pixel. */
#define SPE_DATATYPE 108

static bool read_spe(struct view head, struct tune_hint *h)
{
	static const uint8_t size[] = {4, 4, 2, 2, 0, 8, 1, 0, 4};
	uint32_t type = get_le16(head.p + SPE_DATATYPE);
	h->item = type < sizeof size ? size[type] : 0;
	return h->item > 0;
}

/* Grid shifts: four floats per node. */
static bool read_ntv2(struct view head, struct tune_hint *h)
{
	(void)head;
	h->item = 4;
	h->record = 16;
	return true;
}

static double be_double(const uint8_t *p)
{
	uint64_t bits = get_be64(p);
	double x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

/*
 * A grid without a magic: a corner, the steps, and their numbers, which must be plausible on a
 * globe.
 */
static bool read_gtx(struct view head, struct tune_hint *h)
{
	double lat = be_double(head.p), lon = be_double(head.p + 8);
	double dlat = be_double(head.p + 16), dlon = be_double(head.p + 24);
	uint32_t rows = get_be32(head.p + 32), cols = get_be32(head.p + 36);
	if (!(lat >= -90 && lat <= 90 && lon >= -360 && lon <= 360))
		return false;
	if (!(dlat > 1e-6 && dlat < 90 && dlon > 1e-6 && dlon < 90))
		return false;
	if (!rows || !cols || !(rows * dlat < 361) || !(cols * dlon < 721))
		return false;
	h->item = 4;
	return true;
}

static bool read_netcdf(struct view head, struct tune_hint *h)
{
	(void)h; /* variables of various types follow: the samples decide */
	return head.p[3] == 1 || head.p[3] == 2 || head.p[3] == 5;
}

/* Tables before code, or pages of various kinds: what suits one chunk harms the next. */
static bool read_mixed(struct view head, struct tune_hint *h)
{
	(void)head;
	h->mixed = true;
	return true;
}

/* A font: tables of outlines, metrics, character maps. Tags in its directory are sorted. */
#define SFNT_TABLES_MAX 64

static bool read_sfnt(struct view head, struct tune_hint *h)
{
	uint32_t n = get_be16(head.p + 4);
	const uint8_t *first = head.p + 12, *second = first + 16;
	h->tables = true;
	return n > 1 && n <= SFNT_TABLES_MAX && memcmp(first, second, 4) < 0;
}

struct format {
	const char *name;
	const char *magic;
	uint16_t at, length; /* of the magic             */
	uint16_t least;      /* bytes that read() needs  */
	bool (*read)(struct view head, struct tune_hint *h); /* false: it is something else */
};

static const struct format formats[] = {
	{"npy", "\x93NUMPY", 0, 6, 16, read_npy},
	{"fits", "SIMPLE  =", 0, 9, FITS_UNIT, read_fits},
	{"nifti", "n+1", 344, 4, NIFTI_HEAD, read_nifti},
	{"wav", "RIFF", 0, 4, 44, read_wav},
	{"netcdf", "CDF", 0, 3, 32, read_netcdf},
	{"tiff", "II*", 0, 4, 8, read_tiff},
	{"tiff", "MM\0*", 0, 4, 8, read_tiff},
	{"pgm", "P5", 0, 2, 12, read_pnm},
	{"ppm", "P6", 0, 2, 12, read_pnm},
	{"spe", "\x55\x55", 4098, 2, 4100, read_spe},
	{"ntv2", "NUM_OREC", 0, 8, 16, read_ntv2},
	{"sfnt", "\0\1\0", 0, 4, 44, read_sfnt},
	{"sfnt", "OTTO", 0, 4, 44, read_sfnt},
	{"elf", "\x7f" "ELF", 0, 4, 16, read_mixed},
	{"sqlite", "SQLite format 3", 0, 16, 100, read_mixed},
	{"gtx", "", 0, 0, 40, read_gtx},
};

struct tune_hint tune_head(struct view head)
{
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		const struct format *f = &formats[i];
		struct tune_hint h = {.format = f->name};
		if (head.n < f->least || memcmp(head.p + f->at, f->magic, f->length) != 0)
			continue;
		if (!f->read(head, &h))
			continue;
		if (h.item > TUNE_ITEM_MAX)
			h.item = 0;
		if (h.record > TUNE_ITEM_MAX)
			h.record = 0;
		return h;
	}
	return (struct tune_hint){0};
}
