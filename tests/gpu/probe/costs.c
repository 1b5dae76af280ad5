/*
 * costs.c - microseconds of single calls, and what chunked copies reach.
 */
#include "probe.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALLS 2000

/* Median of batches, so that a preempted one does not count. */
#define COST(name, call)                                                               \
	do {                                                                               \
		uint64_t batch_[20];                                                           \
		for (int b_ = 0; b_ < 20; b_++) {                                              \
			uint64_t t_ = now_ns();                                                    \
			for (int i_ = 0; i_ < CALLS / 20; i_++)                                    \
				(void)(call);                                                          \
			batch_[b_] = now_ns() - t_;                                                \
		}                                                                              \
		fact("us." name, "%.3f", (double)median_u64(batch_, 20) / (CALLS / 20) / 1e3); \
	} while (0)

static void pointer_costs(void *heap, void *pinned)
{
	unsigned type, managed;
	CUcontext ctx;
	CUdeviceptr start;
	size_t size;
	CUdeviceptr host = (CUdeviceptr)(uintptr_t)heap, pin = (CUdeviceptr)(uintptr_t)pinned;
	CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT,
								   CU_POINTER_ATTRIBUTE_IS_MANAGED};
	void *data[] = {&type, &ctx, &managed};
	COST("cuPointerGetAttribute(type).pageable", cu.cuPointerGetAttribute(&type, which[0], host));
	COST("cuPointerGetAttribute(type).pinned", cu.cuPointerGetAttribute(&type, which[0], pin));
	COST("cuPointerGetAttribute(type).device", cu.cuPointerGetAttribute(&type, which[0], probe_block));
	COST("cuPointerGetAttribute(context).device", cu.cuPointerGetAttribute(&ctx, which[1], probe_block));
	COST("cuPointerGetAttributes(3).pageable", cu.cuPointerGetAttributes(3, which, data, host));
	COST("cuPointerGetAttributes(3).device", cu.cuPointerGetAttributes(3, which, data, probe_block));
	COST("cuMemGetAddressRange.device", cu.cuMemGetAddressRange_v2(&start, &size, probe_block));
}

static void context_costs(void)
{
	CUcontext ctx;
	CUdevice dev;
	unsigned long long id;
	CUstreamCaptureStatus status;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	COST("cuCtxGetCurrent", cu.cuCtxGetCurrent(&ctx));
	COST("cuCtxGetDevice", cu.cuCtxGetDevice(&dev));
	COST("cuCtxGetId", cu.cuCtxGetId(probe_ctx, &id));
	COST("cuStreamIsCapturing", cu.cuStreamIsCapturing(probe_a, &status));
	COST("cuStreamIsCapturing(NULL)", cu.cuStreamIsCapturing(NULL, &status));
	COST("cuStreamGetId", cu.cuStreamGetId(probe_a, &id));
	COST("cuThreadExchangeStreamCaptureMode", cu.cuThreadExchangeStreamCaptureMode(&mode));
	COST("cuCtxSetCurrent", cu.cuCtxSetCurrent(probe_ctx));
	COST("cuStreamQuery(idle)", cu.cuStreamQuery(probe_a));
	COST("cuStreamSynchronize(idle)", cu.cuStreamSynchronize(probe_a));
}

static void event_costs(void)
{
	CUevent e;
	uint64_t latency[200];
	cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING);
	COST("cuEventRecord", cu.cuEventRecord(e, probe_a));
	COST("cuStreamWaitEvent", cu.cuStreamWaitEvent(probe_b, e, 0));
	cu.cuCtxSynchronize();
	COST("cuEventQuery(complete)", cu.cuEventQuery(e));
	COST("cuCtxRecordEvent", cu.cuCtxRecordEvent(probe_ctx, e));
	cu.cuCtxSynchronize();
	for (int i = 0; i < 200; i++) {
		uint64_t s = now_ns();
		cu.cuEventRecord(e, probe_a);
		while (cu.cuEventQuery(e) == CUDA_ERROR_NOT_READY)
			;
		latency[i] = now_ns() - s;
		sleep_ms(i % 10 == 0);
	}
	fact("us.event_record_to_complete.polled", "%.2f", (double)median_u64(latency, 200) / 1e3);
	for (int i = 0; i < 200; i++) {
		uint64_t s = now_ns();
		cu.cuEventRecord(e, probe_a);
		cu.cuEventSynchronize(e);
		latency[i] = now_ns() - s;
	}
	fact("us.event_record_to_complete.cuEventSynchronize", "%.2f", (double)median_u64(latency, 200) / 1e3);
	cu.cuEventDestroy_v2(e);
}

static void copy_costs(char *heap, char *pinned)
{
	static const size_t sizes[] = {4, 4096, 64 * KIB, 256 * KIB, 1 * MIB, 2 * MIB};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t issue[64], done[64];
		size_t n = sizes[i];
		char name[64];
		for (int k = 0; k < 64; k++) {
			uint64_t s = now_ns();
			cu.cuMemcpyHtoDAsync_v2(probe_block, pinned, n, probe_a);
			issue[k] = now_ns() - s;
			cu.cuStreamSynchronize(probe_a);
			done[k] = now_ns() - s;
		}
		snprintf(name, sizeof(name), "us.pinned_h2d.%zu", n);
		fact(name, "call %.2f, call and synchronise %.2f", (double)median_u64(issue, 64) / 1e3,
			 (double)median_u64(done, 64) / 1e3);
		for (int k = 0; k < 64; k++) {
			uint64_t s = now_ns();
			cu.cuMemcpyHtoDAsync_v2(probe_block, heap, n, probe_a);
			issue[k] = now_ns() - s;
			cu.cuStreamSynchronize(probe_a);
			done[k] = now_ns() - s;
		}
		snprintf(name, sizeof(name), "us.pageable_h2d.%zu", n);
		fact(name, "call %.2f, call and synchronise %.2f", (double)median_u64(issue, 64) / 1e3,
			 (double)median_u64(done, 64) / 1e3);
	}
}

