/*
 * order.h - what the cases of order_check share.
 *
 * A case is one promise about copies, checked by its bytes, on device 0.
 */
#ifndef TURBO_TEST_ORDER_H
#define TURBO_TEST_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/gpu/common/cases.h"
#include "tests/gpu/common/cuda_dl.h"
#include "tests/gpu/common/kernels.h"
#include "tests/gpu/common/util.h"

#define BUF_BYTES (96 * MIB)
#define EARLY_BYTES (2 * MIB) /* the driver reads at most so much before a copy's turn */
#define LATE_MS 60            /* how long late writers wait: far longer than any call takes */

/* Set up before each case: a device with a primary context, two streams and buffers. */
struct order_fixture {
	CUdevice dev;
	CUcontext ctx;
	struct kernels kernels;
	CUstream a, b;         /* ordered with the legacy default stream */
	CUstream nb;           /* CU_STREAM_NON_BLOCKING */
	CUdeviceptr buf, buf2; /* BUF_BYTES each */
	uint32_t *flag;        /* mapped pinned word, 0 at the start of a case */
	CUdeviceptr flag_dev;
	bool huge; /* --huge: copies beyond 4 GiB too */
};
extern struct order_fixture fx;

/* Around each case; a case that resets the device opens it again itself. An open that failed may
 * be closed. */
const char *fixture_open(void);
void fixture_close(void);

/* Busy until fx.flag is raised. */
CUresult launch_spin_flag(CUstream s);

/* Device bytes against pattern(seed), read by pinned copies that nobody stages; waits for
 * the context first. */
const char *device_is_pattern(CUdeviceptr p, size_t n, uint32_t seed);
const char *device_is_word(CUdeviceptr p, size_t n, uint32_t word);
/* Copies device bytes to `to` the same way. */
const char *device_read(void *to, CUdeviceptr p, size_t n);
const char *device_write_pattern(CUdeviceptr p, size_t n, uint32_t seed);

/* Fresh anonymous pages; NULL after printing why. */
void *pages_new(size_t n);

/* A thread that, LATE_MS after late_start, rewrites a block and raises fx.flag to 1 or only
 * rewrites (raise = false). late_join before the block is freed. */
struct late {
	void *block;
	size_t bytes;
	uint32_t seed;
	bool raise;
	unsigned long thread;
};
bool late_start(struct late *l);
void late_join(struct late *l);

/* Raises fx.flag to 1 after `ms` unless stopped before, so that a case that would hang fails
 * instead. flag_timer_stop raises the flag too, and says whether the time had run out. */
struct flag_timer {
	unsigned ms;
	int stopped; /* atomic */
	bool fired;
	unsigned long thread;
};
bool flag_timer_start(struct flag_timer *t, unsigned ms);
bool flag_timer_stop(struct flag_timer *t);

extern const struct gpu_case reuse_cases[], stream_cases[], late_cases[], capture_cases[], life_cases[],
	fault_cases[], many_cases[];

/* order_check is also the other process of `ipc_event`. */
int ipc_child_main(int argc, char **argv);

#endif
