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
	const void *frame;  /* frame address of the hook body, NULL: its stack is not wanted */
};

/* Between begin and end, on the caller's stack. */
struct flight_ticket {
	struct flight_comm *comm; /* NULL: not recorded */
	struct flight_op *op;
	uint64_t index;  /* of `op` */
	uint64_t before; /* the communicator's signature before it */
	uint32_t life;   /* of the place */
	uint32_t launch;
	bool entered;   /* this thread counts as inside the call: what NCCL calls of its own is not recorded */
	bool outermost; /* it is a call of the program's */
};

/* Into a call that is none of a communicator's (yet). flight_begin() does it, too; flight_end() undoes it. */
void flight_enter(struct flight_ticket *ticket);
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

/*
 * A collective call that is held back: in the record as one that has returned, given to NCCL later. Then, around the launch of
 * `n` of them, of one communicator and issued one after another, on `stream`: as a group, when they are several. `launch` is
 * what begin answered, 0 also where nothing was begun. Whoever launches, one at a time.
 */
void flight_hold(struct flight_ticket *ticket, const struct flight_call *call);
uint32_t flight_held_begin(const struct flight_ticket *tickets, unsigned n, void *stream);
void flight_held_end(const struct flight_ticket *tickets, unsigned n, uint32_t launch, int result);

/* After ncclGroupStart, and around ncclGroupEnd; nests. Around ncclGroupSimulateEnd, where nothing runs, the caller is
 * NULL and the result FLIGHT_DROPPED. */
#define FLIGHT_DROPPED (-1)
void flight_group_start(void);
void flight_group_end_begin(const void *caller);
void flight_group_end(int result);

/* Communicators. */
struct flight_made {
	const void *id; /* the bytes of all unique ids; NULL: it has a parent */
	size_t id_bytes;
	void *parent;                  /* of a split, shrink or grow; NULL */
	enum flight_function function; /* FLIGHT_INIT, FLIGHT_SPLIT, ... */
	int rank, ranks, colour;       /* -1: not known, or none */
	const int *excluded;           /* of a shrink */
	unsigned excluded_count;
	const char *name; /* NULL: none */
	bool nonblocking;
	const void *caller, *frame; /* as in struct flight_call */
};
/*
 * Before the call that makes one, if it is the program's (ticket.outermost), and after it. The place is NULL where there
 * is none, and of a split that leaves this rank out. `handle` is where NCCL puts the new communicator: at once, or, in a
 * group, by its end. A call that failed gives the place back. A child is also an operation of its parent.
 */
struct flight_comm *flight_comm_making(const struct flight_made *how);
void flight_comm_made(struct flight_comm *comm, void **handle, int result, const void *caller);
/* finalize and revoke (FLIGHT_ENDING), destroy (FLIGHT_GONE), abort (FLIGHT_ABORTED): before the real call. The handle
 * of one that is gone or aborted may be another's at once. */
void flight_comm_ending(void *handle, enum flight_state state);
/* NCCL says that nothing asynchronous goes on in it: calls of one that does not block are done. */
void flight_comm_settled(void *handle, const void *caller);

/* Bytes of an element by ncclDataType_t, 0: not known. */
unsigned flight_type_bytes(int type);

/* The place of a handle, or NULL. */
struct flight_comm *flight_comm_of(const void *handle);
/* The handle of a place, NULL when it has none (any more), and an address in the code that made it: names the copy
 * of NCCL. act.c. */
void *flight_comm_handle(const struct flight_comm *comm, const void **caller);
/* What this process's file is a copy of, or NULL: nothing is recorded. Lives as long as the process. */
struct flight_page *flight_page(void);

#endif
