/*
 * flight.h - the flight record: every NCCL call of this process, numbered per communicator, in a file that the
 * other ranks on the machine see.
 *
 * shim/nccl*.c brackets each call: flight_begin() before the real one, flight_end() after it. All functions here
 * are for any thread, keep errno, take no lock that a call into CUDA or NCCL is made under, allocate nothing and
 * never touch the GIL; while the watchdog is off each is one load and a branch.
 */
#ifndef TURBO_FLIGHT_H
#define TURBO_FLIGHT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flight_page.h"

/* Set once, when the policy starts; cleared in a forked child. Relaxed: a call more or less does not matter. */
extern _Atomic bool flight_on __attribute__((visibility("hidden")));

/* What a call asks for. */
struct flight_call {
	enum flight_function function;
	void *comm; /* ncclComm_t */
	uint64_t count;
	int type, reduction, peer; /* -1: it has none */
	void *stream;
	const void *caller; /* return address of the call: names the copy of NCCL, and the call site */
	const void *frame;  /* frame address of the hook body */
};

/* Between begin and end, on the caller's stack. */
struct flight_ticket {
	struct flight_comm *comm; /* NULL: not recorded */
	struct flight_op *op;
	uint32_t launch;
};

void flight_begin(struct flight_ticket *ticket, const struct flight_call *call);
/* `result`: ncclResult_t. */
void flight_end(struct flight_ticket *ticket, int result);

/*
 * A launch of a graph in which `calls` collective calls of this communicator were captured, `bytes` in all (0: sends
 * and receives alone): one FLIGHT_GRAPH operation, which flight_end() ends. `life`: of the place at the capture; when
 * it has another by now, nothing is recorded. Other ranks may make the same calls without a graph. graphs.c.
 */
void flight_graph_begin(struct flight_ticket *ticket, struct flight_comm *comm, uint32_t life, uint64_t calls,
						uint64_t bytes, void *stream);

/* Around ncclGroupStart and ncclGroupEnd; nests. */
void flight_group_start(void);
void flight_group_end_begin(const void *caller);
void flight_group_end(int result);

/* Communicators. `id`: the bytes of all unique ids. */
struct flight_made {
	const void *id;
	size_t id_bytes;
	void *parent;                    /* of a split, shrink or grow; NULL */
	int rank, ranks, device, colour; /* -1: not known */
	const char *name;                /* NULL: none */
	bool nonblocking;
};
/* Before the call that makes one: returns a place, NULL when there is none. */
struct flight_comm *flight_comm_making(const struct flight_made *how);
/* After it: `handle` NULL or a failed `result` gives the place back. */
void flight_comm_made(struct flight_comm *comm, void *handle, int result);
/* destroy, abort, finalize: before the real call. */
void flight_comm_ending(void *handle, enum flight_state state);

/* The place of a handle, or NULL. */
struct flight_comm *flight_comm_of(const void *handle);
/* The handle of a place, NULL when it has none (any more), and an address in the code that made it: names the copy
 * of NCCL. act.c. */
void *flight_comm_handle(const struct flight_comm *comm, const void **caller);
/* What this process's file is a copy of, or NULL: nothing is recorded. Lives as long as the process. */
struct flight_page *flight_page(void);

#endif
