/*
 * recording.h - the file of a recording, written: records, what they refer to, clocks and counts.
 *
 * At most one file is open in a process. Writers are the thread that decodes CUPTI's buffers and the
 * recorder's helper; no launch waits for either. A writer brackets what it puts:
 *
 *     if (!recording_begin())
 *         ... nothing is recorded; recording_count(TIMELINE_COUNT_DROPPED, n)
 *     record.entry = recording_entry(&entry, name);
 *     record.lane = recording_lane(&lane, NULL);
 *     recording_put(&record);
 *     recording_end();
 *
 * Between the two no other call of this header is made than those marked "writer", nothing blocks, and no
 * CUPTI or driver call is made. A buffer's records go into one bracket. Nothing allocates after
 * recording_open(). errno is kept. What was put is in private memory until recording_save(), or until it fills
 * a chunk; a process killed at any moment leaves a file that is valid (record.h), without what was not saved.
 * Whatever happens to the file meanwhile, the worst is that the recording ends.
 */
#ifndef TURBO_RECORDING_H
#define TURBO_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti/record.h"

struct recording_setup {
	enum timeline_mode mode;
	bool on_demand; /* see record.h */
	/* Where, made if only its last part is missing; "" or NULL: the working directory, else TMPDIR, else
	 * /tmp. */
	const char *dir;
	uint64_t bytes;       /* of the ring; rounded up to chunks */
	uint64_t least_bytes; /* where there is no room for that, half as often as need be, down to this */
	uint32_t cupti_version, driver_version;
	const struct timeline_device *device; /* copied; device_count of them */
	uint32_t device_count;
};

/* RANK, WORLD_SIZE and LOCAL_RANK as they are now, for files opened from here on. On a thread of the
 * program's, as in policy's cuda_ready: the environment is the program's. */
void recording_read_environment(void);

/*
 * Makes the file. On failure false, and `why` says what is wrong, for the log. No two of open and close at
 * once. May take seconds on a file system that cannot reserve space.
 */
bool recording_open(const struct recording_setup *setup, char *why, size_t why_size);
/* Ends the recording in good order. Waits for a writer, a second at most. Nothing when none is open. */
void recording_close(void);
/* Brings the file up to date with what was put. The helper's, often enough that what a killed process loses is
 * bounded. A file that can no longer be written, or is not what it was, ends the recording. Any thread, outside
 * of a bracket. */
void recording_save(void);
/* What ended the last recording before its time, in `text`; NULL: nothing. */
const char *recording_trouble(char *text, size_t size);
/* Where the last file that was opened is; "" before. Valid until the next recording_open(). */
const char *recording_path(void);
/* Open, and not given up. Any thread; relaxed. */
bool recording_is_open(void);
/* Forked child: the parent's file is not its own. Async-signal-safe. */
void recording_fork_child(void);

/* Any thread, whenever: adds to a count of the file. Shown in the file by the next save.
 * Counted while none is open, it goes into the next file. RECORDS, OVERWRITTEN and TABLE_FULL are counted
 * here, not by callers. */
void recording_count(enum timeline_count which, uint64_t n);

/* Enters as the only writer. false: no file, a forked child, a signal handler of the writer itself, or
 * another writer did not leave within a second. One that is gone with its thread is not waited for. */
bool recording_begin(void);
void recording_end(void); /* writer */

/* writer. Index of the entry for `what` (whose `name` is ignored and unused members are 0), added when it is
 * new. `name` is copied, whole up to 64 KiB. When a table is full: the same without details, else one that
 * says so. */
uint32_t recording_entry(const struct timeline_entry *what, const char *name);
/* writer. Index of the lane, `name` (may be NULL) as it was when it was added. When the table is full: 0. */
uint16_t recording_lane(const struct timeline_lane *where, const char *name);
/* writer. Indices as the two above gave them. */
void recording_put(const struct timeline_record *record);
/* writer. A reading of the clocks; `reserved` is 0. */
void recording_clock(const struct timeline_clock *clock);

#endif
