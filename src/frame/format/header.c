#include "frame/format/header.h"

#include "codec/filter.h"
#include "frame/format/msgpack.h"
#include "frame/format/trailer.h"

#include <assert.h>

/* Positions of the values; each has its marker in the byte before. */
enum {
	AT_MAGIC = 0x02,
	AT_HEADER_LEN = 0x0b,
	AT_FRAME_LEN = 0x10,
	AT_FLAGS = 0x19,
	AT_TYPE = 0x1a,
	AT_CODEC = 0x1b,
	AT_SPLIT = 0x1c,
	AT_NBYTES = 0x1e,
	AT_CBYTES = 0x27,
	AT_TYPE_SIZE = 0x30,
	AT_BLOCK_SIZE = 0x35,
	AT_CHUNK_SIZE = 0x3a,
	AT_NTHREADS_C = 0x3f,
	AT_NTHREADS_D = 0x42,
	AT_VLMETA = 0x44,
	AT_NFILTERS = 0x46,
	AT_FILTERS = 0x47,
	AT_UDCODEC = 0x4d,
	AT_FILTERS_META = 0x4f,
	AT_DICT = 0x55,
	AT_META = 0x57,

	BETA_AT_CHUNK_SIZE = 0x35,
	BETA_AT_NFILTERS = 0x41,
	BETA_AT_FILTERS = 0x42,
	BETA_AT_FILTERS_META = 0x4a,
};

/* The byte at AT_FLAGS; its low half is the version. */
#define VERSION_MASK 0x0f
#define VERSION_NOW 2
#define VERSION_MOST 3
#define FLAG_OFFSETS_64 0x10
#define FLAG_VARIABLE 0x40
#define FLAG_VL_BLOCKS 0x80

/* The byte at AT_TYPE. */
#define TYPE_SPARSE 1

/* The byte at AT_CODEC: level in the high half, codec in the low one; ... */
#define CODEC_MASK 0x0f
#define LEVEL_SHIFT 4
#define CODEC_ELSEWHERE 6 /* ... or this: it is the byte at AT_UDCODEC */

/* The byte at AT_SPLIT counts from 0, enum split_mode from 1. */
#define SPLIT_MASK 3
#define SPLIT_FIRST 1

/* The header is a MessagePack array of this many elements. */
#define ELEMENTS 14
#define ELEMENTS_BETA 13

static const char magic[8] = "b2frame";

static int parse_filters(struct pipeline *p, struct view v, int at_n, int at_ids, int at_metas)
{
	unsigned n = v.p[at_n];
	if (n > FILTER_SLOTS)
		return CORRUPT("more filters than slots", n);
	memcpy(p->filter, v.p + at_ids, n);
	memcpy(p->meta, v.p + at_metas, n);
	return 0;
}

uint64_t header_frame_len(struct view fixed)
{
	return fixed.n < HEADER_BETA_FIXED ? 0 : get_be64(fixed.p + AT_FRAME_LEN);
}

static int parse_lengths(struct frame_info *info, struct view v, uint64_t file_len)
{
	uint32_t least = info->beta ? HEADER_BETA_FIXED : HEADER_FIXED;
	info->header_len = get_be32(v.p + AT_HEADER_LEN);
	info->frame_len = get_be64(v.p + AT_FRAME_LEN);
	if (info->header_len < least || info->header_len > INT32_MAX)
		return CORRUPT("length of the header", info->header_len);
	if (info->frame_len > file_len)
		return CORRUPT("frame is longer than its file", info->frame_len);
	if (info->frame_len < (uint64_t)info->header_len + TRAILER_LEAST)
		return CORRUPT("frame is shorter than header and trailer", info->frame_len);
	return 0;
}

static int parse_sizes(struct frame_info *info, struct view v)
{
	int64_t nbytes = (int64_t)get_be64(v.p + AT_NBYTES);
	int64_t cbytes = (int64_t)get_be64(v.p + AT_CBYTES);
	int32_t type_size = (int32_t)get_be32(v.p + AT_TYPE_SIZE);
	int at = info->beta ? BETA_AT_CHUNK_SIZE : AT_CHUNK_SIZE;
	int32_t chunk_size = (int32_t)get_be32(v.p + at);
	int32_t block_size = info->beta ? 0 : (int32_t)get_be32(v.p + AT_BLOCK_SIZE);
	if (nbytes < 0 || cbytes < 0)
		return CORRUPT("negative size", nbytes < 0 ? nbytes : cbytes);
	if (type_size <= 0)
		return CORRUPT("size of an item", type_size);
	if (nbytes > 0 && (chunk_size < 0 || (uint32_t)chunk_size > CHUNK_MAX_NBYTES))
		return CORRUPT("size of a chunk", chunk_size);
	info->nbytes = (uint64_t)nbytes;
	info->cbytes = (uint64_t)cbytes;
	info->type_size = (uint32_t)type_size;
	info->chunk_size = chunk_size > 0 ? (uint32_t)chunk_size : 0;
	/* Informational, and not validated by the reference: nonsense counts as absent. */
	info->block_size = block_size > 0 ? (uint32_t)block_size : 0;
	info->variable = chunk_size == 0 && (nbytes > 0 || (v.p[AT_FLAGS] & FLAG_VARIABLE));
	return 0;
}

