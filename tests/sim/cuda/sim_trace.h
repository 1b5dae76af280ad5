/*
 * sim_trace.h - what the simulated CUPTI (../cupti) gets to know of the simulated driver.
 *
 * libcuda.so.1 exports sim_trace_attach(); while nobody is attached, a driver call costs one load for it.
 */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

struct sim_tracer;
struct sim_trace_item;

enum sim_trace_wait { TRACE_NO_WAIT, TRACE_EVENT, TRACE_STREAM_EVENT, TRACE_STREAM, TRACE_CONTEXT };

/* One call of an exported function, on its thread's stack. The driver writes the first part. */
struct sim_call {
	const struct sim_tracer *tracer; /* NULL: nobody looks at this call */
	const char *symbol;
	struct sim_call *outer; /* of a callback or host function that made this call */
	CUresult result;
	bool runtime;             /* a runtime call: driver calls inside share its correlation */
	bool recorded;            /* an event was recorded */
	enum sim_trace_wait wait; /* what the call waited for */
	uint32_t context, stream, event, device;

	/* The tracer's own. */
	bool seen;
	int id;
	unsigned generation;
	uint32_t correlation;
	uint64_t start, data;
	struct sim_trace_item *items, **tail; /* what the call submitted */
	struct sim_trace_item *graph;
};

enum sim_trace_kind { TRACE_KERNEL, TRACE_COPY, TRACE_SET };
enum sim_trace_memory { TRACE_PAGEABLE, TRACE_PINNED, TRACE_DEVICE, TRACE_MANAGED };

/* What was submitted to a stream. */
struct sim_trace_op {
	enum sim_trace_kind kind;
	uint32_t device, context, stream;
	uint32_t graph, node; /* 0 outside graphs; node: from 1 */
	union {
		struct {
			const char *name; /* lives as long as the driver */
			uint32_t grid[3], block[3], shared;
		} kernel;
		struct {
			uint64_t bytes;
			enum sim_trace_memory from, to;
			uint32_t from_device, to_device; /* of device memory */
			bool async;
		} copy;
		struct {
			uint64_t bytes;
			uint32_t value;
			enum sim_trace_memory memory;
			bool async;
		} set;
	};
};

/* The tracer's own structures begin with this. */
struct sim_trace_item {
	struct sim_trace_item *next;
	/* It has run; ns of CLOCK_REALTIME, 0 when a fatal error kept it from running. On the stream's thread,
	 * no lock held, also after the tracer was detached. */
	void (*done)(struct sim_trace_item *item, uint64_t start, uint64_t end);
};

struct sim_tracer {
	/* On the calling thread, no lock held, before anything is done and after all is. */
	void (*enter)(struct sim_call *call);
	void (*leave)(struct sim_call *call);
	/* Inside a call, the driver's lock held: must not call the driver. NULL: of no interest. */
	struct sim_trace_item *(*submitted)(struct sim_call *call, const struct sim_trace_op *op);
	/* Graphs are recorded whole now. The driver's lock held, or none. */
	bool (*whole_graphs)(void);
};

struct sim_trace_driver {
	bool (*started)(void);  /* cuInit has succeeded */
	bool (*in_child)(void); /* forked from a process that had called cuInit */
	CUcontext (*current)(void);
	/* False: no such context, no such stream. NULL: the current context, its default stream. */
	bool (*context)(CUcontext ctx, uint32_t *id, uint32_t *device);
	bool (*stream)(CUcontext ctx, CUstream stream, bool per_thread, uint32_t *id);
};

/* NULL detaches: no further call is entered. Those under way are still left. */
const struct sim_trace_driver *sim_trace_attach(const struct sim_tracer *tracer);

/* For a runtime: a call of its own begins, and ends. `call` is on the caller's stack, zeroed before. */
void sim_trace_runtime_enter(struct sim_call *call, const char *symbol);
void sim_trace_runtime_leave(struct sim_call *call, int result);

#define SIM_TRACE_LEGACY_STREAM 7
#define SIM_TRACE_FIRST_STREAM 12 /* added to the driver's number of other streams */

#endif
