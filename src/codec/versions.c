#include "codec/versions.h"

#include <assert.h>
#include <lz4.h>
#include <zlib.h>
#include <zstd.h>

#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>

/* Its version is only known at compile time. */
static const char *libdeflate_version(void)
{
	return LIBDEFLATE_VERSION_STRING;
}
#endif

static const struct {
	const char *library;
	const char *(*version)(void);
} rows[] = {
	{"liblz4", LZ4_versionString},
	{"libzstd", ZSTD_versionString},
	{"zlib", zlibVersion},
#ifdef HAVE_LIBDEFLATE
	{"libdeflate", libdeflate_version},
#endif
};

unsigned versions_count(void)
{
	return sizeof rows / sizeof rows[0];
}

struct version versions_at(unsigned i)
{
	assert(i < versions_count());
	return (struct version){rows[i].library, rows[i].version()};
}
