/* The compression libraries in use, as they call themselves at run time. */
#ifndef CODEC_VERSIONS_H
#define CODEC_VERSIONS_H

struct version {
	const char *library, *version;
};

unsigned versions_count(void);
struct version versions_at(unsigned i);

#endif
