#include "codec/codec.h"

#define CODEC(name) extern const struct codec codec_##name;
#include "codec/codecs/list.h"
#undef CODEC

static const struct codec *const rows[] = {
#define CODEC(name) &codec_##name,
#include "codec/codecs/list.h"
#undef CODEC
};

#define NROWS (sizeof rows / sizeof rows[0])

const struct codec *codec_at(size_t i)
{
	return i < NROWS ? rows[i] : NULL;
}

const struct codec *codec_by_id(unsigned id)
{
	for (size_t i = 0; i < NROWS; i++)
		if (rows[i]->id == id)
			return rows[i];
	return NULL;
}

const struct codec *codec_by_format(unsigned format)
{
	/* LZ4 and LZ4HC share a format; the first row of a format decodes it. */
	for (size_t i = 0; i < NROWS; i++)
		if (rows[i]->format == format)
			return rows[i];
	return NULL;
}

const struct codec *codec_by_name(struct view name)
{
	for (size_t i = 0; i < NROWS; i++)
		if (view_is(name, rows[i]->name))
			return rows[i];
	return NULL;
}

/* FORMAT.md 1.3: values of compformat besides those of our rows. */
enum { FORMAT_SNAPPY = 2, FORMAT_LIZARD = 5, FORMAT_PLUGIN = 6 };
#define PLUGIN_FIRST 32 /* compcodes of plug-ins; above the named ones, those of users */

int codec_refuse(unsigned format, unsigned udcodec)
{
	static const char *const plugin[] = {
		"codec ndlz",     "codec zfp_acc",   "codec zfp_prec",
		"codec zfp_rate", "codec openhtj2k", "codec grok",
		"codec openzl",   "codec j2k",       "codec htj2k",
	};
	if (format == FORMAT_SNAPPY)
		return UNSUPPORTED("codec snappy", format);
	if (format == FORMAT_LIZARD)
		return UNSUPPORTED("codec lizard", format);
	if (format != FORMAT_PLUGIN)
		return CORRUPT("unknown codec", format);
	if (udcodec < PLUGIN_FIRST)
		return CORRUPT("unknown codec", udcodec);
	if (udcodec - PLUGIN_FIRST < sizeof plugin / sizeof plugin[0])
		return UNSUPPORTED(plugin[udcodec - PLUGIN_FIRST], udcodec);
	return UNSUPPORTED("codec of a user", udcodec);
}
