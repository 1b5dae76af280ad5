/*
 * simtest.h - what the simulator's tests share.
 *
 * The programs test the simulated driver against what a real one does, so the same
 * programs must pass on a real driver too; those that need sim_* functions call
 * simtest_only_sim() in main and exit with 77 without them.
 */
#ifndef SIMTEST_H
#define SIMTEST_H

#define __CUDA_API_VERSION_INTERNAL /* every symbol under its own name */
#include <cuda.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#undef cuGetProcAddress_v2 /* cuda.h makes it the name of an inline wrapper */

#define ok(call) assert_int_equal((call), CUDA_SUCCESS)
#define fails(call, code) assert_int_equal((call), (code))

extern CUcontext st_ctx; /* device 0's primary context, current in the main thread */
extern CUfunction st_fill32, st_add32, st_spin_flag, st_spin_us, st_copy, st_checksum64;

/* Group set-up and tear-down. */
int simtest_setup(void **state);
int simtest_teardown(void **state);
/* Exits with 77 when the driver is not the simulated one. */
void simtest_only_sim(void);

/* Memory helpers; fail the test on error. */
CUdeviceptr st_device(size_t n);
void *st_pinned(size_t n);
CUstream st_stream(unsigned flags);
CUevent st_event(void);
/* First byte of device memory, read through a stream of its own. */
unsigned st_byte(CUdeviceptr at);

void st_launch(CUfunction f, CUstream s, void **args);
void st_fill(CUdeviceptr p, size_t words, uint32_t value, CUstream s);
void st_add(CUdeviceptr p, size_t words, uint32_t value, CUstream s);

/* A gate: a kernel that keeps a stream busy until the gate is opened. */
struct st_gate {
	volatile uint32_t *flag; /* pinned */
};
void st_gate_close(struct st_gate *g, CUstream s); /* launches the kernel */
void st_gate_open(struct st_gate *g);
void st_gate_free(struct st_gate *g);
/* Runs call(arg) while a thread opens the gate a little later; true when the call had not
 * returned before the gate opened. */
bool st_waits(struct st_gate *g, CUresult (*call)(void *), void *arg, CUresult *result);

#endif
