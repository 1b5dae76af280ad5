/*
 * export_perfetto_args.c - what an event of Perfetto's format says of itself, besides its name and times.
 */
#include <stdio.h>
#include <string.h>

#include "tools/timeline/export_perfetto.h"

enum { DEBUG_NAME_IID = 1, DEBUG_UINT = 3, DEBUG_DOUBLE = 5, DEBUG_TEXT = 6 };

const char *const perfetto_argument[ARGS] = {
	[ARG_CORRELATION] = "correlation",
	[ARG_GRID] = "grid",
	[ARG_BLOCK] = "block",
	[ARG_REGISTERS] = "registers per thread",
	[ARG_SHARED] = "shared memory",
	[ARG_OCCUPANCY] = "est. achieved occupancy %",
	[ARG_BYTES] = "bytes",
	[ARG_BANDWIDTH] = "memory bandwidth (GB/s)",
	[ARG_GRAPH] = "graph id",
	[ARG_NODE] = "graph node id",
	[ARG_VALUE] = "value",
	[ARG_SEQUENCE] = "sequence",
	[ARG_COMMUNICATOR] = "communicator",
	[ARG_RANKS] = "ranks",
	[ARG_FAILED] = "failed",
};

static void put_number(struct protobuf *b, enum argument a, uint64_t value)
{
	size_t one = protobuf_begin(b, PERFETTO_EVENT_DEBUG);
	protobuf_uint(b, DEBUG_NAME_IID, a);
	protobuf_uint(b, DEBUG_UINT, value);
	protobuf_end(b, one);
}

static void put_double(struct protobuf *b, enum argument a, double value)
{
	size_t one = protobuf_begin(b, PERFETTO_EVENT_DEBUG);
	protobuf_uint(b, DEBUG_NAME_IID, a);
	protobuf_double(b, DEBUG_DOUBLE, value);
	protobuf_end(b, one);
}

static void put_three(struct protobuf *b, enum argument a, const uint32_t n[3])
{
	char text[48];
	snprintf(text, sizeof(text), "[%u, %u, %u]", n[0], n[1], n[2]);
	size_t one = protobuf_begin(b, PERFETTO_EVENT_DEBUG);
	protobuf_uint(b, DEBUG_NAME_IID, a);
	protobuf_text(b, DEBUG_TEXT, text);
	protobuf_end(b, one);
}

static void put_kernel(const struct trace *t, struct protobuf *b, const struct trace_event *e)
{
	const struct timeline_header *h = trace_header(t);
	const struct timeline_entry *n = e->entry;
	uint32_t device = e->lane->device;
	put_three(b, ARG_GRID, n->kernel.grid);
	put_three(b, ARG_BLOCK, n->kernel.block);
	put_number(b, ARG_REGISTERS, n->kernel.registers);
	put_number(b, ARG_SHARED, (uint64_t)n->kernel.static_shared + n->kernel.dynamic_shared);
	put_number(b, ARG_OCCUPANCY,
			   export_occupancy(n, device < h->device_count ? &h->device[device] : NULL).occupancy_percent);
	if (n->kernel.graph) {
		put_number(b, ARG_GRAPH, n->kernel.graph);
		put_number(b, ARG_NODE, e->value);
	}
}

void perfetto_put_arguments(const struct trace *t, struct protobuf *b, const struct trace_event *e)
{
	if (e->correlation)
		put_number(b, e->kind == TIMELINE_COLLECTIVE ? ARG_SEQUENCE : ARG_CORRELATION, e->correlation);
	if (e->flags & TIMELINE_FLAG_FAILED)
		put_number(b, ARG_FAILED, 1);
	switch (e->kind) {
	case TIMELINE_KERNEL: put_kernel(t, b, e); break;
	case TIMELINE_COPY:
	case TIMELINE_MEMSET:
		put_number(b, ARG_BYTES, e->value);
		if (e->duration)
			put_double(b, ARG_BANDWIDTH, (double)e->value / (double)e->duration);
		break;
	case TIMELINE_COLLECTIVE:
		put_number(b, ARG_BYTES, e->value);
		put_number(b, ARG_COMMUNICATOR, e->entry->collective.communicator);
		put_number(b, ARG_RANKS, e->entry->collective.ranks);
		break;
	case TIMELINE_EVENT:
		if (*export_event_unit(e->name))
			put_number(b, strcmp(export_event_unit(e->name), "bytes") ? ARG_VALUE : ARG_BYTES, e->value);
		break;
	default: break;
	}
}
