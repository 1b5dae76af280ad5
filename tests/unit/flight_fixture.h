/*
 * flight_fixture.h - the bodies of NCCL's functions over an NCCL that does nothing, and GPU progress that is only noted.
 */
#ifndef TURBO_FLIGHT_FIXTURE_H
#define TURBO_FLIGHT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "policy/nccl/flight.h"

typedef struct {
	char bytes[128];
} unique_id;

struct config {
	size_t size;
	unsigned magic, version;
	int blocking, others[3];
	const char *net;
	int share, traffic;
	const char *name;
};

int ncclCommInitRank(void **comm, int ranks, unique_id id, int rank);
int ncclCommInitRankConfig(void **comm, int ranks, unique_id id, int rank, void *config);
int pncclCommInitRankConfig(void **comm, int ranks, unique_id id, int rank, void *config);
int ncclCommInitRankScalable(void **comm, int ranks, int rank, int n, const unique_id *id, void *config);
int ncclCommInitAll(void **comms, int ranks, const int *list);
int ncclCommSplit(void *comm, int colour, int key, void **made, void *config);
int ncclCommShrink(void *comm, int *excluded, int n, void **made, void *config, int flags);
int ncclCommGrow(void *comm, int ranks, const void *id, int rank, void **made, void *config);
int ncclCommFinalize(void *comm);
int ncclCommDestroy(void *comm);
int ncclCommAbort(void *comm);
int ncclCommRevoke(void *comm, int flags);
int ncclCommGetAsyncError(void *comm, int *error);
const char *ncclGetLastError(void *comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclGroupSimulateEnd(void *info);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream);
int pncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream);
int ncclAllReduceConfig(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream,
						const void *config);
int ncclAllGather(const void *from, void *to, size_t count, int type, void *comm, void *stream);
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *comm, void *stream);
int ncclBcast(void *buffer, size_t count, int type, int root, void *comm, void *stream);
int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root, void *comm,
			   void *stream);
int ncclSend(const void *buffer, size_t count, int type, int peer, void *comm, void *stream);
int ncclRecv(void *buffer, size_t count, int type, int peer, void *comm, void *stream);
int ncclPutSignal(const void *from, size_t count, int type, int peer, void *window, size_t offset, int signal,
				  int ctx, unsigned flags, void *comm, void *stream);
int ncclSignal(int peer, int signal, int ctx, unsigned flags, void *comm, void *stream);
int ncclWaitSignal(int n, void *signals, void *comm, void *stream);

#define FLOAT32 7
#define BFLOAT16 9
#define SUM 0
#define STREAM ((void *)0x51)

/* What NCCL does. */
struct fake {
	int answer;                  /* of all calls */
	int async;                   /* what ncclCommGetAsyncError finds */
	void *next;                  /* the next communicator's handle; moves on */
	int rank, ranks;             /* of all communicators */
	bool late;                   /* handles are stored by ncclGroupEnd, not by the call */
	bool call_back;              /* NCCL calls its own exported functions */
	_Atomic unsigned real_calls; /* that it got */
	int ended;                   /* destroys and aborts that it got */
};
extern struct fake fake;

/* What progress.c was told. */
struct followed {
	struct flight_comm *comm;
	void *stream;
	uint64_t index; /* 0: progress_after() has not come */
};
extern struct followed followed[256];
extern unsigned launches; /* 1 .. launches: in followed[] */
extern bool follow_none;  /* progress_before() answers 0 */
extern unsigned captures; /* calls of progress_captured() */
extern bool capturing;    /* all streams do */
extern const void *tomb;  /* libturbo has aborted it */

/* For each test: all communicators gone, the fake as new. */
int flight_setup(void **state);

struct flight_page *the_page(void);
/* The cases of test_flight_comms.c and test_flight_groups.c. */
int flight_test_comms(void);
int flight_test_groups(void);

void *make_comm(char id);
struct flight_op *op_at(void *comm, uint64_t index);
/* The newest. */
struct flight_op *last_op(void *comm);

#endif
