/*
 * copy_fixture.h - what the test_copy programs share: a context, kernels, byte patterns, and the
 * question whether copies were really staged.
 *
 * The programs run bare, preloaded, on the simulated driver and on a real one. Preloaded, a
 * STAGED test fails when the ring took nothing during it.
 */
#ifndef TURBO_TEST_COPY_FIXTURE_H
#define TURBO_TEST_COPY_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "counters.h"
#include "tests/gpu/common/cuda_dl.h"
#include "tests/gpu/common/util.h"

#define EARLY_BYTES (2 * MIB) /* the driver reads at most so much before a copy's turn */

struct copy_fixture {
	bool preloaded;
	bool san, tsan; /* built with a sanitizer, with ThreadSanitizer (tests/run.sh says so) */
	CUcontext ctx;  /* the primary context of device 0 */
	int devices;
	CUfunction fill32, add32, copy, spin_us, spin_flag;
	uint32_t *flag; /* a mapped pinned word */
	CUdeviceptr flag_dev;
};
extern struct copy_fixture fx;

/* The simulator's sim.h, when that is the driver; else `live_events` and the rest are NULL. */
struct copy_sim {
	void (*fail_set)(const char *symbol, int nth, int code);
	void (*fail_clear)(void);
	uint64_t (*calls)(const char *symbol);
	uint64_t (*calls_in_child)(void);
	uint64_t (*live_events)(void);
	uint64_t (*live_streams)(void);
	uint64_t (*live_allocs)(void);
	uint64_t (*host_registrations)(void);
	uint64_t (*errors)(void);
};
extern struct copy_sim sim;

/* Opens the driver, retains the primary context of device 0, makes it current and loads the
 * kernels. Exits with 77 when there is no driver, with 1 when something is wrong with it. */
void copy_open(void);

/* Ends the process when it has not ended in time: a deadlock is a failure. */
void copy_limit(void);

/* Begin and end of a test; the end says what the ring must have done since. */
int copy_begin(void **state);
int copy_end(void **state);
int copy_end_staged(void **state);
int copy_end_passed(void **state);
#define STAGED(f) cmocka_unit_test_setup_teardown(f, copy_begin, copy_end_staged)
#define PASSED(f) cmocka_unit_test_setup_teardown(f, copy_begin, copy_end_passed)
#define EITHER(f) cmocka_unit_test_setup_teardown(f, copy_begin, copy_end)
/* Skips the test that calls it, for the reason given; its end then asks for no staged copy. */
void copy_skip(const char *why);
/* Copies staged so far, both directions. */
uint64_t copy_staged(void);

#define OK(call) copy_ok((call), #call, __FILE__, __LINE__)
void copy_ok(CUresult r, const char *call, const char *file, int line);

/* Kernels; `words` counts 32-bit words. _ptsz: by the per-thread ABI. */
CUresult launch_fill(CUstream s, CUdeviceptr p, size_t words, uint32_t value);
CUresult launch_fill_ptsz(CUstream s, CUdeviceptr p, size_t words, uint32_t value);
CUresult launch_add(CUstream s, CUdeviceptr p, size_t words, uint32_t value);
CUresult launch_copy(CUstream s, CUdeviceptr dst, CUdeviceptr src, size_t bytes);
CUresult launch_copy_ptsz(CUstream s, CUdeviceptr dst, CUdeviceptr src, size_t bytes);
CUresult launch_spin(CUstream s, unsigned ms);
/* Busy until *fx.flag is not 0. */
CUresult launch_spin_flag(CUstream s);

/* Fresh pages holding pattern(seed), and their end. */
unsigned char *pages_new(size_t bytes, uint32_t seed);
void pages_free(void *p, size_t bytes);
CUdeviceptr device_new(size_t bytes);
void device_free(CUdeviceptr p);

/* Device bytes, read by pinned copies (which nobody stages) after all work of the context is
 * done: offset of the first that differs from pattern(seed) / from the word, or -1. For any
 * thread that has the context current; -2: the driver failed. */
int64_t device_differs(CUdeviceptr p, size_t bytes, uint32_t seed);
int64_t device_differs_from(CUdeviceptr p, size_t first_word, size_t bytes, uint32_t seed);
int64_t device_differs_word(CUdeviceptr p, size_t bytes, uint32_t word);
/* Writes pattern(seed) by pinned copies. */
void device_write(CUdeviceptr p, size_t bytes, uint32_t seed);
#define DEVICE_IS(p, bytes, seed) assert_int_equal(device_differs(p, bytes, seed), -1)
#define HOST_IS(p, bytes, seed) assert_int_equal(pattern_check(p, bytes, seed), -1)

#endif
