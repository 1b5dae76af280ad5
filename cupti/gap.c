/* gap.c - see gap.h. */
#include "gap.h"

#include <stdatomic.h>

#include "recording.h"
#include "times.h"

static const char *const reasons[GAP_COUNT] = {
	[GAP_CLIENT] = "another CUPTI client",
	[GAP_LOST] = "capture lost",
	[GAP_SAMPLED] = "between samples",
};

/* When each began, 0: none. Exchanged: of two that end it, one writes. */
static _Atomic uint64_t since[GAP_COUNT];

static void write_gap(enum gap reason, uint64_t from, uint64_t to)
{
	struct timeline_entry e = {.kind = TIMELINE_GAP};
	uint64_t ns = to > from ? to - from : 0;
	struct timeline_record r = {.kind = TIMELINE_GAP, .start = from, .value = ns};
	if (ns > UINT32_MAX) {
		r.flags = TIMELINE_FLAG_US;
		ns /= 1000;
	}
	r.duration = ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
	if (!recording_begin())
		return;
	r.entry = recording_entry(&e, reasons[reason]);
	recording_put(&r); /* lane 0: the process */
	recording_end();
}

void gap_begin_at(enum gap reason, uint64_t from)
{
	uint64_t none = 0;
	if (atomic_compare_exchange_strong(&since[reason], &none, from))
		write_gap(reason, from, from);
}

void gap_begin(enum gap reason)
{
	gap_begin_at(reason, times_now());
}

void gap_end(enum gap reason)
{
	uint64_t from = atomic_exchange(&since[reason], 0);
	if (from)
		write_gap(reason, from, times_now());
}

void gap_end_all(void)
{
	for (int i = 0; i < GAP_COUNT; i++)
		gap_end((enum gap)i);
}
