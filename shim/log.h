/*
 * log.h - what libturbo says, on stderr or TURBO_LOG_FILE, never on stdout.
 *
 * One write(2) a line, "libturbo: LEVEL: text", no allocation, errno kept.
 * Nothing here may be called on a hot path; log_once keeps a failing site from
 * filling the log.
 */
#ifndef TURBO_LOG_H
#define TURBO_LOG_H

#include <stdbool.h>

enum log_level { LOG_NONE, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Level below which lines are dropped; set by log_start(). */
extern int log_level;

/* Read TURBO_LOG and TURBO_LOG_FILE (options must be parsed). An unwritable file is
 * said once on stderr, and stderr is used. */
void log_start(void);

/* Whether TURBO_LOG_FILE, if named, can be written; if not, it is said on stderr here rather
 * than in the middle of the job. Constructor only. */
bool log_file_usable(void);

void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_at(level, ...)                   \
	do {                                     \
		if ((int)(level) <= log_level)       \
			log_write((level), __VA_ARGS__); \
	} while (0)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

/* The end of a noun behind the number n: "1 block", "2 blocks". */
#define PLURAL(n) ((n) == 1 ? "" : "s")

/* At most one line a call site and process. */
#define log_once(level, ...)                                   \
	do {                                                       \
		static int said_;                                      \
		if (!__atomic_exchange_n(&said_, 1, __ATOMIC_RELAXED)) \
			log_at(level, __VA_ARGS__);                        \
	} while (0)

#endif
