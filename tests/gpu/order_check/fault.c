/*
 * fault.c - wrong arguments, host memory that is not plain, and pages that the program repairs.
 */
#include "order.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define N (12 * MIB)

static unsigned char *block_new(uint32_t seed)
{
	unsigned char *p = aligned_alloc(4096, N);
	if (p)
		pattern_fill(p, N, seed);
	return p;
}

/* The driver's own answers, whatever they are. */
static const char *wrong_arguments(void)
{
	CUdeviceptr small = 0;
	unsigned char *p = block_new(1);
	if (!p)
		return case_skip("no memory");
	TRY(cu.cuMemcpyHtoD_v2(fx.buf, p, N)); /* a good one first: staging is set up */
	case_note_status("h2d_zero_bytes", cu.cuMemcpyHtoD_v2(fx.buf, p, 0));
	case_note_status("h2d_null_device", cu.cuMemcpyHtoD_v2(0, p, N));
	case_note_status("h2d_async_null_device", cu.cuMemcpyHtoDAsync_v2(0, p, N, fx.a));
	case_note_status("d2h_null_device", cu.cuMemcpyDtoH_v2(p, 0, N));
	TRY(cu.cuMemAlloc_v2(&small, 2 * MIB));
	case_note_status("h2d_past_the_end", cu.cuMemcpyHtoD_v2(small + 1 * MIB, p, N));
	case_note_status("d2h_past_the_end", cu.cuMemcpyDtoHAsync_v2(p, small + 1 * MIB, N, fx.a));
	TRY(cu.cuMemFree_v2(small));
	TRY(cu.cuMemAlloc_v2(&small, 40 * MIB));
	TRY(cu.cuMemFree_v2(small));
	case_note_status("h2d_freed", cu.cuMemcpyHtoDAsync_v2(small, p, N, fx.a));
	TRY(cu.cuCtxSetCurrent(NULL));
	case_note_status("h2d_no_context", cu.cuMemcpyHtoD_v2(fx.buf, p, N));
	case_note_status("d2h_no_context", cu.cuMemcpyDtoHAsync_v2(p, fx.buf, N, NULL));
	TRY(cu.cuCtxSetCurrent(fx.ctx));
	pattern_fill(p, N, 2);
	TRY(cu.cuMemcpyHtoD_v2(fx.buf, p, N)); /* and a good one still works */
	free(p);
	return device_is_pattern(fx.buf, N, 2);
}

static CUresult memory_type(const void *p, unsigned *type)
{
	return cu.cuPointerGetAttribute(type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)p);
}

/* After copies the program's memory is as pageable as before. */
static const char *source_stays_pageable(void)
{
	unsigned type = 0;
	unsigned char *p = block_new(1);
	if (!p)
		return case_skip("no memory");
	for (int i = 0; i < 20; i++) {
		TRY(cu.cuMemcpyHtoDAsync_v2(fx.buf, p, N, fx.a));
		TRY(cu.cuMemcpyDtoHAsync_v2(p, fx.buf, N, fx.a));
	}
	CUresult before = memory_type(p, &type);
	case_note_status("memory_type", before);
	CUresult registered = cu.cuMemHostRegister_v2(p, N, 0);
	case_note_status("register", registered);
	if (registered == CUDA_SUCCESS)
		TRY(cu.cuMemHostUnregister(p));
	free(p);
	if (before == CUDA_SUCCESS && type == CU_MEMORYTYPE_HOST)
		return case_fail("the driver knows the source as pinned memory");
	return NULL;
}

/* Registered by the program: stays asynchronous while it is, and pageable again afterwards. */
static const char *registered_by_the_program(void)
{
	unsigned char *p = block_new(1);
	if (!p)
		return case_skip("no memory");
	for (uint32_t i = 0; i < 4; i++) {
		TRY(cu.cuMemHostRegister_v2(p, N, 0));
		pattern_fill(p, N, 10 + i);
		TRY(launch_spin(fx.a, 100));
		uint64_t started = now_ns();
		TRY(cu.cuMemcpyHtoDAsync_v2(fx.buf, p, N, fx.a));
		double ms = (double)(now_ns() - started) / 1e6;
		if (ms > 60)
			return case_fail("a registered source: the call waited %.1f ms", ms);
		STEP(device_is_pattern(fx.buf, N, 10 + i));
		TRY(cu.cuMemHostUnregister(p));
		pattern_fill(p, N, 20 + i);
		TRY(cu.cuMemcpyHtoDAsync_v2(fx.buf, p, N, fx.a));
		memset(p, 0xA5, N);
		STEP(device_is_pattern(fx.buf, N, 20 + i));
	}
	free(p);
	return NULL;
}

