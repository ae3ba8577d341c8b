#include "codec/versions.h"

#include <assert.h>
#include <lz4.h>
#include <zlib.h>
#include <zstd.h>

#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>
#define ROWS 4
#else
#define ROWS 3
#endif

unsigned versions_count(void)
{
	return ROWS;
}

struct version versions_at(unsigned i)
{
	assert(i < ROWS);
	switch (i) {
	case 0: return (struct version){"liblz4", LZ4_versionString()};
	case 1: return (struct version){"libzstd", ZSTD_versionString()};
	case 2: return (struct version){"zlib", zlibVersion()};
	}
#ifdef HAVE_LIBDEFLATE
	return (struct version){"libdeflate", LIBDEFLATE_VERSION_STRING};
#endif
	return (struct version){"", ""};
}
