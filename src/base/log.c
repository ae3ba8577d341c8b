#include "base/log.h"
#include "base/utf8.h"

#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <syslog.h>

static _Atomic enum log_level max_level = LOG_LEVEL_INFO;
static _Atomic enum log_sink out_sink = LOG_SINK_STDERR;

static const struct {
	const char *word;
	int priority;
} levels[] = {
	[LOG_LEVEL_ERR] = {"error", LOG_ERR},
	[LOG_LEVEL_WARN] = {"warning", LOG_WARNING},
	[LOG_LEVEL_INFO] = {"info", LOG_INFO},
	[LOG_LEVEL_DEBUG] = {"debug", LOG_DEBUG},
};

void log_init(enum log_level level, enum log_sink sink)
{
	max_level = level;
	if (sink == LOG_SINK_SYSLOG) /* before the switch: other threads may be logging */
		openlog("cframefs", LOG_PID, LOG_DAEMON);
	out_sink = sink;
}

enum log_level log_level(void)
{
	return max_level;
}

/* Room for a path, and what is wrong with it. */
#define LINE_MAX_BYTES (PATH_MAX + 512)

static void emit(enum log_level level, const char *fmt, va_list ap)
{
	char line[LINE_MAX_BYTES];

	if (level > max_level)
		return;
	vsnprintf(line, sizeof line, fmt, ap);
	/* File names are untrusted. */
	utf8_make_printable(line);
	if (out_sink == LOG_SINK_SYSLOG)
		syslog(levels[level].priority, "%s: %s", levels[level].word, line);
	else
		fprintf(stderr, "cframefs: %s: %s\n", levels[level].word, line);
}

void log_tell(const char *fmt, ...)
{
	char line[LINE_MAX_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	utf8_make_printable(line);
	fprintf(stderr, "cframefs: %s\n", line);
}

#define LOG_FUNCTION(name, level)                                              \
	void name(const char *fmt, ...)                                        \
	{                                                                      \
		va_list ap;                                                    \
		va_start(ap, fmt);                                             \
		emit(level, fmt, ap);                                          \
		va_end(ap);                                                    \
	}

LOG_FUNCTION(log_err, LOG_LEVEL_ERR)
LOG_FUNCTION(log_warn, LOG_LEVEL_WARN)
LOG_FUNCTION(log_info, LOG_LEVEL_INFO)
LOG_FUNCTION(log_debug, LOG_LEVEL_DEBUG)