/* Half registered, half not: whatever the driver says. */
static const char *across_a_registration(void)
{
	unsigned char *p = block_new(3);
	if (!p)
		return case_skip("no memory");
	const size_t half = N / 2;
	for (int upper = 0; upper < 2; upper++) {
		TRY(cu.cuMemHostRegister_v2(p + (upper ? half : 0), half, 0));
		CUresult r = cu.cuMemcpyHtoD_v2(fx.buf, p, N);
		case_note_status(upper ? "upper_half" : "lower_half", r);
		if (r == CUDA_SUCCESS)
			STEP(device_is_pattern(fx.buf, N, 3));
		TRY(cu.cuCtxSynchronize());
		TRY(cu.cuMemHostUnregister(p + (upper ? half : 0)));
		TRY(cu.cuMemsetD8_v2(fx.buf, 0, N));
	}
	free(p);
	return NULL;
}

static const char *managed_source(void)
{
	NEED(cuMemAllocManaged);
	CUdeviceptr m = 0;
	TRY(cu.cuMemAllocManaged(&m, N, CU_MEM_ATTACH_GLOBAL));
	pattern_fill((void *)(uintptr_t)m, N, 8);
	TRY(cu.cuMemcpyHtoDAsync_v2(fx.buf, (const void *)(uintptr_t)m, N, fx.a));
	STEP(device_is_pattern(fx.buf, N, 8));
	TRY(cu.cuMemFree_v2(m));
	return NULL;
}

/* ---- a SIGSEGV handler of the program's that repairs the source ------------------------------ */

static unsigned char *repair_base;
static volatile sig_atomic_t repaired;
#define REPAIR_STEP ((uintptr_t)256 * 1024)

static void repair(int sig, siginfo_t *info, void *context)
{
	(void)context;
	uintptr_t at = (uintptr_t)info->si_addr, base = (uintptr_t)repair_base;
	if (at < base || at >= base + N) {
		signal(sig, SIG_DFL); /* not ours: the fault comes again and ends the process */
		return;
	}
	uintptr_t step = (at - base) / REPAIR_STEP * REPAIR_STEP;
	mprotect(repair_base + step, REPAIR_STEP, PROT_READ | PROT_WRITE);
	repaired++;
}

static const char *repair_one(bool h2d)
{
	pattern_fill(repair_base, N, 14);
	if (!h2d)
		STEP(device_write_pattern(fx.buf, N, 15));
	if (mprotect(repair_base, N, PROT_NONE))
		return case_skip("no mprotect");
	repaired = 0;
	if (h2d)
		TRY(cu.cuMemcpyHtoDAsync_v2(fx.buf, repair_base, N, fx.a));
	else
		TRY(cu.cuMemcpyDtoHAsync_v2(repair_base, fx.buf, N, fx.a));
	case_info(h2d ? "h2d_faults" : "d2h_faults", repaired);
	mprotect(repair_base, N, PROT_READ | PROT_WRITE);
	if (h2d)
		return device_is_pattern(fx.buf, N, 14);
	int64_t off = pattern_check(repair_base, N, 15);
	return off < 0 ? NULL : case_fail("host byte %lld is wrong", (long long)off);
}

static const char *with_repair(bool h2d)
{
	struct sigaction act = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO}, old;
	repair_base = pages_new(N);
	if (!repair_base)
		return case_skip("no memory");
	sigaction(SIGSEGV, &act, &old);
	const char *why = repair_one(h2d);
	sigaction(SIGSEGV, &old, NULL);
	munmap(repair_base, N);
	return why;
}

static const char *source_repaired_by_handler(void)
{
	return with_repair(true);
}

static const char *destination_repaired_by_handler(void)
{
	return with_repair(false);
}

const struct gpu_case fault_cases[] = {
	{"wrong_arguments", wrong_arguments},
	{"source_stays_pageable", source_stays_pageable},
	{"registered_by_the_program", registered_by_the_program},
	{"across_a_registration", across_a_registration},
	{"managed_source", managed_source},
	{"source_repaired_by_handler", source_repaired_by_handler},
	{"destination_repaired_by_handler", destination_repaired_by_handler},
	{NULL, NULL},
};
