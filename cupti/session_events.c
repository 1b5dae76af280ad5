/* session_events.c - see session_events.h. */
#include "session_events.h"

#include "events.h"
#include "nccl_comm.h"
#include "recording.h"

#define BATCH 64

static const char *const names[EVENT_COUNT] = {
#define EVENT(id, name, unit, text) [EVENT_##id] = name,
#include "events.def"
#undef EVENT
};

static void put(const struct event *e)
{
	bool collective = e->id == EVENT_COLLECTIVE;
	struct timeline_entry entry = {.kind = collective ? TIMELINE_COLLECTIVE : TIMELINE_EVENT};
	struct timeline_lane lane = {.kind = TIMELINE_LANE_THREAD, .thread = e->thread};
	struct timeline_record r = {
		.kind = (uint8_t)entry.kind,
		.start = e->start,
		.value = e->value,
		.correlation = collective ? e->sequence : 0,
		.flags = e->failed ? TIMELINE_FLAG_FAILED : 0,
	};
	uint64_t duration = e->duration;
	if (e->id >= EVENT_COUNT)
		return;
	if (duration > UINT32_MAX) {
		duration /= 1000;
		r.flags |= TIMELINE_FLAG_US;
	}
	r.duration = duration > UINT32_MAX ? UINT32_MAX : (uint32_t)duration;
	if (collective) {
		entry.collective.communicator = e->detail;
		entry.collective.type = e->type;
		nccl_comm_ranks(e->detail, &entry.collective.rank, &entry.collective.ranks);
	} else {
		entry.event.id = e->id;
		entry.event.device = e->detail;
	}
	r.entry = recording_entry(&entry, e->name ? e->name : names[e->id]);
	r.lane = recording_lane(&lane, NULL);
	recording_put(&r);
}

void session_drain_events(void)
{
	struct event batch[BATCH];
	unsigned n;
	uint64_t lost = events_lost();
	if (lost)
		recording_count(TIMELINE_COUNT_EVENTS_LOST, lost);
	while ((n = events_drain(batch, BATCH)) > 0) {
		if (!recording_begin()) {
			recording_count(TIMELINE_COUNT_EVENTS_LOST, n);
			continue;
		}
		for (unsigned i = 0; i < n; i++)
			put(&batch[i]);
		recording_end();
	}
}