/* ---- waking parked threads ---------------------------------------------------------------- */

#define PARKED 8
static uint32_t futex_word;    /* bumped to wake */
static uint64_t woken[PARKED]; /* atomic: ns when each ran, 0 while parked */

static void *parked_main(void *arg)
{
	uint64_t *mine = arg;
	for (uint32_t seen = 0;;) {
		while (__atomic_load_n(&futex_word, __ATOMIC_ACQUIRE) == seen)
			syscall(SYS_futex, &futex_word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
		seen = __atomic_load_n(&futex_word, __ATOMIC_ACQUIRE);
		__atomic_store_n(mine, now_ns(), __ATOMIC_RELEASE);
		if (seen == UINT32_MAX)
			return NULL;
	}
}

static void futex_costs(void)
{
	pthread_t t[PARKED];
	uint64_t first[100], last[100], call[100];
	for (int i = 0; i < PARKED; i++)
		if (pthread_create(&t[i], NULL, parked_main, &woken[i]))
			return;
	sleep_ms(20);
	for (int r = 0; r < 100; r++) {
		memset(woken, 0, sizeof(woken));
		sleep_ms(2);
		uint64_t s = now_ns();
		__atomic_add_fetch(&futex_word, 1, __ATOMIC_RELEASE);
		syscall(SYS_futex, &futex_word, FUTEX_WAKE_PRIVATE, PARKED, NULL, NULL, 0);
		call[r] = now_ns() - s;
		uint64_t low = UINT64_MAX, high = 0;
		for (int i = 0; i < PARKED; i++) {
			uint64_t at;
			while (!(at = __atomic_load_n(&woken[i], __ATOMIC_ACQUIRE)))
				;
			low = at < low ? at : low;
			high = at > high ? at : high;
		}
		first[r] = low > s ? low - s : 0;
		last[r] = high - s;
	}
	__atomic_store_n(&futex_word, UINT32_MAX, __ATOMIC_RELEASE);
	syscall(SYS_futex, &futex_word, FUTEX_WAKE_PRIVATE, PARKED, NULL, NULL, 0);
	for (int i = 0; i < PARKED; i++)
		pthread_join(t[i], NULL);
	fact("us.futex_wake_8", "call %.1f, first runs %.1f, last runs %.1f", (double)median_u64(call, 100) / 1e3,
		 (double)median_u64(first, 100) / 1e3, (double)median_u64(last, 100) / 1e3);
}

void probe_costs(void)
{
	char *heap = malloc(8 * MIB), *pinned = NULL;
	if (!heap || cu.cuMemHostAlloc((void **)&pinned, 8 * MIB, 0))
		return;
	memset(heap, 1, 8 * MIB);
	context_costs();
	pointer_costs(heap, pinned);
	event_costs();
	copy_costs(heap, pinned);
	futex_costs();
	cu.cuMemFreeHost(pinned);
	free(heap);
}

/* ---- chunked pinned copies, and one thread's memcpy ------------------------------------------ */

static double chunked_gbps(char *pinned, size_t chunk, bool h2d, bool events)
{
	CUevent e[16];
	uint64_t best = UINT64_MAX;
	for (int i = 0; i < 16; i++)
		cu.cuEventCreate(&e[i], CU_EVENT_DISABLE_TIMING);
	for (int rep = 0; rep < 3; rep++) {
		uint64_t s = now_ns();
		size_t k = 0;
		for (size_t at = 0; at < PROBE_BYTES; at += chunk, k++) {
			if (h2d)
				cu.cuMemcpyHtoDAsync_v2(probe_block + at, pinned + at, chunk, probe_a);
			else
				cu.cuMemcpyDtoHAsync_v2(pinned + at, probe_block + at, chunk, probe_a);
			if (events)
				cu.cuEventRecord(e[k % 16], probe_a);
		}
		cu.cuStreamSynchronize(probe_a);
		if (now_ns() - s < best)
			best = now_ns() - s;
	}
	for (int i = 0; i < 16; i++)
		cu.cuEventDestroy_v2(e[i]);
	return (double)PROBE_BYTES / (double)best;
}

void probe_bandwidth(void)
{
	char *heap = malloc(PROBE_BYTES), *pinned = NULL, name[64];
	if (!heap || cu.cuMemHostAlloc((void **)&pinned, PROBE_BYTES, 0))
		return;
	memset(heap, 1, PROBE_BYTES);
	memset(pinned, 1, PROBE_BYTES);
	for (size_t chunk = 128 * KIB; chunk <= 64 * MIB; chunk *= 2) {
		snprintf(name, sizeof(name), "gbps.chunked_64MiB.%zuK", chunk / 1024);
		fact(name, "h2d %.1f, h2d with events %.1f, d2h %.1f", chunked_gbps(pinned, chunk, true, false),
			 chunked_gbps(pinned, chunk, true, true), chunked_gbps(pinned, chunk, false, false));
	}
	uint64_t s = now_ns();
	memcpy(pinned, heap, PROBE_BYTES);
	fact("gbps.memcpy_heap_to_pinned", "%.1f", (double)PROBE_BYTES / (double)(now_ns() - s));
	s = now_ns();
	memcpy(heap, pinned, PROBE_BYTES);
	fact("gbps.memcpy_pinned_to_heap", "%.1f", (double)PROBE_BYTES / (double)(now_ns() - s));
	cu.cuMemFreeHost(pinned);
	free(heap);
}
