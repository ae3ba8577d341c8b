/*
 * The few MessagePack forms that frames use. Readers take a cursor: a wrong marker sets its `bad`,
 * as running past the end does.
 */
#ifndef FRAME_FORMAT_MSGPACK_H
#define FRAME_FORMAT_MSGPACK_H

#include "base/bytes.h"

#define MSGPACK_FIXMAP 0x80
#define MSGPACK_FIXARRAY 0x90
#define MSGPACK_FIXSTR 0xa0
#define MSGPACK_FALSE 0xc2
#define MSGPACK_TRUE 0xc3
#define MSGPACK_BIN32 0xc6
#define MSGPACK_U16 0xcd
#define MSGPACK_U32 0xce
#define MSGPACK_U64 0xcf
#define MSGPACK_I16 0xd1
#define MSGPACK_I32 0xd2
#define MSGPACK_I64 0xd3
#define MSGPACK_FIXEXT16 0xd8
#define MSGPACK_STR32 0xdb
#define MSGPACK_ARRAY16 0xdc
#define MSGPACK_MAP16 0xde

/* Reads a marker byte, which must be this one. */
static inline void msgpack_marker(struct cursor *c, uint8_t marker)
{
	if (cursor_u8(c) != marker)
		c->bad = true;
}

static inline uint16_t msgpack_map16(struct cursor *c)
{
	msgpack_marker(c, MSGPACK_MAP16);
	return cursor_be16(c);
}

static inline int32_t msgpack_i32(struct cursor *c)
{
	msgpack_marker(c, MSGPACK_I32);
	return (int32_t)cursor_be32(c);
}

/* Up to 31 bytes of text, borrowed. */
static inline struct view msgpack_fixstr(struct cursor *c)
{
	uint8_t marker = cursor_u8(c);
	if ((marker & 0xe0) != MSGPACK_FIXSTR)
		c->bad = true;
	return cursor_bytes(c, marker & 0x1f);
}

/* Bytes preceded by a 32-bit length, borrowed. `marker` is BIN32 or STR32. */
static inline struct view msgpack_bytes32(struct cursor *c, uint8_t marker)
{
	msgpack_marker(c, marker);
	return cursor_bytes(c, cursor_be32(c));
}

#endif
