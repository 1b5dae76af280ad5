/*
 * counters.h - libturbo's counters of this process, read from its stats file as a tool would.
 */
#ifndef TURBO_TEST_COUNTERS_H
#define TURBO_TEST_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

/* True when libturbo.so is in the preload list of this process. */
bool counters_preloaded(void);
/* Maps the stats file read-only; call after cuInit. False when there is none. */
bool counters_open(void);
/* Sum over all lanes of the cell of that name, e.g. "copy.h2d.staged" or a symbol. 0 when the
 * file is not open; ends the process with status 1 when it has no such name. */
uint64_t counter(const char *name);

#endif
