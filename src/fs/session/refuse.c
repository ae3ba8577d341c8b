#include "fs/session/refuse.h"

#include "base/log.h"
#include "fs/options.h"

#include <errno.h>

int refuse_error(const char *what, const char *where, int rc)
{
	log_tell("%s '%s': %s", what, where, options_path_error(-rc));
	return rc;
}

int refuse_busy(const char *what, const char *where, const char *why)
{
	log_tell("%s '%s': %s", what, where, why);
	return -EBUSY;
}
