/*
 * The log: one line for each event, saying what, where and why. Level and sink are set in main
 * before the first thread starts, and the sink again when a daemon detaches from its terminal.
 * Thread-safe. The codec layer does not log: it returns errors.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_LEVEL_ERR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

enum log_sink { LOG_SINK_STDERR, LOG_SINK_SYSLOG };

void log_init(enum log_level level, enum log_sink sink);
enum log_level log_level(void);

__attribute__((format(printf, 1, 2))) void log_err(const char *fmt, ...);
__attribute__((format(printf, 1, 2))) void log_warn(const char *fmt, ...);
__attribute__((format(printf, 1, 2))) void log_info(const char *fmt, ...);
__attribute__((format(printf, 1, 2))) void log_debug(const char *fmt, ...);

/* Prints a line on standard error for the user who starts the program, before there is a log. */
__attribute__((format(printf, 1, 2))) void log_tell(const char *fmt, ...);

#endif
