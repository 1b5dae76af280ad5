/* ENV: TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=8 SIM_JITTER_US=300 SIM_DMA_US=200 BARE */
/*
 * A copy takes its place among kernels, events and other copies, on every kind of stream, as the
 * driver orders them: what was there before is seen by it, what comes after sees it.
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

#include <stdio.h>

#define SPIN_MS 15
static const size_t sizes[] = {256 * KIB, EARLY_BYTES, 11 * MIB};
#define SIZES 3

static CUstream blocking, nonblocking, other;
static CUdeviceptr a, b; /* 11 and 22 MiB */
static unsigned char *host;

/* A stream as the program names it: a handle, and by which ABI. */
struct where {
	const char *name;
	CUstream stream;
	bool ptsz;
};

static unsigned where_all(struct where *w)
{
	const struct where all[] = {
		{"blocking", blocking, false},
		{"blocking, ptsz", blocking, true},
		{"non-blocking", nonblocking, false},
		{"legacy", NULL, false},
		{"legacy handle, ptsz", CU_STREAM_LEGACY, true},
		{"per-thread", NULL, true},
		{"per-thread handle", CU_STREAM_PER_THREAD, false},
	};
	memcpy(w, all, sizeof(all));
	return sizeof(all) / sizeof(all[0]);
}

static CUresult h2d(const struct where *w, CUdeviceptr d, const void *h, size_t n)
{
	return w->ptsz ? cu.cuMemcpyHtoDAsync_v2_ptsz(d, h, n, w->stream)
				   : cu.cuMemcpyHtoDAsync_v2(d, h, n, w->stream);
}

static CUresult d2h(const struct where *w, void *h, CUdeviceptr d, size_t n)
{
	return w->ptsz ? cu.cuMemcpyDtoHAsync_v2_ptsz(h, d, n, w->stream)
				   : cu.cuMemcpyDtoHAsync_v2(h, d, n, w->stream);
}

static CUresult fill(const struct where *w, CUdeviceptr p, size_t bytes, uint32_t value)
{
	return w->ptsz ? launch_fill_ptsz(w->stream, p, bytes / 4, value)
				   : launch_fill(w->stream, p, bytes / 4, value);
}

static CUresult copy(const struct where *w, CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
	return w->ptsz ? launch_copy_ptsz(w->stream, dst, src, bytes) : launch_copy(w->stream, dst, src, bytes);
}

static CUresult record(const struct where *w, CUevent e)
{
	return w->ptsz ? cu.cuEventRecord_ptsz(e, w->stream) : cu.cuEventRecord(e, w->stream);
}

/* Makes whatever comes next on the stream late, by an event of another stream. */
static void delay(const struct where *w)
{
	CUevent e;
	OK(cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	OK(launch_spin(other, SPIN_MS));
	OK(cu.cuEventRecord(e, other));
	OK(w->ptsz ? cu.cuStreamWaitEvent_ptsz(w->stream, e, 0) : cu.cuStreamWaitEvent(w->stream, e, 0));
	OK(cu.cuEventDestroy_v2(e));
}

typedef void check_fn(const struct where *w, size_t n, uint32_t seed);

static void everywhere(check_fn *check)
{
	struct where w[16];
	unsigned n = where_all(w);
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < SIZES; k++) {
			print_message("%s, %zu bytes\n", w[i].name, sizes[k]);
			check(&w[i], sizes[k], 100 * i + k + 1);
		}
}

/* kernel writes, copy overwrites, kernel reads the copy's bytes */
static void kernels_around(const struct where *w, size_t n, uint32_t seed)
{
	pattern_fill(host, n, seed);
	delay(w);
	OK(fill(w, a, n, 0xdead0000u));
	OK(h2d(w, a, host, n));
	memset(host, 0x33, n);
	OK(copy(w, b, a, n));
	OK(fill(w, a, n, 0xdead0001u));
	DEVICE_IS(b, n, seed);
	assert_int_equal(device_differs_word(a, n, 0xdead0001u), -1);
}

static void between_kernels_to_the_device(void **state)
{
	(void)state;
	everywhere(kernels_around);
}

static void kernel_before_read(const struct where *w, size_t n, uint32_t seed)
{
	device_write(b, n, seed);
	device_write(a, n, seed + 1);
	delay(w);
	OK(copy(w, a, b, n));
	OK(d2h(w, host, a, n));
	HOST_IS(host, n, seed);
	OK(fill(w, a, n, 1));
}

static void after_kernels_from_the_device(void **state)
{
	(void)state;
	everywhere(kernel_before_read);
}

/* Copy in, kernel, copy out, all on one stream, several times without a wait between. */
static void pipeline(const struct where *w, size_t n, uint32_t seed)
{
	unsigned char *back = pages_new(n, 0);
	for (uint32_t i = 0; i < 4; i++) {
		pattern_fill(host, n, seed + i);
		OK(h2d(w, a, host, n));
		OK(copy(w, b, a, n));
		OK(d2h(w, back, b, n));
		HOST_IS(back, n, seed + i);
	}
	pages_free(back, n);
}

static void in_kernel_out(void **state)
{
	(void)state;
	everywhere(pipeline);
}

/* An event recorded behind the copy passes after it: another stream that waits for the event
 * sees the bytes, and so does the host. */
