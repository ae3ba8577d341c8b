/*
 * Headers that say what a file holds. One row a format; a row's function
 * gets at least `least` bytes that begin with its magic and reads only inside the view.
 */
#include "codec/tune_impl.h"

struct format {
	const char *name;
	const char *magic;
	uint8_t at, length; /* of the magic             */
	uint16_t least;     /* bytes that read() needs  */
	void (*read)(struct view head, struct tune_hint *h);
};

static const struct format formats[] = {
	{NULL, NULL, 0, 0, 0, NULL},
};

struct tune_hint tune_head(struct view head)
{
	struct tune_hint h = {0};
	for (const struct format *f = formats; f->name; f++)
		if (head.n >= f->least && !memcmp(head.p + f->at, f->magic, f->length)) {
			h.format = f->name;
			f->read(head, &h);
			break;
		}
	if (h.item > 255)
		h.item = 0;
	if (h.record > 255)
		h.record = 0;
	return h;
}
