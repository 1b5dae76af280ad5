/*
 * check.h - what the cases of devmem_check share.
 *
 * A case is one promise about device memory, checked by its bytes or by the driver's answers, on
 * device 0. Blocks carry tags: whoever uses a block fills it, and reads it back later in the
 * same stream's order; a block that two users had at once shows the wrong one.
 */
#ifndef TURBO_TEST_DEVMEM_CHECK_H
#define TURBO_TEST_DEVMEM_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/gpu/common/cases.h"
#include "tests/gpu/common/cuda_dl.h"
#include "tests/gpu/common/kernels.h"
#include "tests/gpu/common/util.h"

/* What cuMemFree promises differs by mode; the case must know, the program does not. */
enum check_mode { MODE_BARE, MODE_CACHE, MODE_DEFERRED, MODE_STREAM };

enum { STREAM_LEGACY, STREAM_PER_THREAD, STREAM_A, STREAM_B, STREAM_NB, STREAM_NB2, STREAMS };

struct check_fixture {
	enum check_mode mode; /* from --mode */
	CUdevice dev;
	CUcontext ctx; /* primary */
	struct kernels kernels;
	CUstream stream[STREAMS];
	size_t total;   /* bytes of the device */
	uint32_t *flag; /* mapped pinned word, 0 at the start of a case */
	CUdeviceptr flag_dev;
};
extern struct check_fixture fx;

/* Around each case; a case that resets the device opens it again itself. An open that failed may
 * be closed. */
const char *fixture_open(void);
void fixture_close(void);
/* Closes, and lets the primary context go, which lives on between cases. */
void fixture_end_context(void);

/* ---- tags ---- */

/* What users read back of their blocks: tags_begin() empties it, one owner of the slots at a time. */
const char *tags_begin(void);
/*
 * Uses `bytes` at `p` on a stream: spins `us`, fills it all with a tag, spins as long again, then
 * reads its head and its tail back. A second user that came early is noticed when its times differ:
 * with 3/4 of `us` it writes before the first does and reads afterwards. Any thread.
 */
CUresult tags_use(CUstream s, CUdeviceptr p, size_t bytes, uint64_t us);
/* Waits for the context and compares: NULL, or which use saw another's bytes. */
const char *tags_end(void);

/* Device words against a value, after waiting for the context. */
const char *device_is(CUdeviceptr p, size_t words, uint32_t value);

/* ---- other processes ---- */

struct child {
	int pid, to, from;
};
/* This program with `--child name arg`; `bare`: without libturbo.so. */
bool child_start(struct child *c, const char *name, const char *arg, bool bare);
bool child_write(const struct child *c, const void *data, size_t n);
/* False after `ms` without all n bytes, or at the other's end. */
bool child_read(const struct child *c, void *data, size_t n, unsigned ms);
/* Closes the pipes and waits; the exit status, or -1 for a signal. */
int child_end(struct child *c);
/* A pipe's other end, in the child: descriptors 0 and 1. */
bool pipe_read(int fd, void *data, size_t n, unsigned ms);
bool pipe_write(int fd, const void *data, size_t n);

int child_main(int argc, char **argv);
/* In share.c and contexts.c. */
int child_fault(void);
int child_ipc(void);
int child_mem_info(void);
int child_handover(const char *kind);

extern const struct gpu_case early_cases[], wrong_cases[], context_cases[], capture_cases[], answer_cases[],
	share_cases[], latency_cases[], async_cases[], pool_cases[];

#endif
