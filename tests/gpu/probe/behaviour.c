/*
 * behaviour.c - order, blocking, pointers and contexts.
 */
#include "probe.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SPIN_MS 300

static double ms_since(uint64_t started)
{
	return (double)(now_ns() - started) / 1e6;
}

static void *pages(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		abort();
	memset(p, 1, n);
	return p;
}

static void across_registration(void)
{
	const size_t n = 8 * MIB;
	char *p = pages(n);
	for (int upper = 0; upper < 2; upper++) {
		char *part = p + (upper ? n / 2 : 0);
		fact_status("register_half", cu.cuMemHostRegister_v2(part, n / 2, 0));
		fact_status(upper ? "h2d_across.upper_half_registered" : "h2d_across.lower_half_registered",
					cu.cuMemcpyHtoD_v2(probe_block, p, n));
		fact_status(upper ? "d2h_across.upper_half_registered" : "d2h_across.lower_half_registered",
					cu.cuMemcpyDtoH_v2(p, probe_block, n));
		cu.cuCtxSynchronize();
		cu.cuMemHostUnregister(part);
	}
	munmap(p, n);
}

static void null_stream_query(void)
{
	probe_spin(probe_a, SPIN_MS);
	fact_status("cuStreamQuery(NULL)_with_work_in_a_blocking_stream", cu.cuStreamQuery(NULL));
	fact_status("cuStreamQuery(other_blocking_stream)_then", cu.cuStreamQuery(probe_b));
	cu.cuCtxSynchronize();
}

static void *blocked_copy(void *p)
{
	cu.cuCtxSetCurrent(probe_ctx);
	cu.cuMemcpyHtoDAsync_v2(probe_block, p, 32 * MIB, probe_a);
	return NULL;
}

/* What another thread can do while a pageable copy waits behind a kernel. */
static void beside_a_blocked_copy(void)
{
	pthread_t t;
	char *p = pages(40 * MIB);
	CUdeviceptr d = 0;
	CUevent e;
	void *pinned = NULL;
	cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING);
	probe_spin(probe_a, SPIN_MS);
	if (pthread_create(&t, NULL, blocked_copy, p))
		return;
	sleep_ms(30);
	uint64_t s = now_ns();
	probe_spin(probe_b, 0);
	fact("beside_blocked_copy.launch_ms", "%.3f", ms_since(s));
	s = now_ns();
	cu.cuEventRecord(e, probe_b);
	fact("beside_blocked_copy.event_record_ms", "%.3f", ms_since(s));
	s = now_ns();
	cu.cuMemcpyHtoDAsync_v2(probe_block + 40 * MIB, p + 36 * MIB, 4096, probe_b);
	fact("beside_blocked_copy.small_h2d_ms", "%.3f", ms_since(s));
	s = now_ns();
	cu.cuMemcpyHtoDAsync_v2(probe_block + 40 * MIB, p + 34 * MIB, 4 * MIB, probe_b);
	fact("beside_blocked_copy.4MiB_h2d_ms", "%.3f", ms_since(s));
	s = now_ns();
	cu.cuStreamSynchronize(probe_b);
	fact("beside_blocked_copy.stream_synchronize_ms", "%.3f", ms_since(s));
	s = now_ns();
	cu.cuMemAlloc_v2(&d, 32 * MIB);
	fact("beside_blocked_copy.mem_alloc_ms", "%.3f", ms_since(s));
	s = now_ns();
	cu.cuMemHostAlloc(&pinned, 4 * MIB, 0);
	fact("beside_blocked_copy.host_alloc_ms", "%.3f", ms_since(s));
	pthread_join(t, NULL);
	cu.cuCtxSynchronize();
	cu.cuMemFree_v2(d);
	cu.cuMemFreeHost(pinned);
	cu.cuEventDestroy_v2(e);
	munmap(p, 40 * MIB);
}

/* How long each form waits behind a busy stream: which parts are read or written early. */
static void waiting_behind_a_kernel(void)
{
	static const size_t n[] = {4096, 1 * MIB, 2 * MIB, 2 * MIB + 4096, 4 * MIB, 64 * MIB};
	char *p = pages(64 * MIB);
	for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
		char name[64];
		probe_spin(probe_a, 100);
		uint64_t s = now_ns();
		cu.cuMemcpyHtoDAsync_v2(probe_block, p, n[i], probe_a);
		double async = ms_since(s);
		cu.cuCtxSynchronize();
		probe_spin(probe_a, 100);
		s = now_ns();
		cu.cuMemcpyHtoD_v2(probe_block, p, n[i]);
		double sync = ms_since(s);
		cu.cuCtxSynchronize();
		probe_spin(probe_a, 100);
		s = now_ns();
		cu.cuMemcpyDtoHAsync_v2(p, probe_block, n[i], probe_a);
		double d2h = ms_since(s);
		cu.cuCtxSynchronize();
		snprintf(name, sizeof(name), "behind_100ms_kernel.%zuK", n[i] / 1024);
		fact(name, "h2d async %.2f ms, h2d sync %.2f ms, d2h async %.2f ms", async, sync, d2h);
	}
	munmap(p, 64 * MIB);
}

