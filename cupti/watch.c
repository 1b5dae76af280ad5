/* watch.c - see watch.h. */
#include "watch.h"

#include <string.h>

#include "buffers.h"
#include "capture.h"
#include "client.h"
#include "decode.h"
#include "gap.h"
#include "hooks.h"
#include "log.h"
#include "recording.h"
#include "stats.h"
#include "times.h"

#define LOST_NS 10000000000ull
#define CELLS 64

static uint16_t cells[CELLS]; /* of the calls that launch kernels */
static unsigned cell_count;
static uint64_t launches;          /* at the last look */
static uint64_t since_moved;       /* launches since something was seen of CUPTI */
static uint64_t moved, moved_real; /* when that was: CLOCK_MONOTONIC, CLOCK_REALTIME */
static uint64_t records, filled;

static void find_cells(void)
{
	static const char *const name[] = {"cuLaunchKernel", "cuLaunchCooperativeKernel", "cuGraphLaunch"};
	for (unsigned id = 0; id < HOOK_COUNT && !(cell_count && id == 0); id++)
		for (unsigned i = 0; i < sizeof(name) / sizeof(name[0]); i++)
			if (hook_table[id].how != HOOK_HOW_PASS &&
				strncmp(hook_table[id].name, name[i], strlen(name[i])) == 0 && cell_count < CELLS)
				cells[cell_count++] = (uint16_t)id;
}

static uint64_t count_launches(void)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < cell_count; i++)
		sum += stats_cell_sum(cells[i]);
	return sum;
}

static void note_moved(void)
{
	moved = times_steady();
	moved_real = times_now();
	since_moved = 0;
}

void watch_start(void)
{
	if (!cell_count)
		find_cells();
	launches = count_launches();
	records = decode_records();
	filled = 0;
	note_moved();
}

static uint64_t account(void)
{
	uint64_t now = count_launches(), more = now - launches;
	launches = now;
	if (client_state() == CLIENT_ON) {
		since_moved += more;
		recording_count(TIMELINE_COUNT_LAUNCHES, more);
	}
	return more;
}

void watch_tick(void)
{
	uint64_t more = account(), seen = decode_records(), bytes;
	if (client_state() != CLIENT_ON || seen != records || capture_live()) {
		if (seen != records)
			gap_end(GAP_LOST);
		records = seen;
		note_moved();
		return;
	}
	if (!more)
		return;
	/* A kernel that runs for long holds back the records of what was launched behind it, but not their bytes. */
	bytes = buffers_filled();
	if (bytes != filled) {
		filled = bytes;
		note_moved();
		return;
	}
	if (times_steady() - moved < LOST_NS || !since_moved)
		return;
	log_once(LOG_WARN,
			 "timeline: %llu launches in %u s and no record of CUPTI's: the capture is lost, perhaps to "
			 "another profiler",
			 (unsigned long long)since_moved, (unsigned)(LOST_NS / 1000000000u));
	gap_begin_at(GAP_LOST, moved_real);
	stats_add(STATS_TIMELINE_LOST, 1);
	note_moved();
}

void watch_stop(void)
{
	account();
}
