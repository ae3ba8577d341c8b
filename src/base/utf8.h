/* UTF-8: how long a character is; making text harmless for a terminal. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * The length of the UTF-8 character at p, in NUL-terminated text, where the NUL counts as a
 * character of length 1; 0: not a valid character. RFC 3629, 4: the first byte determines the
 * length, and which second bytes are too low (an overlong form) or too high (a surrogate, or above
 * U+10FFFF).
 */
static inline size_t utf8_length(const uint8_t *p)
{
	uint8_t first = p[0], least = 0x80, most = 0xbf;

	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first > 0xf4)
		return 0;
	size_t n = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	if (first == 0xe0)
		least = 0xa0;
	else if (first == 0xed)
		most = 0x9f;
	else if (first == 0xf0)
		least = 0x90;
	else if (first == 0xf4)
		most = 0x8f;
	if (p[1] < least || p[1] > most)
		return 0;
	for (size_t i = 2; i < n; i++)
		if (p[i] < 0x80 || p[i] > 0xbf) /* the NUL, too */
			return 0;
	return n;
}

/*
 * The length of the character at p, or 1 for a byte that is not part of one. *obeyed: a terminal
 * may obey it, since it is a control character: of ASCII, or U+0080 to U+009F, in UTF-8 or as a
 * single byte.
 */
static inline size_t utf8_step(const uint8_t *p, bool *obeyed)
{
	size_t n = utf8_length(p);

	if (n == 2)
		*obeyed = p[0] == 0xc2 && p[1] < 0xa0;
	else
		*obeyed = n == 1 ? p[0] < ' ' || p[0] == 0x7f : n == 0 && p[0] < 0xa0;
	return n ? n : 1;
}

/* Replaces each byte of what a terminal may obey by '?'. */
static inline void utf8_make_printable(char *text)
{
	bool obeyed;

	for (size_t n; *text; text += n) {
		n = utf8_step((uint8_t *)text, &obeyed);
		if (obeyed)
			memset(text, '?', n);
	}
}

#endif
