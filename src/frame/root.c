#include "frame/root.h"

#include "codec/chunk.h"
#include "frame/format/header.h"
#include "frame/format/msgpack.h"
#include "frame/io/hash.h"
#include "frame/young.h"

#include <assert.h>

#define NOTE_FIXED (1 + 3 + 4 + 9 + 5 + 5 + HEADER_FIXED + 6 + 5 + 5 + 5)
#define NOTE_FULL (6u + 9) /* with the key "whole" */
#define NOTE_VERSION 2
#define NOTE_VERSION_WHOLE 1 /* all checksums are of whole chunks */
#define NOTE_BLOCK 16384u /* decoded bytes; for a plain copy any size would do */

size_t root_note_length(bool part, size_t young, size_t sums)
{
	return CHUNK_HEAD + NOTE_FIXED + (part ? NOTE_FULL : 0) + young + sums;
}

static uint8_t *put_key(uint8_t *p, const char *key)
{
	size_t n = strlen(key);
	*p++ = (uint8_t)(MSGPACK_FIXSTR | n);
	memcpy(p, key, n);
	return p + n;
}

static uint8_t *put_number(uint8_t *p, const char *key, uint64_t x)
{
	p = put_key(p, key);
	*p++ = MSGPACK_U64;
	put_be64(p, x);
	return p + 8;
}

static uint8_t *put_bytes(uint8_t *p, const char *key, struct view v)
{
	p = put_key(p, key);
	*p++ = MSGPACK_BIN32;
	put_be32(p, (uint32_t)v.n);
	if (v.n)
		memcpy(p + 4, v.p, v.n);
	return p + 4 + v.n;
}

int root_note_encode(const struct root_note *note, struct buf *out)
{
	bool part = note->full != note->seq;
	size_t len = root_note_length(part, note->young.n, note->sums.n);
	assert(note->head.n == HEADER_FIXED && len <= ROOT_NOTE_MOST);
	TRY(buf_reserve_fresh(out, len));
	uint32_t nbytes = (uint32_t)(len - CHUNK_HEAD);
	/* A plain copy: checksums do not compress. */
	struct chunk_head head = {.kind = CHUNK_STORED,
				  .typesize = 1,
				  .nbytes = nbytes,
				  .blocksize = (uint32_t)min_u64(nbytes, NOTE_BLOCK),
				  .cbytes = (uint32_t)len};
	chunk_head_put(out->p, &head);
	uint8_t *p = out->p + CHUNK_HEAD;
	*p++ = (uint8_t)(MSGPACK_FIXMAP | (5 + part));
	p = put_key(p, "v");
	*p++ = NOTE_VERSION;
	p = put_number(p, "seq", note->seq);
	if (part)
		p = put_number(p, "whole", note->full);
	p = put_bytes(p, "root", note->head);
	p = put_bytes(p, "young", note->young);
	p = put_bytes(p, "xxh3", note->sums);
	assert(p == out->p + len);
	out->n = len;
	return 0;
}

static void take_key(struct cursor *c, const char *key)
{
	if (!view_is(msgpack_fixstr(c), key))
		c->bad = true;
}

static uint64_t take_number(struct cursor *c, const char *key)
{
	take_key(c, key);
	msgpack_marker(c, MSGPACK_U64);
	return cursor_be64(c);
}

static struct view take_bytes(struct cursor *c, const char *key)
{
	take_key(c, key);
	return msgpack_bytes32(c, MSGPACK_BIN32);
}

static int parse(struct root_note *note, struct view plain)
{
	struct cursor c = cursor_of(plain);
	bool part = plain.n && plain.p[0] == (MSGPACK_FIXMAP | 6);
	msgpack_marker(&c, MSGPACK_FIXMAP | (part ? 6 : 5));
	take_key(&c, "v");
	uint8_t v = cursor_u8(&c);
	if (!c.bad && v > NOTE_VERSION) /* valid, but not for us: no reason to go back */
		return UNSUPPORTED("note of a later root", v);
	note->seq = note->full = take_number(&c, "seq");
	if (part)
		note->full = take_number(&c, "whole");
	note->head = take_bytes(&c, "root");
	note->young = take_bytes(&c, "young");
	note->sums = take_bytes(&c, "xxh3");
	note->whole_sums = v == NOTE_VERSION_WHOLE;
	if (v != NOTE_VERSION && v != NOTE_VERSION_WHOLE)
		c.bad = true;
	if (c.bad || note->head.n != HEADER_FIXED || note->young.n % YOUNG_RUN_BYTES ||
	    note->young.n > YOUNG_MAX_RUNS * YOUNG_RUN_BYTES || note->sums.n % 8)
		return CORRUPT("note of the root", c.at);
	return 0;
}

