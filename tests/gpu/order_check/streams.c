/*
 * streams.c - order between copies and other work, on every kind of stream.
 */
#include "order.h"

#include <stdlib.h>
#include <string.h>

#define N (24 * MIB)
#define WORDS (N / 4)

static unsigned char *block_new(uint32_t seed)
{
	unsigned char *p = malloc(N);
	if (p)
		pattern_fill(p, N, seed);
	return p;
}
#define BLOCK(name, seed)                  \
	unsigned char *name = block_new(seed); \
	if (!name)                             \
	return case_skip("no memory")

static const char *host_is_word(const unsigned char *p, uint32_t word)
{
	for (size_t i = 0; i < N; i += 4)
		if (memcmp(p + i, &word, 4))
			return case_fail("host byte %zu is wrong", i);
	return NULL;
}

/* A D2H queued behind a slow kernel sees what the kernel wrote. */
static const char *kernel_then_d2h(void)
{
	BLOCK(p, 1);
	CUstream streams[] = {fx.a, fx.nb, NULL};
	const char *why = NULL;
	for (uint32_t i = 0; i < 3 && !why; i++) {
		TRY(launch_spin(streams[i], LATE_MS));
		TRY(launch_fill(streams[i], fx.buf, WORDS, 1000 + i));
		TRY(cu.cuMemcpyDtoHAsync_v2(p, fx.buf, N, streams[i]));
		why = host_is_word(p, 1000 + i);
	}
	free(p);
	return why;
}

/* A kernel queued behind an H2D sees its bytes. */
static const char *h2d_then_kernel(void)
{
	BLOCK(p, 2);
	CUstream streams[] = {fx.a, fx.nb, NULL};
	const char *why = NULL;
	for (uint32_t i = 0; i < 3 && !why; i++) {
		pattern_fill(p, N, 20 + i);
		TRY(launch_fill(streams[i], fx.buf, WORDS, 0));
		TRY(cu.cuMemcpyHtoDAsync_v2(fx.buf, p, N, streams[i]));
		TRY(launch_copy(streams[i], fx.buf2, fx.buf, N));
		memset(p, 0xA5, N);
		why = device_is_pattern(fx.buf2, N, 20 + i);
	}
	free(p);
	return why;
}

/* A kernel queued before an H2D still reads the old bytes. */
static const char *kernel_before_h2d(void)
{
	BLOCK(p, 31);
	const char *why = device_write_pattern(fx.buf, N, 30);
	if (!why) {
		TRY(launch_spin(fx.a, LATE_MS));
		TRY(launch_copy(fx.a, fx.buf2, fx.buf, N));
		TRY(cu.cuMemcpyHtoDAsync_v2(fx.buf, p, N, fx.a));
		why = device_is_pattern(fx.buf2, N, 30);
	}
	if (!why)
		why = device_is_pattern(fx.buf, N, 31);
	free(p);
	return why;
}