static int parse_pipeline(struct frame_info *info, struct view v)
{
	struct pipeline *p = &info->pipeline;
	p->codec = v.p[AT_CODEC] & CODEC_MASK;
	p->level = v.p[AT_CODEC] >> LEVEL_SHIFT;
	p->typesize = info->type_size;
	p->blocksize = info->block_size;
	if (info->beta) {
		p->split_mode = SPLIT_FORWARD;
		return parse_filters(p, v, BETA_AT_NFILTERS, BETA_AT_FILTERS, BETA_AT_FILTERS_META);
	}
	if (p->codec == CODEC_ELSEWHERE)
		p->codec = v.p[AT_UDCODEC];
	p->split_mode = (v.p[AT_SPLIT] & SPLIT_MASK) + SPLIT_FIRST;
	p->use_dict = v.p[AT_DICT] & 1;
	return parse_filters(p, v, AT_NFILTERS, AT_FILTERS, AT_FILTERS_META);
}

int header_parse(struct frame_info *info, struct view fixed, uint64_t file_len)
{
	*info = (struct frame_info){0};
	if (fixed.n < HEADER_BETA_FIXED)
		return CORRUPT("too short for a frame", fixed.n);
	if (memcmp(fixed.p + AT_MAGIC, magic, sizeof magic) != 0)
		return CORRUPT("no frame magic", 0);
	info->version = fixed.p[AT_FLAGS] & VERSION_MASK;
	info->beta = fixed.p[0] == (MSGPACK_FIXARRAY | ELEMENTS_BETA) && info->version == 1;
	if (info->version > VERSION_MOST)
		return UNSUPPORTED("version of the frame", info->version);
	if (!info->beta && fixed.n < HEADER_FIXED)
		return CORRUPT("too short for a frame", fixed.n);
	uint8_t type = fixed.p[AT_TYPE];
	if (type > TYPE_SPARSE || (info->beta && type))
		return CORRUPT("type of the frame", type);
	info->sparse = type == TYPE_SPARSE;
	info->vl_blocks = fixed.p[AT_FLAGS] & FLAG_VL_BLOCKS;
	TRY(parse_lengths(info, fixed, file_len));
	TRY(parse_sizes(info, fixed));
	return parse_pipeline(info, fixed);
}

/* Writes the MessagePack type byte, before the field at `at`. */
static void put_marker(uint8_t *out, int at, uint8_t marker)
{
	out[at - 1] = marker;
}

void header_build(uint8_t out[static HEADER_EMPTY], const struct pipeline *p, uint32_t chunk_size)
{
	static const uint8_t no_meta[HEADER_EMPTY - HEADER_FIXED] = {
		MSGPACK_FIXARRAY | 3, MSGPACK_U16, 0, 7, MSGPACK_MAP16, 0, 0,
		MSGPACK_ARRAY16,      0,           0};
	struct header_root none = {
		.frame_len = HEADER_EMPTY, .type_size = 1, .chunk_size = chunk_size};
	assert(chunk_size > 0 && chunk_size <= CHUNK_MAX_NBYTES);
	memset(out, 0, HEADER_EMPTY);
	out[0] = MSGPACK_FIXARRAY | ELEMENTS;
	out[1] = MSGPACK_FIXSTR | sizeof magic;
	memcpy(out + AT_MAGIC, magic, sizeof magic);
	put_marker(out, AT_HEADER_LEN, MSGPACK_I32);
	put_be32(out + AT_HEADER_LEN, HEADER_EMPTY);
	put_marker(out, AT_FRAME_LEN, MSGPACK_U64);
	put_marker(out, AT_FLAGS, MSGPACK_FIXSTR | 4);
	out[AT_FLAGS] = FLAG_OFFSETS_64 | VERSION_NOW;
	put_marker(out, AT_NBYTES, MSGPACK_I64);
	put_marker(out, AT_CBYTES, MSGPACK_I64);
	put_marker(out, AT_TYPE_SIZE, MSGPACK_I32);
	put_marker(out, AT_BLOCK_SIZE, MSGPACK_I32);
	put_marker(out, AT_CHUNK_SIZE, MSGPACK_I32);
	put_marker(out, AT_NTHREADS_C, MSGPACK_I16);
	put_be16(out + AT_NTHREADS_C, 1);
	put_marker(out, AT_NTHREADS_D, MSGPACK_I16);
	put_be16(out + AT_NTHREADS_D, 1);
	out[AT_VLMETA] = MSGPACK_FALSE;
	put_marker(out, AT_NFILTERS, MSGPACK_FIXEXT16);
	out[AT_NFILTERS] = FILTER_SLOTS;
	header_set_pipeline(out, p);
	header_set_root(out, &none);
	memcpy(out + AT_META, no_meta, sizeof no_meta);
}

