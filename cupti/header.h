/*
 * header.h - the header of a timeline file: where its parts lie, and whose it is.
 */
#ifndef TURBO_TIMELINE_HEADER_H
#define TURBO_TIMELINE_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "cupti/record.h"
#include "cupti/recording.h"

/* As recording_read_environment(). */
void header_read_environment(void);
/* TMPDIR as it was then; "" when it was not set. */
const char *header_tmpdir(void);

/* Lays out a file with a ring of at least `ring_bytes`: tables that grow with it, all empty. file_bytes is
 * what it takes. `h` is all 0 before. */
void header_layout(struct timeline_header *h, uint64_t ring_bytes);
/* All that is known at the start. */
void header_fill(struct timeline_header *h, const struct recording_setup *setup);

uint64_t header_now(void); /* ns, CLOCK_REALTIME */

#endif
