#include "frame/trailer.h"

#include "frame/msgpack.h"

#include <assert.h>

#define TRAILER_LEAST 25
#define TRAILER_BETA_LEAST 30
#define FINGERPRINT 18  /* marker, type, 16 bytes: at the very end */
#define MAP_AT 6        /* 94 01 93 CD size size DE */

int trailer_parse_end(struct frame_info *info, struct view end)
{
	assert(end.n == TRAILER_END);
	if (end.p[0] != MSGPACK_U32)
		return CORRUPT("no trailer at the end of the frame", end.p[0]);
	uint32_t len = get_be32(end.p + 1);
	uint32_t least = info->beta ? TRAILER_BETA_LEAST : TRAILER_LEAST;
	if (len < least || len > INT32_MAX || len > info->frame_len - info->header_len)
		return CORRUPT("length of the trailer", len);
	info->trailer_len = len;
	return 0;
}

int trailer_parse(struct meta *m, struct view trailer, bool beta)
{
	if (beta)
		return 0;
	if (trailer.n < MAP_AT)
		return CORRUPT("trailer is too short", trailer.n);
	return meta_parse(m, trailer, MAP_AT, META_VL_MAX);
}

void trailer_build(uint8_t out[static TRAILER_EMPTY])
{
	static const uint8_t head[] = {
		MSGPACK_FIXARRAY | 4, 1, MSGPACK_FIXARRAY | 3, MSGPACK_U16, 0, 6,
		MSGPACK_MAP16, 0, 0, MSGPACK_ARRAY16, 0, 0,
		MSGPACK_U32, 0, 0, 0, TRAILER_EMPTY, MSGPACK_FIXEXT16};
	memset(out, 0, TRAILER_EMPTY);
	memcpy(out, head, sizeof head);
}

void trailer_clear_fingerprint(struct span trailer)
{
	assert(trailer.n >= TRAILER_END);
	memset(trailer.p + trailer.n - FINGERPRINT + 1, 0, FINGERPRINT - 1);
}
