/*
 * gather_fixture.h - what the test_coalesce programs share: a communicator of one rank over the simulated NCCL, and all-gathers
 * from pinned memory to pinned memory, so that the host sees what has arrived without a call.
 *
 * The programs run bare and preloaded. What is promised of groups is promised of the preloaded run alone.
 */
#ifndef TURBO_TEST_GATHER_FIXTURE_H
#define TURBO_TEST_GATHER_FIXTURE_H

#include <cuda.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/sim/sim.h"
#include "tests/sim/sim_nccl.h"

#define GATHER_SLOTS 96
#define GATHER_BYTES 1024
#define GATHER_MS 20000 /* for what must happen */

#define OK(call)                                                     \
	do {                                                             \
		int r_ = (int)(call);                                        \
		if (r_)                                                      \
			fail_msg("line %d: %s answers %d", __LINE__, #call, r_); \
	} while (0)

extern CUcontext ctx;
extern CUstream stream; /* non-blocking: NCCL's */
extern ncclComm_t comm; /* a new one for each test */

/* Group set-up and tear-down. In each test: gather_begin and gather_end, which wants no mistakes. */
int gather_setup(void **state);
int gather_teardown(void **state);
int gather_begin(void **state);
int gather_end(void **state);
#define GATHER(f) cmocka_unit_test_setup_teardown(f, gather_begin, gather_end)

bool preloaded(void);
/* Clears slot i and issues its all-gather. */
void gather(int i);
void gather_on(int i, ncclComm_t c, CUstream s);
void gathers(int first, int n);
ncclResult_t gather_result(int i, ncclComm_t c, CUstream s); /* as it comes */
unsigned char *gather_from(int i);
unsigned char *gather_to(int i);
bool arrived(int i); /* no call */
bool all_arrived(int first, int n);
/* Polls without a call; fails the test when it does not. */
void must_arrive(int first, int n);
void must_event(CUevent e); /* polls cuEventQuery until it is over */

CUevent event_new(unsigned flags);
CUstream gather_stream(unsigned flags);
ncclComm_t comm_new(bool blocking);

/* A kernel that keeps a stream busy until the gate is opened. */
void gate_close(CUstream s);
void gate_open(void);

/* Launches of the communicator since the last look, and their operations. */
struct groups {
	unsigned launches, operations, largest;
};
struct groups groups_of(ncclComm_t c);
/* Since gather_begin(), of `comm`: that many operations; preloaded, some of them in a group, or none. */
void must_group(unsigned operations);
void must_not_group(unsigned operations);

#endif