int root_note_decode(struct root_note *note, struct view content, struct buf *plain)
{
	struct chunk c = {0};
	struct scratch *s;
	uint32_t nbytes, cbytes;
	TRY(chunk_sizes(content, &nbytes, &cbytes));
	/* Our notes are stored uncompressed, so none decodes to more than its stored bytes. */
	if (nbytes > content.n || cbytes != content.n)
		return CORRUPT("size of the note of the root", nbytes);
	bool as_is = chunk_parse(&c, content, content.n, 1) == 0 && c.kind == CHUNK_STORED;
	size_t head = c.head_len;
	chunk_deinit(&c);
	if (as_is)
		return parse(note, view_part(content, head, nbytes));
	TRY(buf_reserve_fresh(plain, nbytes));
	plain->n = nbytes;
	TRY(scratch_open(&s));
	int rc = chunk_decode_all(s, content, 1, buf_span(plain));
	scratch_close(s);
	TRY(rc);
	return parse(note, buf_view(plain));
}

/* Which bytes of the header the hash covers: all, as in older versions, or only a part. */
enum form { FORM_PART, FORM_ALL };

static enum form form_of(struct view head)
{
	return head.n == HEADER_EMPTY ? FORM_ALL : FORM_PART;
}

/* The reference rewrites the header when it changes a metalayer, and leaves the trailer alone. */
static void add_head(struct XXH3_state_s *state, struct view head, bool empty, enum form form)
{
	uint8_t fixed[HEADER_FIXED];
	if (form == FORM_ALL) {
		size_t from = empty ? HEADER_FIXED : 0;
		sum64_add(state, view_from(head, from));
	} else if (!empty) {
		memcpy(fixed, head.p, sizeof fixed);
		header_clear_defaults(fixed);
		sum64_add(state, view_of(fixed, sizeof fixed));
	}
}

static uint64_t finish(struct XXH3_state_s *state, uint64_t word)
{
	uint8_t raw[8];
	put_be64(raw, word);
	sum64_add(state, view_of(raw, sizeof raw));
	return sum64_end(state);
}

static int hash_as(const struct root_bytes *r, enum form form, uint64_t word, uint64_t *hash)
{
	struct XXH3_state_s *state = sum64_begin();
	if (!state)
		return -ENOMEM;
	add_head(state, r->head, r->empty, form);
	sum64_add(state, view_of(r->tail.p, r->tail.n - TRAILER_PRINT));
	*hash = finish(state, word);
	return 0;
}

int root_sign(const struct root_bytes *r, uint64_t word, struct fingerprint *fp)
{
	*fp = (struct fingerprint){.type = TRAILER_TYPE_64, .word = word};
	TRY(hash_as(r, form_of(r->head), word, &fp->hash));
	trailer_set_fingerprint(r->tail, *fp);
	return 0;
}

int root_matches(const struct root_bytes *r)
{
	struct fingerprint fp = trailer_fingerprint(span_view(r->tail));
	bool same = false;
	for (enum form form = form_of(r->head); form <= FORM_ALL && !same; form++) {
		uint64_t hash;
		TRY(hash_as(r, form, fp.word, &hash));
		same = hash == fp.hash;
	}
	return same;
}

int root_check_file(struct io *io, uint64_t at, uint64_t len, struct view head,
		    struct fingerprint fp)
{
	for (enum form form = form_of(head); form <= FORM_ALL; form++) {
		struct XXH3_state_s *state = sum64_begin();
		if (!state)
			return -ENOMEM;
		add_head(state, head, false, form);
		int rc = io_hash_add(state, io, at, len);
		uint64_t hash = finish(state, fp.word);
		TRY(rc);
		if (hash == fp.hash)
			return 0;
	}
	return CORRUPT("fingerprint of the frame", at + len);
}
