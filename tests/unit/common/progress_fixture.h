/*
 * progress_fixture.h - the simulated driver under a part of the library, and a flight record that the test writes.
 *
 * The library's hook bodies are the program's own functions (cuInit, cuGraphLaunch ...); REAL() is the driver.
 */
#ifndef TURBO_TEST_PROGRESS_FIXTURE_H
#define TURBO_TEST_PROGRESS_FIXTURE_H

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
#include <cuda.h>

#include "nccl/flight.h"
#include "guard.h"
#include "nccl/launches.h"
#include "nccl/progress.h"
#include "real.h"

#define RIG_COMMS 8
#define WITHIN_MS 20000 /* for what must happen */
#define LOOKS_MS 130    /* two looks of the sampler have passed */

extern struct flight_page rig_page;
extern struct flight_comm *rig_comm; /* RIG_COMMS of them */

/* What flight_graph_begin() was asked. */
struct rig_graph {
	struct flight_comm *comm;
	uint64_t calls, bytes;
	void *stream;
};
extern struct rig_graph rig_graphs[64];
extern unsigned rig_graph_count, rig_graph_ends;
extern int rig_graph_result;

/* What is asked of the simulated driver. */
extern uint64_t (*rig_sim_errors)(void);
extern uint64_t (*rig_sim_calls)(const char *symbol);
extern uint64_t (*rig_sim_live_events)(void);
extern void (*rig_sim_fail_set)(const char *symbol, int nth, int code);
extern void (*rig_sim_fail_clear)(void);

/* The driver, the primary context of device 0 current, kernels, the sampler. 77 where there is no simulator. */
int rig_open(void **state);
/* Gives up all communicators' places. Setup of a test; its end finds no mistake of the driver's. */
int rig_begin(void **state);
int rig_end(void **state);
#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_begin, rig_end)

#define OK(call) rig_ok((call), #call, __LINE__)
void rig_ok(CUresult r, const char *call, int line);

/* Loads the kernels into a context, which waits for its work. That of rig_open() has them. */
void rig_kernels(CUcontext ctx);
CUstream stream_new(void);
/* A kernel that runs until the test opens gate `n` (of 64, all closed at the beginning of a test). */
void launch_gate(CUstream stream, unsigned n);
void launch_spin(CUstream stream, unsigned us);
void launch_trap(CUstream stream);
void gate_open(unsigned n);
void gate_close(unsigned n);

/* One more operation in the record; `group` 0: none. Returns its index. */
uint64_t issue(struct flight_comm *comm, uint64_t bytes, uint32_t group);
struct flight_op *op_of(struct flight_comm *comm, uint64_t index);
/* A call with its launch, which runs until gate `n` opens; answers the launch's number. */
uint32_t call_gate(struct flight_comm *comm, CUstream stream, unsigned n);
/* progress_before() and after(), inside the guard. */
uint32_t before(struct flight_comm *comm, CUstream stream);
void after(uint32_t launch, uint64_t index);

void sleep_ms(unsigned ms);
#define EVENTUALLY(condition)                                        \
	do {                                                             \
		uint64_t until_ = progress_now() + WITHIN_MS * 1000000ull;   \
		while (!(condition) && progress_now() < until_)              \
			sleep_ms(2);                                             \
		if (!(condition))                                            \
			fail_msg("not within %d ms: %s", WITHIN_MS, #condition); \
	} while (0)

#endif
