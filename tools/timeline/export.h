/*
 * export.h - a timeline written in formats that other tools read.
 *
 * Kineto: the JSON that torch.profiler writes, as chrome://tracing, Perfetto, TensorBoard's plugin and Holistic
 * Trace Analysis read it; one rank a file. Perfetto: its protobuf; ranks may follow one another in one file.
 */
#ifndef TURBO_EXPORT_H
#define TURBO_EXPORT_H

#include "tools/timeline/output.h"
#include "tools/timeline/trace.h"

struct export_request {
	uint32_t kinds;    /* bit 1 << enum timeline_kind: what is written */
	uint64_t from, to; /* ns: what touches [from, to) is written */
	uint64_t origin;   /* ns: the first start of all ranks, for times that several files share */
	bool integer_us;   /* Kineto: whole microseconds */
	unsigned index,
		count; /* of the rank among those of this export; stands in for a rank that is not known */
	const char *trace_name; /* Kineto: the file's name */
	/* Called now and then with how far it is; false stops the export. May be NULL. */
	bool (*progress)(void *arg, uint64_t done, uint64_t all);
	void *arg;
};

/* Puts the whole of `t` into `o`, whose error says what went wrong. How many events were written. */
uint64_t export_kineto(struct trace *t, const struct export_request *q, struct output *o);
uint64_t export_perfetto(struct trace *t, const struct export_request *q, struct output *o);

/* export_common.c: what both need. */

/* Names of kinds as options have them; NULL behind the last. */
const char *export_kind_name(enum timeline_kind kind);
/* The name that a viewer shows, in `buf` or owned by the trace: Kineto's for copies and memsets. */
const char *export_name(struct trace *t, const struct trace_event *e, char *buf, size_t size);
/* Kineto's category. */
const char *export_category(const struct trace_event *e);
/* What the value of one of libturbo's events counts: "bytes", or "" for none. */
const char *export_event_unit(const char *name);
/* The call of this name launches, copies or sets: an arrow leads from it to what it started. */
bool export_starts_work(const char *name);
/* Calls `each` with every event that is asked for, by start; stops when the output has failed. */
void export_each(struct trace *t, const struct export_request *q, struct output *o,
				 void (*each)(void *arg, const struct trace_event *e), void *arg);
static inline bool export_on_gpu(const struct trace_event *e)
{
	return e->kind == TIMELINE_KERNEL || e->kind == TIMELINE_COPY || e->kind == TIMELINE_MEMSET ||
		   e->kind == TIMELINE_GRAPH;
}

/*
 * export_tracks.c: rows of a viewer. What overlaps on a stream is laid on rows of its own, because viewers draw
 * spans of one row only one after the other or within each other; calls of a thread may lie within each other.
 */
enum track_class {
	TRACK_MAIN, /* a stream's operations, a thread's API calls */
	TRACK_SYNC, /* the rest: by thread */
	TRACK_EVENT,
	TRACK_COLLECTIVE,
	TRACK_OVERHEAD,
	TRACK_GAP,
	TRACK_CLASSES
};

struct track {
	uint32_t id;   /* from 0, in order of first use */
	uint32_t lane; /* index */
	enum track_class class;
	uint32_t row;     /* 0, 1, … of this lane and class */
	bool first_row;   /* of its device and stream, or thread: no other lane has that number */
	uint32_t next;    /* id of the next row, or UINT32_MAX */
	uint32_t depth;   /* spans that are open */
	uint64_t end[16]; /* … and their ends */
};

struct tracks {
	const struct trace *trace;
	struct track *track;
	uint32_t count, room;
	uint32_t *first; /* by lane and class: id of the first row, or UINT32_MAX */
	bool *shadowed;  /* by lane: an earlier lane has the same device and stream, or thread */
};

bool tracks_open(struct tracks *x, const struct trace *t);
void tracks_close(struct tracks *x);
/* The row for a span. *fresh: it is its first. NULL: no memory. Spans come by start. */
const struct track *tracks_place(struct tracks *x, const struct trace_event *e, uint64_t start, uint64_t end,
								 bool *fresh);
/* "stream 7", "libturbo (thread 4711)", … */
const char *track_name(const struct tracks *x, const struct track *k, char *buf, size_t size);
/* The track is below a GPU, not below the process. */
bool track_on_gpu(const struct tracks *x, const struct track *k);

/* export_occupancy.c: figures of a kernel as Kineto computes them, from the device's properties. */
struct export_occupancy {
	double blocks_per_sm, warps_per_sm;
	unsigned occupancy_percent; /* estimated; 0 where it is not known */
};
struct export_occupancy export_occupancy(const struct timeline_entry *kernel,
										 const struct timeline_device *d);

#endif