static void pointer_facts(const char *what, CUdeviceptr p)
{
	unsigned type = 77, managed = 77;
	int ordinal = -77;
	CUcontext ctx = NULL;
	CUdeviceptr start = 0;
	size_t size = 0, range = 0;
	unsigned long long id = 0;
	CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_CONTEXT,
								   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,   CU_POINTER_ATTRIBUTE_IS_MANAGED,
								   CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
								   CU_POINTER_ATTRIBUTE_BUFFER_ID};
	void *data[] = {&type, &ctx, &ordinal, &managed, &start, &size, &id};
	char name[96];
	CUresult r = cu.cuPointerGetAttributes(7, which, data, p);
	snprintf(name, sizeof(name), "attributes.%s", what);
	fact(name, "%s: type %u context %s ordinal %d managed %u range start %+lld size %zu id %llu",
		 r ? cuda_dl_error(r) : "CUDA_SUCCESS", type,
		 ctx == probe_ctx ? "current"
		 : ctx            ? "other"
						  : "NULL",
		 ordinal, managed, start ? (long long)(start - p) : 0LL, size, id);
	for (int i = 0; i < 3; i++) {
		static const char *const names[] = {"type", "context", "range_start"};
		static const int index[] = {0, 1, 4};
		snprintf(name, sizeof(name), "attribute.%s.%s", what, names[i]);
		fact_status(name, cu.cuPointerGetAttribute(data[index[i]], which[index[i]], p));
	}
	snprintf(name, sizeof(name), "address_range.%s", what);
	r = cu.cuMemGetAddressRange_v2(&start, &range, p);
	fact(name, "%s size %zu", r ? cuda_dl_error(r) : "CUDA_SUCCESS", range);
}

static void pointers(void)
{
	char *heap = pages(1 * MIB), *registered = pages(1 * MIB);
	void *pinned = NULL;
	CUdeviceptr async = 0, managed = 0;
	cu.cuMemHostAlloc(&pinned, 1 * MIB, 0);
	cu.cuMemHostRegister_v2(registered, 1 * MIB, 0);
	cu.cuMemAllocAsync(&async, 3 * MIB, probe_a);
	cu.cuMemAllocManaged(&managed, 1 * MIB, CU_MEM_ATTACH_GLOBAL);
	cu.cuStreamSynchronize(probe_a);
	pointer_facts("pageable", (CUdeviceptr)(uintptr_t)heap + 4096);
	pointer_facts("pinned", (CUdeviceptr)(uintptr_t)pinned + 4096);
	pointer_facts("registered", (CUdeviceptr)(uintptr_t)registered + 4096);
	pointer_facts("device", probe_block + 4096);
	pointer_facts("alloc_async", async + 4096);
	pointer_facts("managed", managed + 4096);
	pointer_facts("null", 0);
	cu.cuMemFreeAsync(async, probe_a);
	cu.cuMemFree_v2(managed);
	cu.cuMemHostUnregister(registered);
	cu.cuMemFreeHost(pinned);
	munmap(heap, 1 * MIB);
	munmap(registered, 1 * MIB);
}

/* Last: it takes every handle away. */
static void context_ids(void)
{
	unsigned long long before = 0, reset = 0, released = 0;
	CUcontext first = probe_ctx;
	cu.cuCtxGetId(probe_ctx, &before);
	CUresult r = cu.cuDevicePrimaryCtxReset_v2(probe_dev);
	bool good = probe_open();
	cu.cuCtxGetId(probe_ctx, &reset);
	fact("context_after_reset", "%s, %s handle, id %llu then %llu", r ? cuda_dl_error(r) : "CUDA_SUCCESS",
		 probe_ctx == first ? "same" : "another", before, reset);
	if (!good)
		return;
	cu.cuDevicePrimaryCtxRelease_v2(probe_dev);
	cu.cuDevicePrimaryCtxRelease_v2(probe_dev);
	probe_open();
	cu.cuCtxGetId(probe_ctx, &released);
	fact("context_after_last_release", "%s handle, id %llu", probe_ctx == first ? "same" : "another",
		 released);
}

void probe_behaviour(void)
{
	null_stream_query();
	waiting_behind_a_kernel();
	beside_a_blocked_copy();
	across_registration();
	pointers();
	context_ids();
}