void header_set_root(uint8_t fixed[static HEADER_FIXED], const struct header_root *root)
{
	assert(root->type_size > 0);
	put_be64(fixed + AT_FRAME_LEN, root->frame_len);
	put_be64(fixed + AT_NBYTES, root->nbytes);
	put_be64(fixed + AT_CBYTES, root->cbytes);
	put_be32(fixed + AT_TYPE_SIZE, root->type_size);
	put_be32(fixed + AT_CHUNK_SIZE, root->chunk_size);
}

void header_make_empty(uint8_t fixed[static HEADER_FIXED], uint64_t frame_len, bool vlmeta)
{
	put_be64(fixed + AT_FRAME_LEN, frame_len);
	put_be64(fixed + AT_NBYTES, 0);
	put_be64(fixed + AT_CBYTES, 0);
	header_set_vlmeta(fixed, vlmeta);
}

void header_set_vlmeta(uint8_t fixed[static HEADER_FIXED], bool any)
{
	fixed[AT_VLMETA] = any ? MSGPACK_TRUE : MSGPACK_FALSE;
}

void header_set_pipeline(uint8_t fixed[static HEADER_FIXED], const struct pipeline *p)
{
	assert(p->level <= 9);
	uint8_t codec = p->codec < CODEC_ELSEWHERE ? p->codec : CODEC_ELSEWHERE;
	fixed[AT_CODEC] = (uint8_t)(codec | p->level << LEVEL_SHIFT);
	fixed[AT_SPLIT] = (uint8_t)((p->split_mode - SPLIT_FIRST) & SPLIT_MASK);
	fixed[AT_UDCODEC] = p->codec;
	fixed[AT_DICT] = p->use_dict;
	header_set_block_size(fixed, p->blocksize);
	memcpy(fixed + AT_FILTERS, p->filter, FILTER_SLOTS);
	memcpy(fixed + AT_FILTERS_META, p->meta, FILTER_SLOTS);
	for (int i = 0; i < FILTER_SLOTS; i++)
		if (p->filter[i] == FILTER_BYTEDELTA && p->meta[i] == 0)
			fixed[AT_FILTERS_META + i] =
				p->typesize <= INT8_MAX ? (uint8_t)p->typesize : 1;
}

void header_set_block_size(uint8_t fixed[static HEADER_FIXED], uint32_t size)
{
	put_be32(fixed + AT_BLOCK_SIZE, size);
}

void header_clear_defaults(uint8_t fixed[static HEADER_FIXED])
{
	memset(fixed + AT_CODEC, 0, AT_SPLIT + 1 - AT_CODEC);
	memset(fixed + AT_BLOCK_SIZE, 0, 4);
	memset(fixed + AT_NTHREADS_C, 0, HEADER_FIXED - AT_NTHREADS_C);
}

void header_note_item(uint8_t fixed[static HEADER_FIXED], uint32_t size)
{
	filters_note_item(fixed + AT_FILTERS, fixed + AT_FILTERS_META, size);
}

void header_imply_item(uint8_t fixed[static HEADER_FIXED], uint32_t size)
{
	filters_imply_item(fixed + AT_FILTERS, fixed + AT_FILTERS_META, size);
}

uint32_t header_chunk_size(const uint8_t fixed[static HEADER_FIXED])
{
	return get_be32(fixed + AT_CHUNK_SIZE);
}

const uint8_t *header_filter_meta(const uint8_t fixed[static HEADER_FIXED])
{
	return fixed + AT_FILTERS_META;
}
