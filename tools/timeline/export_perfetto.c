/*
 * export_perfetto.c - Perfetto's trace format: track descriptors, interned names, slices and counters.
 *
 * A packet is complete in itself, so ranks follow one another in one file; each has a packet sequence, a range of
 * track numbers and a root track of its own. Timestamps are CLOCK_REALTIME, said to be the boot clock's too, which
 * is the one that viewers draw. Numbers of fields are those of perfetto_trace.proto.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/timeline/export_perfetto.h"

enum { TRACE_PACKET = 1 };
enum {
	PACKET_CLOCK_SNAPSHOT = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_SEQUENCE_FLAGS = 13,
	PACKET_TRACK_DESCRIPTOR = 60
};
enum { FLAG_STATE_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
enum { CLOCKS_CLOCK = 1, CLOCK_ID = 1, CLOCK_TIMESTAMP = 2, CLOCK_IS_REALTIME = 1, CLOCK_IS_BOOTTIME = 6 };
enum {
	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
	TRACK_CHILD_ORDER = 11,
	TRACK_RANK = 12
};
enum { COUNTER_UNIT = 3, UNIT_BYTES = 3, ORDER_EXPLICIT = 3 };
enum {
	EVENT_CATEGORY_IID = 3,
	EVENT_TYPE = 9,
	EVENT_NAME_IID = 10,
	EVENT_TRACK = 11,
	EVENT_NAME = 23,
	EVENT_COUNTER_VALUE = 30,
	EVENT_FLOW = 47,
	EVENT_FLOW_END = 48
};
enum { TYPE_SLICE_BEGIN = 1, TYPE_SLICE_END = 2, TYPE_COUNTER = 4 };
enum {
	INTERNED_CATEGORIES = 1,
	INTERNED_NAMES = 2,
	INTERNED_DEBUG_NAMES = 3,
	INTERNED_IID = 1,
	INTERNED_NAME = 2
};

#define FLOWS (1u << 18)      /* calls whose work may not have begun yet */
#define COUNTERS_MAX 256      /* more series of samples are left out */
#define UUID_ROOT 0xffffffffu /* in the lower half of a track's number; rows have their id + 1 */
#define UUID_GPU 0x80000000u
#define UUID_COUNTER 0x40000000u

struct perfetto {
	struct trace *trace;
	const struct export_request *request;
	struct output *out;
	struct tracks tracks;
	struct protobuf packet;
	bool *named; /* by entry: its name is interned */
	uint32_t *called;
	uint64_t gpus; /* bit by device: it has a track */
	struct {
		uint32_t entry, lane;
	} counter[COUNTERS_MAX];
	uint32_t counters;
	uint64_t written;
	size_t begun;
};

static uint64_t uuid(const struct perfetto *p, uint32_t number)
{
	return ((uint64_t)p->request->index + 1) << 32 | number;
}

/* ---- packets ---- */

static struct protobuf *begin_packet(struct perfetto *p, uint64_t time)
{
	p->packet.used = 0;
	p->begun = protobuf_begin(&p->packet, TRACE_PACKET);
	if (time)
		protobuf_uint(&p->packet, PACKET_TIMESTAMP, time);
	protobuf_uint(&p->packet, PACKET_SEQUENCE, p->request->index + 1);
	return &p->packet;
}

static void end_packet(struct perfetto *p)
{
	protobuf_end(&p->packet, p->begun);
	if (p->packet.failed)
		output_fail(p->out, ENOMEM);
	else
		output_bytes(p->out, p->packet.byte, p->packet.used);
}

static void put_interned(struct protobuf *b, unsigned table, uint64_t number, const char *name)
{
	size_t one = protobuf_begin(b, table);
	protobuf_uint(b, INTERNED_IID, number);
	protobuf_text(b, INTERNED_NAME, name);
	protobuf_end(b, one);
}

/* The first packet of a sequence: clocks, categories and names of arguments. A category's number is its kind + 1, and
 * + TIMELINE_KINDS for runtime calls. */
