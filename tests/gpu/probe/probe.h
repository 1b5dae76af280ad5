/*
 * probe.h - what the files of the probe share.
 *
 * The probe answers questions about the installed driver and machine, one "fact NAME = VALUE" line
 * each. It passes no judgement, so it is no test.
 */
#ifndef TURBO_TEST_PROBE_H
#define TURBO_TEST_PROBE_H

#include <stdbool.h>
#include <stdio.h>

#include "tests/gpu/common/cuda_dl.h"
#include "tests/gpu/common/util.h"

extern CUdevice probe_dev;
extern CUcontext probe_ctx;
extern CUstream probe_a, probe_b; /* blocking streams */
extern CUdeviceptr probe_block;   /* 64 MiB */
#define PROBE_BYTES (64 * MIB)

void fact(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void fact_status(const char *name, CUresult r);

/* Context, streams and block; false after saying why. */
bool probe_open(void);
CUresult probe_spin(CUstream s, unsigned ms);

void probe_faults(const char *self);     /* faults.c: bad host addresses, each in a child */
int probe_fault_child(const char *name); /* the child */
void probe_behaviour(void);              /* behaviour.c: order, blocking, pointers, contexts */
void probe_costs(void);                  /* costs.c: microseconds */
void probe_bandwidth(void);              /* costs.c: GB/s */

#endif
