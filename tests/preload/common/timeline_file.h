/*
 * timeline_file.h - what is in the timeline of a process, for programs that look at their own. They link the reader
 * (`LINK: timeline`); the file is in TURBO_TIMELINE_DIR.
 */
#ifndef TURBO_TEST_TIMELINE_FILE_H
#define TURBO_TEST_TIMELINE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "cupti/record.h"

struct timeline_sum {
	uint64_t kernels, copies, memsets, gaps, events;
	uint64_t longest_ns;  /* of the kernels */
	uint64_t first, last; /* start of the first, end of the last kernel; now: CLOCK_REALTIME */
	uint64_t now;
	uint64_t count[TIMELINE_COUNTS];
};

/* All files of the process added up; false: there is none, or one that cannot be read, which is printed. */
bool timeline_sum(struct timeline_sum *s, int pid);
void timeline_remove(int pid);

#endif
