/* trace_out.h - the file of TURBO_DEVMEM_TRACE. The caller holds the recorder's lock. */
#ifndef TURBO_DEVMEM_TRACE_OUT_H
#define TURBO_DEVMEM_TRACE_OUT_H

#include <stdbool.h>

/* Constructor: the file's name, made absolute, because programs change their folder. False, and
 * said: it is too long. */
bool trace_out_start(const char *path);

/* Appends a line, opening the file at the first. False, and said: it cannot be written, and
 * what was written ends with a whole line. */
bool trace_out_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool trace_out_flush(void);

#endif
