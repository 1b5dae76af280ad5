/* learn_replay.c - see learn_replay.h. */
#include "learn_replay.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "fds.h"
#include "guard.h"
#include "learn_list.h"
#include "log.h"
#include "../memory.h"
#include "node.h"
#include "read.h"
#include "stats.h"
#include "../sys.h"
#include "thread.h"

#define SAMPLES 16u

/* Written by the constructor and the first thread, before the others are started. */
static char *text;
static size_t size, room;
static uint64_t what, budget;
static struct read_where anywhere = {READ_NO_DEVICE, false, INT64_MAX};
static uint32_t record[LEARN_FILES]; /* offsets in `text` */
static uint32_t records;

static _Atomic uint32_t next;    /* record to be taken; relaxed */
static _Atomic uint64_t bytes;   /* asked for; relaxed */
static _Atomic bool stopped;     /* relaxed */
static _Atomic uint32_t threads; /* the last one lets the list go; acquire and release */
static int held;                 /* see node.h */

static bool open_record(uint32_t i, struct learn_record *r, struct read_file *f)
{
	size_t at = record[i];

	return learn_list_next(text, size, &at, r) && read_open(AT_FDCWD, r->path, &anywhere, f);
}

static void read_record(uint32_t i)
{
	struct learn_range all = {0, 0};
	struct learn_record r;
	struct read_file f;

	if (!open_record(i, &r, &f))
		return;
	all.to = f.size;
	for (unsigned n = 0; n < (r.ranges ? r.ranges : 1); n++) {
		const struct learn_range *range = r.ranges ? &r.range[n] : &all;
		uint64_t to = range->to < f.size ? range->to : f.size;
		if (range->from >= to)
			break;
		if (atomic_fetch_add_explicit(&bytes, to - range->from, memory_order_relaxed) > budget) {
			atomic_store_explicit(&stopped, true, memory_order_relaxed);
			break;
		}
		read_ahead(&f, range->from, to);
		stats_add(STATS_FILES_START_BYTES, to - range->from);
	}
	stats_add(STATS_FILES_START, 1);
	read_close(&f);
}

static void leave(void)
{
	if (atomic_fetch_sub_explicit(&threads, 1, memory_order_acq_rel) > 1)
		return;
	node_leave(held);
	munmap(text, room);
}

static void *reader(void *arg)
{
	uint32_t i;

	(void)arg;
	guard_enter();
	while (!atomic_load_explicit(&stopped, memory_order_relaxed) &&
		   (i = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed)) < records)
		read_record(i);
	leave();
	return NULL;
}

/* Most of some of them are in memory: there is nothing to gain. */
static bool is_warm(void)
{
	unsigned seen = 0, resident = 0;
	uint32_t step = records / SAMPLES + 1;

	for (uint32_t i = step / 2; i < records; i += step) {
		struct learn_record r;
		struct read_file f;
		if (!open_record(i, &r, &f))
			continue;
		seen++;
		resident += read_is_resident(&f, r.ranges ? r.range[0].from : 0) == 1;
		read_close(&f);
	}
	return resident * 8 >= seen * 7;
}

static bool may_read(void)
{
	struct memory memory;
	size_t at = learn_list_begin(text, size), before;
	struct learn_record r;

	if (!fds_own() || !memory_look("", &memory) || (budget = memory_budget(&memory)) == 0)
		return false;
	for (before = at; records < LEARN_FILES && learn_list_next(text, size, &at, &r); before = at)
		record[records++] = (uint32_t)before;
	if (records == 0 || is_warm() || !read_leases())
		return false;
	held = node_take(what);
	return held != NODE_TAKEN;
}

static void *first(void *arg)
{
	guard_enter();
	held = NODE_TAKEN;
	if (!may_read()) {
		leave();
		return NULL;
	}
	log_debug("files: %u files of the last start are read ahead", records);
	for (unsigned i = 1; i < LEARN_READERS; i++) {
		atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
		if (!thread_start("turbo-start", reader, NULL))
			atomic_fetch_sub_explicit(&threads, 1, memory_order_relaxed);
	}
	return reader(arg);
}

void learn_replay(char *list, size_t list_size, size_t list_room, uint64_t number, bool network)
{
	text = list;
	size = list_size;
	room = list_room;
	what = number;
	anywhere.network = network;
	madvise(list, list_room, MADV_DONTFORK);
	atomic_store_explicit(&threads, 1, memory_order_relaxed);
	if (!thread_start("turbo-start", first, NULL))
		leave();
}

void learn_replay_stop(void)
{
	atomic_store_explicit(&stopped, true, memory_order_relaxed);
}