static void events(const struct where *w, size_t n, uint32_t seed)
{
	CUevent e;
	OK(cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	OK(cu.cuMemsetD8_v2(a, 0, n));
	OK(cu.cuCtxSynchronize());
	delay(w);
	pattern_fill(host, n, seed);
	OK(h2d(w, a, host, n));
	OK(record(w, e));
	OK(cu.cuStreamWaitEvent(other, e, 0));
	OK(launch_copy(other, b, a, n));
	OK(cu.cuEventSynchronize(e));
	/* The bytes are there for a stream that nothing orders with this one. */
	OK(launch_copy(nonblocking, b + sizes[SIZES - 1], a, n));
	DEVICE_IS(b, n, seed);
	DEVICE_IS(b + sizes[SIZES - 1], n, seed);
	OK(cu.cuEventDestroy_v2(e));
}

static void an_event_behind_the_copy(void **state)
{
	(void)state;
	everywhere(events);
}

/* Two copies onto the same bytes: the later one wins, from whatever side each is staged. */
static void two(const struct where *w, size_t n, uint32_t seed)
{
	unsigned char *second = pages_new(n, seed + 1);
	pattern_fill(host, n, seed);
	delay(w);
	OK(h2d(w, a, host, n));
	OK(h2d(w, a, second, n / 2));
	OK(cu.cuCtxSynchronize());
	DEVICE_IS(a, n / 2, seed + 1);
	assert_int_equal(device_differs_from(a + n / 2, n / 8, n - n / 2, seed), -1);
	/* A small one, which the driver does itself, behind a staged one. */
	pattern_fill(host, n, seed + 2);
	pattern_fill(second, 4096, seed + 3);
	OK(h2d(w, a, host, n));
	OK(h2d(w, a, second, 4096));
	DEVICE_IS(a, 4096, seed + 3);
	assert_int_equal(device_differs_from(a + 4096, 1024, n - 4096, seed + 2), -1);
	pages_free(second, n);
}

static void the_later_copy_wins(void **state)
{
	(void)state;
	everywhere(two);
}

/* The legacy stream: waits for all blocking streams, and they wait for it. */
static void across_the_legacy_stream(void **state)
{
	(void)state;
	const struct where legacy = {"legacy", NULL, false}, block = {"blocking", blocking, false};
	for (unsigned k = 0; k < SIZES; k++) {
		size_t n = sizes[k];
		/* copy on a blocking stream, then a kernel on the legacy one */
		delay(&block);
		pattern_fill(host, n, k + 1);
		OK(h2d(&block, a, host, n));
		OK(launch_copy(NULL, b, a, n));
		OK(launch_fill(NULL, a, n / 4, 9));
		DEVICE_IS(b, n, k + 1);
		/* copy on the legacy stream, then a kernel on a blocking one */
		OK(launch_spin(NULL, SPIN_MS));
		pattern_fill(host, n, k + 11);
		OK(h2d(&legacy, a, host, n));
		OK(launch_copy(blocking, b, a, n));
		DEVICE_IS(b, n, k + 11);
		/* kernel on a blocking stream, then a copy on the legacy one */
		OK(launch_spin(blocking, SPIN_MS));
		OK(launch_fill(blocking, a, n / 4, 5));
		pattern_fill(host, n, k + 21);
		OK(h2d(&legacy, a, host, n));
		DEVICE_IS(a, n, k + 21);
		/* the same for a copy out, synchronous this time */
		OK(launch_spin(blocking, SPIN_MS));
		OK(launch_fill(blocking, a, n / 4, 0x01010101));
		OK(cu.cuMemcpyDtoH_v2(host, a, n));
		for (size_t i = 0; i < n; i += 511)
			assert_int_equal(host[i], 1);
		/* kernel on the legacy stream, then a copy on a blocking one */
		OK(launch_spin(NULL, SPIN_MS));
		OK(launch_fill(NULL, a, n / 4, 6));
		pattern_fill(host, n, k + 31);
		OK(h2d(&block, a, host, n));
		DEVICE_IS(a, n, k + 31);
	}
}

/* A synchronous copy in has arrived on return, also for streams that nothing orders with it. */
static void a_synchronous_copy_is_done(void **state)
{
	(void)state;
	for (unsigned k = 0; k < SIZES; k++) {
		size_t n = sizes[k];
		OK(cu.cuMemsetD8_v2(a, 0, n));
		OK(cu.cuCtxSynchronize());
		pattern_fill(host, n, k + 1);
		OK(cu.cuMemcpyHtoD_v2(a, host, n));
		OK(launch_copy(nonblocking, b, a, n));
		DEVICE_IS(b, n, k + 1);
	}
}

/* A non-blocking stream is not held up by the legacy stream, nor is a copy on it. */
static void a_copy_waits_for_its_own_stream_alone(void **state)
{
	(void)state;
	const struct where w = {"non-blocking", nonblocking, false};
	OK(launch_spin_flag(NULL));
	pattern_fill(host, sizes[2], 77);
	OK(h2d(&w, a, host, sizes[2]));
	OK(d2h(&w, host, a, sizes[2]));
	OK(cu.cuStreamSynchronize(nonblocking));
	assert_int_equal(cu.cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	*fx.flag = 1;
	HOST_IS(host, sizes[2], 77);
	DEVICE_IS(a, sizes[2], 77);
}

int main(void)
{
	copy_open();
	if (cu.cuStreamCreate(&blocking, CU_STREAM_DEFAULT) ||
		cu.cuStreamCreate(&nonblocking, CU_STREAM_NON_BLOCKING) ||
		cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) || cu.cuMemAlloc_v2(&a, sizes[2]) ||
		cu.cuMemAlloc_v2(&b, 2 * sizes[2]))
		return 1;
	host = pages_new(sizes[2], 0);
	const struct CMUnitTest tests[] = {
		STAGED(between_kernels_to_the_device),
		STAGED(after_kernels_from_the_device),
		STAGED(in_kernel_out),
		STAGED(an_event_behind_the_copy),
		STAGED(the_later_copy_wins),
		STAGED(across_the_legacy_stream),
		STAGED(a_synchronous_copy_is_done),
		STAGED(a_copy_waits_for_its_own_stream_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
