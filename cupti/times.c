/* times.c - see times.h. */
#include "times.h"

#include <stdatomic.h>
#include <time.h>

#include "bind.h"

#define SECOND 1000000000ull
#define TRIES 5
/* Ticks of a foreign clock in a second, at least and at most. */
#define HZ_LEAST 1000000ull
#define HZ_MOST 20000000000ull

/* The map, read without a lock: `version` is odd while it is written, and looked at before and after. */
static struct {
	_Atomic uint32_t version;
	_Atomic bool identity;
	_Atomic uint64_t from, real, rate;
} map = {.identity = true};

/* The helper's: the first look at a foreign clock. */
static struct timeline_clock first;

static uint64_t clock_read(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

uint64_t times_now(void)
{
	return clock_read(CLOCK_REALTIME);
}

uint64_t times_steady(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

struct times_map times_map(void)
{
	struct times_map m;
	for (;;) {
		uint32_t version = atomic_load_explicit(&map.version, memory_order_acquire);
		m.identity = atomic_load_explicit(&map.identity, memory_order_relaxed);
		m.from = atomic_load_explicit(&map.from, memory_order_relaxed);
		m.real = atomic_load_explicit(&map.real, memory_order_relaxed);
		m.rate = atomic_load_explicit(&map.rate, memory_order_relaxed);
		atomic_thread_fence(memory_order_acquire); /* the fields before the second look */
		if (!(version & 1) && atomic_load_explicit(&map.version, memory_order_relaxed) == version)
			return m;
	}
}

static void set_map(struct times_map m)
{
	uint32_t version = atomic_load_explicit(&map.version, memory_order_relaxed);
	atomic_store_explicit(&map.version, version + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release); /* odd before any field changes */
	atomic_store_explicit(&map.identity, m.identity, memory_order_relaxed);
	atomic_store_explicit(&map.from, m.from, memory_order_relaxed);
	atomic_store_explicit(&map.real, m.real, memory_order_relaxed);
	atomic_store_explicit(&map.rate, m.rate, memory_order_relaxed);
	atomic_store_explicit(&map.version, version + 2, memory_order_release);
}

/* CUPTI's time between two readings of CLOCK_REALTIME; of some tries the one that took least. */
static bool read_clocks(struct timeline_clock *best)
{
	uint64_t least = UINT64_MAX;
	for (int i = 0; i < TRIES; i++) {
		struct timeline_clock c = {.reserved = 0};
		uint64_t before = times_now(), after;
		if (cupti.GetTimestamp(&c.cupti) != CUPTI_OK)
			return false;
		after = times_now();
		c.monotonic_raw = clock_read(CLOCK_MONOTONIC_RAW);
		c.realtime = before + (after - before) / 2;
		if (after >= before && after - before < least) {
			least = after - before;
			*best = c;
		}
	}
	return least != UINT64_MAX;
}

/* Foreign: the rate since the first look. */
static enum times follow(struct timeline_clock *c)
{
	uint64_t real = c->monotonic_raw - first.monotonic_raw, ticks = c->cupti - first.cupti;
	if (!first.realtime) {
		first = *c;
		return TIMES_UNKNOWN;
	}
	if (real < TIMES_APART_NS)
		return TIMES_UNKNOWN;
	double hz = (double)ticks / (double)real * (double)SECOND;
	if (c->cupti <= first.cupti || hz < HZ_LEAST || hz > HZ_MOST)
		return TIMES_USELESS;
	set_map((struct times_map){
		.from = c->cupti,
		.real = c->realtime,
		.rate = (uint64_t)((double)real / (double)ticks * 4294967296.0),
	});
	c->cupti = c->realtime;
	return TIMES_FOREIGN;
}

enum times times_look(struct timeline_clock *clock)
{
	*clock = (struct timeline_clock){.cupti = 0};
	if (!read_clocks(clock))
		return TIMES_USELESS;
	uint64_t apart =
		clock->cupti > clock->realtime ? clock->cupti - clock->realtime : clock->realtime - clock->cupti;
	if (apart < SECOND) {
		first = (struct timeline_clock){.cupti = 0};
		set_map((struct times_map){.identity = true});
		return TIMES_REAL;
	}
	return follow(clock);
}

void times_forget(void)
{
	first = (struct timeline_clock){.cupti = 0};
}
