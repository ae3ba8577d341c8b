/* UTF-8: how long a character is; text that a terminal cannot take for commands. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * The length of the UTF-8 character at p, in text that ends with a NUL; 0: there is none, or one
 * that UTF-8 forbids (RFC 3629).
 */
static inline size_t utf8_length(const uint8_t *p)
{
	size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

	if (p[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80) /* the NUL, too */
			return 0;
	bool longer = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
	bool surrogate = p[0] == 0xed && p[1] > 0x9f;
	bool beyond = p[0] == 0xf4 && p[1] > 0x8f;
	return longer || surrogate || beyond ? 0 : n;
}

/*
 * The length of what is at p: a character, or a byte that is part of none. *obeyed: a terminal may
 * obey it, since it is a control character, of ASCII or from U+0080 to U+009F.
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

/* Puts '?' for each byte of what a terminal may obey. */
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