/* Work in one stream, an event, a copy in another stream, an event back. */
static const char *events_between_streams(void)
{
	CUevent before, after;
	BLOCK(p, 32);
	TRY(cu.cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
	TRY(cu.cuEventCreate(&after, CU_EVENT_DISABLE_TIMING));
	TRY(launch_spin(fx.nb, LATE_MS));
	TRY(launch_fill(fx.nb, fx.buf, WORDS, 5));
	TRY(cu.cuEventRecord(before, fx.nb));
	TRY(cu.cuStreamWaitEvent(fx.a, before, 0));
	TRY(cu.cuMemcpyHtoDAsync_v2(fx.buf, p, N, fx.a));
	TRY(cu.cuEventRecord(after, fx.a));
	TRY(cu.cuStreamWaitEvent(fx.nb, after, 0));
	TRY(launch_copy(fx.nb, fx.buf2, fx.buf, N));
	memset(p, 0xA5, N);
	free(p);
	STEP(device_is_pattern(fx.buf2, N, 32));
	STEP(device_is_pattern(fx.buf, N, 32));
	TRY(cu.cuEventDestroy_v2(before));
	TRY(cu.cuEventDestroy_v2(after));
	return NULL;
}

/* The legacy default stream waits for blocking streams, and they for it. */
static const char *legacy_default_stream(void)
{
	BLOCK(p, 33);
	const char *why = NULL;
	for (int form = 0; form < 3 && !why; form++) {
		pattern_fill(p, N, 40 + (uint32_t)form);
		TRY(launch_spin(fx.a, LATE_MS));
		TRY(launch_fill(fx.a, fx.buf, WORDS, 7));
		if (form == 0)
			TRY(cu.cuMemcpyHtoD_v2(fx.buf, p, N));
		else
			TRY(cu.cuMemcpyHtoDAsync_v2(fx.buf, p, N, form == 1 ? NULL : CU_STREAM_LEGACY));
		TRY(launch_copy(fx.b, fx.buf2, fx.buf, N));
		memset(p, 0xA5, N);
		why = device_is_pattern(fx.buf2, N, 40 + (uint32_t)form);
	}
	if (!why) {
		TRY(launch_spin(fx.a, LATE_MS));
		TRY(launch_fill(fx.a, fx.buf, WORDS, 9));
		TRY(cu.cuMemcpyDtoH_v2(p, fx.buf, N));
		why = host_is_word(p, 9);
	}
	free(p);
	return why;
}

/* The per-thread default stream, in its own ABI and by its handle. */
static const char *per_thread_default_stream(void)
{
	NEED(cuMemcpyHtoDAsync_v2_ptsz);
	NEED(cuMemcpyHtoD_v2_ptds);
	BLOCK(p, 34);
	const char *why = NULL;
	for (int form = 0; form < 3 && !why; form++) {
		pattern_fill(p, N, 50 + (uint32_t)form);
		TRY(launch_spin(CU_STREAM_PER_THREAD, LATE_MS));
		TRY(launch_fill(CU_STREAM_PER_THREAD, fx.buf, WORDS, 7));
		if (form == 0)
			TRY(cu.cuMemcpyHtoD_v2_ptds(fx.buf, p, N));
		else if (form == 1)
			TRY(cu.cuMemcpyHtoDAsync_v2_ptsz(fx.buf, p, N, NULL));
		else
			TRY(cu.cuMemcpyHtoDAsync_v2(fx.buf, p, N, CU_STREAM_PER_THREAD));
		TRY(launch_copy(CU_STREAM_PER_THREAD, fx.buf2, fx.buf, N));
		memset(p, 0xA5, N);
		why = device_is_pattern(fx.buf2, N, 50 + (uint32_t)form);
	}
	if (!why) {
		TRY(launch_spin(CU_STREAM_PER_THREAD, LATE_MS));
		TRY(launch_fill(CU_STREAM_PER_THREAD, fx.buf, WORDS, 11));
		TRY(cu.cuMemcpyDtoHAsync_v2_ptsz(p, fx.buf, N, NULL));
		why = host_is_word(p, 11);
	}
	free(p);
	return why;
}

/* Copies on other streams do not wait for a kernel that they are not ordered with. */
static const char *unrelated_streams_run_on(void)
{
	struct flag_timer t;
	BLOCK(p, 35);
	TRY(launch_spin_flag(fx.nb));
	if (!flag_timer_start(&t, 2000))
		return case_skip("no thread");
	uint64_t started = now_ns();
	CUresult r = cu.cuMemcpyHtoDAsync_v2(fx.buf, p, N, fx.a);
	if (r == CUDA_SUCCESS)
		r = cu.cuMemcpyHtoD_v2(fx.buf2, p, N);
	if (r == CUDA_SUCCESS)
		r = cu.cuMemcpyDtoHAsync_v2(p, fx.buf, N, fx.a);
	case_info("copies_ms", (double)(now_ns() - started) / 1e6);
	bool waited = flag_timer_stop(&t);
	free(p);
	TRY(r);
	if (waited)
		return case_fail("copies waited for a kernel on a stream that they are not ordered with");
	STEP(device_is_pattern(fx.buf, N, 35));
	return device_is_pattern(fx.buf2, N, 35);
}

/* Up to 2 MiB the call returns before its turn, as the driver's does, and has read the source. */
static const char *small_h2d_returns_early(void)
{
	static const size_t early[] = {64, 4096, 64 * KIB, 1 * MIB, 2 * MIB};
	const unsigned spin_ms = 300;
	BLOCK(p, 36);
	const char *why = NULL;
	for (size_t i = 0; i < sizeof(early) / sizeof(early[0]) && !why; i++) {
		size_t n = early[i];
		pattern_fill(p, n, 60 + (uint32_t)i);
		TRY(launch_spin(fx.a, spin_ms));
		uint64_t started = now_ns();
		TRY(cu.cuMemcpyHtoDAsync_v2(fx.buf, p, n, fx.a));
		double ms = (double)(now_ns() - started) / 1e6;
		memset(p, 0xA5, n);
		if (ms > spin_ms / 2)
			why = case_fail("%zu bytes: the call took %.1f ms behind a kernel of %u ms", n, ms, spin_ms);
		else
			why = device_is_pattern(fx.buf, n, 60 + (uint32_t)i);
	}
	free(p);
	return why;
}

/* Pinned copies stay asynchronous: they return behind a busy stream, and read their source then. */
static const char *pinned_stays_asynchronous(void)
{
	void *p;
	const unsigned spin_ms = 200;
	TRY(cu.cuMemHostAlloc(&p, N, 0));
	pattern_fill(p, N, 1);
	TRY(launch_spin(fx.a, spin_ms));
	uint64_t started = now_ns();
	TRY(cu.cuMemcpyHtoDAsync_v2(fx.buf, p, N, fx.a));
	TRY(cu.cuMemcpyDtoHAsync_v2(p, fx.buf2, 64, fx.a));
	double ms = (double)(now_ns() - started) / 1e6;
	TRY(cu.cuStreamSynchronize(fx.a));
	TRY(cu.cuMemFreeHost(p));
	return ms < spin_ms / 2 ? NULL
							: case_fail("the calls took %.1f ms behind a kernel of %u ms", ms, spin_ms);
}

const struct gpu_case stream_cases[] = {
	{"kernel_then_d2h", kernel_then_d2h},
	{"h2d_then_kernel", h2d_then_kernel},
	{"kernel_before_h2d", kernel_before_h2d},
	{"events_between_streams", events_between_streams},
	{"legacy_default_stream", legacy_default_stream},
	{"per_thread_default_stream", per_thread_default_stream},
	{"unrelated_streams_run_on", unrelated_streams_run_on},
	{"small_h2d_returns_early", small_h2d_returns_early},
	{"pinned_stays_asynchronous", pinned_stays_asynchronous},
	{NULL, NULL},
};
