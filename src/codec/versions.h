/* The compression libraries in use, with their run-time versions. */
#ifndef CODEC_VERSIONS_H
#define CODEC_VERSIONS_H

struct version {
	const char *library, *version;
};

unsigned versions_count(void);
struct version versions_at(unsigned i);

#endif