static void put_first_packet(struct perfetto *p)
{
	uint64_t start = trace_header(p->trace)->start_ns;
	struct protobuf *b = begin_packet(p, 0);
	protobuf_uint(b, PACKET_SEQUENCE_FLAGS, FLAG_STATE_CLEARED);
	size_t snapshot = protobuf_begin(b, PACKET_CLOCK_SNAPSHOT);
	static const unsigned id[] = {CLOCK_IS_BOOTTIME, CLOCK_IS_REALTIME};
	for (size_t i = 0; i < 2; i++) {
		size_t clock = protobuf_begin(b, CLOCKS_CLOCK);
		protobuf_uint(b, CLOCK_ID, id[i]);
		protobuf_uint(b, CLOCK_TIMESTAMP, start);
		protobuf_end(b, clock);
	}
	protobuf_end(b, snapshot);
	size_t interned = protobuf_begin(b, PACKET_INTERNED);
	for (unsigned kind = TIMELINE_KERNEL; kind < TIMELINE_KINDS; kind++) {
		struct timeline_entry entry = {.kind = kind};
		struct trace_event e = {.kind = (enum timeline_kind)kind, .entry = &entry};
		put_interned(b, INTERNED_CATEGORIES, kind + 1, export_category(&e));
	}
	put_interned(b, INTERNED_CATEGORIES, TIMELINE_API + 1 + TIMELINE_KINDS, "cuda_runtime");
	for (unsigned i = 1; i < ARGS; i++)
		put_interned(b, INTERNED_DEBUG_NAMES, i, perfetto_argument[i]);
	protobuf_end(b, interned);
	end_packet(p);
}

/* ---- tracks ---- */

enum track_kind { PLAIN_TRACK, COUNTER_TRACK, COUNTER_TRACK_OF_BYTES };

static void put_track(struct perfetto *p, uint64_t number, uint64_t parent, const char *name, uint32_t rank,
					  enum track_kind kind)
{
	struct protobuf *b = begin_packet(p, 0);
	size_t track = protobuf_begin(b, PACKET_TRACK_DESCRIPTOR);
	protobuf_uint(b, TRACK_UUID, number);
	if (parent)
		protobuf_uint(b, TRACK_PARENT, parent);
	protobuf_text(b, TRACK_NAME, name);
	protobuf_uint(b, TRACK_RANK, rank & 0x7fffffff);
	protobuf_uint(b, TRACK_CHILD_ORDER, ORDER_EXPLICIT);
	if (kind != PLAIN_TRACK) {
		size_t counter = protobuf_begin(b, TRACK_COUNTER);
		if (kind == COUNTER_TRACK_OF_BYTES)
			protobuf_uint(b, COUNTER_UNIT, UNIT_BYTES);
		protobuf_end(b, counter);
	}
	protobuf_end(b, track);
	end_packet(p);
}

static void put_root(struct perfetto *p)
{
	const struct timeline_header *h = trace_header(p->trace);
	char text[512], rank[32] = "";
	if (h->rank >= 0)
		snprintf(rank, sizeof(rank), "rank %d: ", h->rank);
	snprintf(text, sizeof(text), "%s%s (%s, pid %u)", rank, h->command, h->host, h->pid);
	put_track(p, uuid(p, UUID_ROOT), 0, text, p->request->index, PLAIN_TRACK);
}

static uint64_t gpu_track(struct perfetto *p, uint32_t device)
{
	const struct timeline_header *h = trace_header(p->trace);
	uint64_t number = uuid(p, UUID_GPU | device % 64);
	char text[128];
	if (p->gpus & 1ull << device % 64)
		return number;
	p->gpus |= 1ull << device % 64;
	snprintf(text, sizeof(text), "GPU %u %s", device, device < h->device_count ? h->device[device].name : "");
	put_track(p, number, uuid(p, UUID_ROOT), text, device % 64, PLAIN_TRACK);
	return number;
}

static uint64_t track_of(struct perfetto *p, const struct trace_event *e)
{
	bool fresh;
	char name[256];
	const struct track *k = tracks_place(&p->tracks, e, e->start, e->start + e->duration, &fresh);
	if (!k) {
		output_fail(p->out, ENOMEM);
		return 0;
	}
	uint64_t number = uuid(p, k->id + 1);
	if (fresh) {
		bool gpu = track_on_gpu(&p->tracks, k);
		uint64_t parent = gpu ? gpu_track(p, e->lane->device) : uuid(p, UUID_ROOT);
		put_track(p, number, parent, track_name(&p->tracks, k, name, sizeof(name)), 100 + k->lane,
				  PLAIN_TRACK);
	}
	return number;
}

static uint64_t counter_track(struct perfetto *p, const struct trace_event *e)
{
	uint32_t i = 0;
	while (i < p->counters && (p->counter[i].entry != e->entry_index || p->counter[i].lane != e->lane_index))
		i++;
	if (i == COUNTERS_MAX)
		return 0;
	uint64_t number = uuid(p, UUID_COUNTER | i);
	if (i == p->counters) {
		bool gpu = e->lane->kind == TIMELINE_LANE_DEVICE || e->lane->kind == TIMELINE_LANE_STREAM;
		uint64_t parent = gpu ? gpu_track(p, e->lane->device) : uuid(p, UUID_ROOT);
		p->counter[i].entry = e->entry_index;
		p->counter[i].lane = e->lane_index;
		p->counters++;
		put_track(p, number, parent, *e->name ? e->name : "counter", 50 + i,
				  strstr(e->name, "memory") != NULL);
	}
	return number;
}

