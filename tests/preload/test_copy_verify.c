/* ENV: TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=8 TURBO_VERIFY=1 TURBO_LOG=none */
/*
 * TURBO_VERIFY=1 compares every staged copy, waits for nothing that the copy itself would not
 * wait for, and switches staging off at the first difference.
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static CUstream stream;

static void every_copy_is_compared(void **state)
{
	(void)state;
	static const size_t sizes[] = {64 * KIB, MIB + 1, EARLY_BYTES, 3 * MIB, 19 * MIB + 5};
	uint64_t verified = counter("copy.verified"), staged = copy_staged();
	for (uint32_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t n = sizes[i / 2];
		CUdeviceptr d = device_new(n);
		unsigned char *h = pages_new(n, i);
		OK(i % 2 ? cu.cuMemcpyHtoD_v2(d, h, n) : cu.cuMemcpyHtoDAsync_v2(d, h, n, stream));
		memset(h, 0, n);
		DEVICE_IS(d, n, i);
		OK(i % 2 ? cu.cuMemcpyDtoH_v2(h, d, n) : cu.cuMemcpyDtoHAsync_v2(h, d, n, stream));
		HOST_IS(h, n, i);
		pages_free(h, n);
		device_free(d);
	}
	assert_int_equal(copy_staged() - staged, 4 * sizeof(sizes) / sizeof(sizes[0]));
	assert_int_equal(counter("copy.verified") - verified, copy_staged() - staged);
}

/* The stream goes on only after the call has returned. */
static void a_blocked_stream_is_not_waited_for(void **state)
{
	(void)state;
	CUdeviceptr d = device_new(EARLY_BYTES);
	unsigned char *h = pages_new(EARLY_BYTES, 5);
	uint64_t verified = counter("copy.verified");
	OK(cu.cuStreamWaitValue32_v2(stream, fx.flag_dev, 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cu.cuMemcpyHtoDAsync_v2(d, h, EARLY_BYTES, stream));
	memset(h, 0, EARLY_BYTES);
	assert_int_equal(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	assert_int_equal(counter("copy.verified") - verified, 1);
	__atomic_store_n(fx.flag, 1, __ATOMIC_RELEASE);
	DEVICE_IS(d, EARLY_BYTES, 5);
	pages_free(h, EARLY_BYTES);
	device_free(d);
}

/* A source that is written before the copy's turn is no difference, though parts of it may have
 * been read before. */
static unsigned char *late_source;
static size_t late_bytes;

static void write_late(void *arg)
{
	sleep_ms(fx.tsan ? 1 : 3);
	/* ThreadSanitizer would report the race that is allowed. */
	size_t keep = !fx.tsan ? 0 : late_bytes < EARLY_BYTES ? late_bytes : EARLY_BYTES;
	memset(late_source + keep, *(const unsigned char *)arg, late_bytes - keep);
}

static void a_late_source_is_no_difference(void **state)
{
	(void)state;
	static const size_t sizes[] = {64 * KIB, 3 * MIB, 9 * MIB};
	for (unsigned i = 0; i < 9; i++) {
		late_bytes = sizes[i % 3];
		unsigned char value = (unsigned char)(i + 1);
		CUdeviceptr d = device_new(late_bytes);
		late_source = pages_new(late_bytes, i);
		OK(cu.cuLaunchHostFunc(stream, write_late, &value));
		uint64_t staged = copy_staged();
		OK(cu.cuMemcpyHtoDAsync_v2(d, late_source, late_bytes, stream));
		OK(cu.cuStreamSynchronize(stream));
		assert_int_equal(copy_staged() - staged, 1);
		pages_free(late_source, late_bytes);
		device_free(d);
	}
}

/* ---- a difference ---- */

/* Another process changes the source all the time, so sooner or later it is no longer what was
 * copied when it is compared. */
static void a_difference_switches_staging_off(void **state)
{
	(void)state;
	const size_t n = 3 * MIB;
	CUdeviceptr d = device_new(n);
	unsigned char *victim = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(victim, MAP_FAILED);
	pid_t scribbler = fork();
	if (scribbler == 0)
		for (;;)
			__atomic_fetch_add(&victim[EARLY_BYTES / 2], 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 2000 && !counter("copy.mismatch"); i++)
		OK(cu.cuMemcpyHtoD_v2(d, victim, n));
	kill(scribbler, SIGKILL);
	waitpid(scribbler, NULL, 0);
	assert_int_equal(counter("copy.mismatch"), 1);
	assert_int_equal(counter("copy.fallback"), 1);
	uint64_t staged = copy_staged();
	pattern_fill(victim, n, 9);
	OK(cu.cuMemcpyHtoD_v2(d, victim, n));
	memset(victim, 0, n);
	DEVICE_IS(d, n, 9);
	OK(cu.cuMemcpyDtoH_v2(victim, d, n));
	HOST_IS(victim, n, 9);
	assert_int_equal(copy_staged(), staged);
	munmap(victim, n);
	device_free(d);
}

int main(void)
{
	copy_limit();
	copy_open();
	if (!fx.preloaded)
		return 77;
	if (cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
		return 1;
	const struct CMUnitTest tests[] = {
		STAGED(every_copy_is_compared),
		STAGED(a_blocked_stream_is_not_waited_for),
		STAGED(a_late_source_is_no_difference),
		/* Last: nothing is staged afterwards. */
		cmocka_unit_test(a_difference_switches_staging_off),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
