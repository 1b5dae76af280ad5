/*
 * export_perfetto.h - what the two files of the Perfetto writer share. Numbers are those of fields in
 * perfetto_trace.proto.
 */
#ifndef TURBO_EXPORT_PERFETTO_H
#define TURBO_EXPORT_PERFETTO_H

#include "tools/timeline/export.h"
#include "tools/timeline/protobuf.h"

enum { PERFETTO_EVENT_DEBUG = 4 };

/* What events say of themselves: arguments, by interned number. */
enum argument {
	ARG_NONE,
	ARG_CORRELATION,
	ARG_GRID,
	ARG_BLOCK,
	ARG_REGISTERS,
	ARG_SHARED,
	ARG_OCCUPANCY,
	ARG_BYTES,
	ARG_BANDWIDTH,
	ARG_GRAPH,
	ARG_NODE,
	ARG_VALUE,
	ARG_SEQUENCE,
	ARG_COMMUNICATOR,
	ARG_RANKS,
	ARG_FAILED,
	ARGS
};

extern const char *const perfetto_argument[ARGS];

/* Puts the arguments of an event into its message. */
void perfetto_put_arguments(const struct trace *t, struct protobuf *b, const struct trace_event *e);

#endif