/* ---- events ---- */

static void put_name(struct perfetto *p, struct protobuf *b, const struct trace_event *e)
{
	char buf[128];
	/* Names that are the record's own are not interned. */
	if (e->kind == TIMELINE_GRAPH || e->entry_index == 0) {
		protobuf_text(b, EVENT_NAME, export_name(p->trace, e, buf, sizeof(buf)));
		return;
	}
	protobuf_uint(b, EVENT_NAME_IID, e->entry_index);
}

/* In the packet that uses it first. */
static void intern_name(struct perfetto *p, struct protobuf *b, const struct trace_event *e)
{
	char buf[128];
	if (e->kind == TIMELINE_GRAPH || e->entry_index == 0 || p->named[e->entry_index])
		return;
	p->named[e->entry_index] = true;
	size_t interned = protobuf_begin(b, PACKET_INTERNED);
	put_interned(b, INTERNED_NAMES, e->entry_index, export_name(p->trace, e, buf, sizeof(buf)));
	protobuf_end(b, interned);
}

/* An arrow from a call to what it started, as in Kineto's. */
static void put_flow(struct perfetto *p, struct protobuf *b, const struct trace_event *e)
{
	uint32_t *slot = &p->called[e->correlation % FLOWS];
	if (!e->correlation)
		return;
	if (e->kind == TIMELINE_API && export_starts_work(e->name))
		*slot = e->correlation;
	else if (!export_on_gpu(e) || *slot != e->correlation)
		return;
	protobuf_fixed64(b, EVENT_FLOW, uuid(p, e->correlation));
}

static void put_slice(struct perfetto *p, const struct trace_event *e)
{
	uint64_t track = track_of(p, e);
	bool runtime = e->kind == TIMELINE_API && e->entry->api.runtime;
	struct protobuf *b = begin_packet(p, e->start);
	protobuf_uint(b, PACKET_SEQUENCE_FLAGS, FLAG_NEEDS_STATE);
	intern_name(p, b, e);
	size_t event = protobuf_begin(b, PACKET_TRACK_EVENT);
	protobuf_uint(b, EVENT_TYPE, TYPE_SLICE_BEGIN);
	protobuf_uint(b, EVENT_TRACK, track);
	protobuf_uint(b, EVENT_CATEGORY_IID, e->kind + 1u + (runtime ? TIMELINE_KINDS : 0));
	put_name(p, b, e);
	put_flow(p, b, e);
	perfetto_put_arguments(p->trace, b, e);
	protobuf_end(b, event);
	end_packet(p);

	b = begin_packet(p, e->start + e->duration);
	event = protobuf_begin(b, PACKET_TRACK_EVENT);
	protobuf_uint(b, EVENT_TYPE, TYPE_SLICE_END);
	protobuf_uint(b, EVENT_TRACK, track);
	protobuf_end(b, event);
	end_packet(p);
	p->written++;
}

static void put_sample(struct perfetto *p, const struct trace_event *e)
{
	uint64_t track = counter_track(p, e);
	if (!track)
		return;
	struct protobuf *b = begin_packet(p, e->start);
	size_t event = protobuf_begin(b, PACKET_TRACK_EVENT);
	protobuf_uint(b, EVENT_TYPE, TYPE_COUNTER);
	protobuf_uint(b, EVENT_TRACK, track);
	protobuf_uint(b, EVENT_COUNTER_VALUE, e->value);
	protobuf_end(b, event);
	end_packet(p);
	p->written++;
}

static void put_event(void *arg, const struct trace_event *e)
{
	(e->kind == TIMELINE_COUNTER ? put_sample : put_slice)(arg, e);
}

uint64_t export_perfetto(struct trace *t, const struct export_request *q, struct output *o)
{
	struct perfetto p = {.trace = t, .request = q, .out = o};
	p.named = calloc(trace_entries(t), sizeof(*p.named));
	p.called = calloc(FLOWS, sizeof(*p.called));
	if (tracks_open(&p.tracks, t) && p.named && p.called) {
		put_first_packet(&p);
		put_root(&p);
		export_each(t, q, o, put_event, &p);
	} else {
		output_fail(o, ENOMEM);
	}
	tracks_close(&p.tracks);
	protobuf_free(&p.packet);
	free(p.named);
	free(p.called);
	return p.written;
}
