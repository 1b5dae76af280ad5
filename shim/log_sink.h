/* log_sink.h - where finished lines go: the log itself and the exit summary. */
#ifndef TURBO_LOG_SINK_H
#define TURBO_LOG_SINK_H

#include <stddef.h>

/* Writes `len` bytes of whole lines at once to TURBO_LOG_FILE or stderr, whatever
 * the level. Keeps errno; loses the text rather than block. */
void log_emit(const char *text, size_t len);

#endif
