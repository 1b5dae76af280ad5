/* ENV: TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=16 BARE */
/*
 * A source that is written before the copy's turn on its stream. The driver reads at most the
 * first 2 MiB earlier; all other bytes must be the late ones. What holds the stream back is a
 * thing that libturbo cannot see the end of: a host function, a wait-value, a kernel that spins
 * on a flag, an event of another process.
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (9 * MIB)
#define LATE_MS 40

static CUstream stream;
static CUdeviceptr d;
static unsigned char *host;
static CUevent remote; /* of another process; NULL: it cannot be had here */
static int remote_go[2] = {-1, -1};

/* Words at or beyond the early bytes must be of `late`, those before of either, and each word
 * must be whole. `host` is the device's copy. */
static void check_mixed(const unsigned char *seen, size_t n, uint32_t old, uint32_t late)
{
	for (size_t i = 0; i < n / 4; i++) {
		uint32_t word, was = pattern_word(i, old), is = pattern_word(i, late);
		memcpy(&word, seen + 4 * i, 4);
		if (word != is && !(4 * i < EARLY_BYTES && word == was))
			fail_msg("word at byte %zu of %zu is %s", 4 * i, n, word == was ? "an old one" : "neither");
	}
}

static void read_back(unsigned char *to, CUdeviceptr from, size_t n)
{
	void *pinned;
	OK(cu.cuCtxSynchronize());
	OK(cu.cuMemHostAlloc(&pinned, n, 0));
	OK(cu.cuMemcpyDtoH_v2(pinned, from, n));
	memcpy(to, pinned, n);
	OK(cu.cuMemFreeHost(pinned));
}

/* The writers: rewrite the source, then let the stream go on. */
static uint32_t late_seed;
static size_t late_bytes;

/* The bytes that may be read early may be rewritten meanwhile: a race that is allowed, and that
 * ThreadSanitizer would report. */
static void rewrite(void)
{
	size_t from = !fx.tsan ? 0 : late_bytes < EARLY_BYTES ? late_bytes : EARLY_BYTES;
	sleep_ms(LATE_MS);
	pattern_fill_from(host + from, from / 4, late_bytes - from, late_seed);
}

static void host_function(void *arg)
{
	(void)arg;
	rewrite();
}

static void stream_callback(CUstream s, CUresult r, void *arg)
{
	(void)s, (void)r, (void)arg;
	rewrite();
}

static void *raise_flag(void *arg)
{
	(void)arg;
	rewrite();
	__atomic_store_n(fx.flag, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void *let_remote_go(void *arg)
{
	(void)arg;
	rewrite();
	if (write(remote_go[1], "g", 1) != 1)
		_exit(4);
	return NULL;
}

enum holder { HOST_FUNCTION, CALLBACK, WAIT_VALUE, SPINNING_KERNEL, OTHER_PROCESS };

static bool hold(enum holder what, pthread_t *thread)
{
	__atomic_store_n(fx.flag, 0, __ATOMIC_RELEASE);
	switch (what) {
	case HOST_FUNCTION: OK(cu.cuLaunchHostFunc(stream, host_function, NULL)); return false;
	case CALLBACK: OK(cu.cuStreamAddCallback(stream, stream_callback, NULL, 0)); return false;
	case WAIT_VALUE: OK(cu.cuStreamWaitValue32_v2(stream, fx.flag_dev, 1, CU_STREAM_WAIT_VALUE_EQ)); break;
	case SPINNING_KERNEL: OK(launch_spin_flag(stream)); break;
	case OTHER_PROCESS: OK(cu.cuStreamWaitEvent(stream, remote, 0)); break;
	}
	assert_int_equal(pthread_create(thread, NULL, what == OTHER_PROCESS ? let_remote_go : raise_flag, NULL),
					 0);
	return true;
}

static void late_writer(enum holder what, size_t n, bool sync)
{
	static uint32_t seed = 10;
	pthread_t thread;
	uint32_t old = ++seed;
	late_seed = ++seed;
	late_bytes = n;
	pattern_fill(host, n, old);
	OK(cu.cuMemsetD8_v2(d, 0, n));
	OK(cu.cuCtxSynchronize());
	uint64_t started = now_ns();
	bool thread_runs = hold(what, &thread);
	if (sync) {
		/* A blocking stream holds the legacy one back. */
		OK(cu.cuMemcpyHtoD_v2(d, host, n));
	} else {
		OK(cu.cuMemcpyHtoDAsync_v2(d, host, n, stream));
		bool early = n <= EARLY_BYTES && now_ns() - started < LATE_MS * 1000000ull / 2;
		if (n <= EARLY_BYTES && !early)
			print_message("%zu bytes: the call waited\n", n);
		if (n > EARLY_BYTES)
			assert_false(now_ns() - started < LATE_MS * 1000000ull / 2);
	}
	if (thread_runs)
		pthread_join(thread, NULL);
	OK(cu.cuCtxSynchronize());
	unsigned char *seen = pages_new(n, 0);
	read_back(seen, d, n);
	check_mixed(seen, n, old, late_seed);
	pages_free(seen, n);
}

static void all_sizes(enum holder what)
{
	static const size_t sizes[] = {EARLY_BYTES + 4, 3 * MIB, BYTES};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		late_writer(what, sizes[i], false);
		late_writer(what, sizes[i], true);
	}
	/* All of it may be read early; it must be whole words of one or the other. */
	late_writer(what, EARLY_BYTES, false);
	late_writer(what, 128 * KIB, false);
}

static void a_host_function(void **state)
{
	(void)state;
	all_sizes(HOST_FUNCTION);
}

static void a_stream_callback(void **state)
{
	(void)state;
	all_sizes(CALLBACK);
}

static void a_wait_value(void **state)
{
	(void)state;
	all_sizes(WAIT_VALUE);
}

static void a_kernel_that_spins_on_a_flag(void **state)
{
	(void)state;
	all_sizes(SPINNING_KERNEL);
}

/* A copy of at most 2 MiB behind work that only its own thread ends must return, as it does
 * bare: here the flag is raised after the call. */
static void early_copies_do_not_wait(void **state)
{
	(void)state;
	static const size_t sizes[] = {64 * KIB, MIB, EARLY_BYTES};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		pattern_fill(host, BYTES, (uint32_t)i);
		OK(cu.cuStreamWaitValue32_v2(stream, fx.flag_dev, 1, CU_STREAM_WAIT_VALUE_EQ));
		/* Many: more than the ring has room for. */
		for (unsigned k = 0; k < 16; k++)
			OK(cu.cuMemcpyHtoDAsync_v2(d + (k % 4) * EARLY_BYTES, host, sizes[i], stream));
		memset(host, 0xcc, sizes[i]);
		assert_int_equal(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
		__atomic_store_n(fx.flag, 1, __ATOMIC_RELEASE);
		for (unsigned k = 0; k < 4; k++)
			DEVICE_IS(d + k * EARLY_BYTES, sizes[i], (uint32_t)i);
		__atomic_store_n(fx.flag, 0, __ATOMIC_RELEASE);
	}
}

/* Device to host always waits for the stream: the device bytes are late here. */
static void from_the_device_it_waits(void **state)
{
	(void)state;
	static const size_t sizes[] = {128 * KIB, EARLY_BYTES, BYTES};
	CUdeviceptr late = device_new(BYTES);
	device_write(late, BYTES, 5);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		device_write(d, BYTES, 4);
		OK(launch_spin(stream, LATE_MS));
		OK(launch_copy(stream, d, late, BYTES));
		OK(cu.cuMemcpyDtoHAsync_v2(host, d, sizes[i], stream));
		HOST_IS(host, sizes[i], 5);
	}
	device_free(late);
}

/* ---- an event of another process ---- */

static int other_process(const char *in, const char *out)
{
	int from = atoi(in), to = atoi(out);
	CUcontext ctx;
	CUstream s;
	CUevent e;
	CUipcEventHandle handle;
	char go;
	if (!cu.cuIpcGetEventHandle)
		return 77;
	if (cu.cuDevicePrimaryCtxRetain(&ctx, 0) || cu.cuCtxSetCurrent(ctx) ||
		cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) ||
		cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS) ||
		cu.cuIpcGetEventHandle(&handle, e))
		return 1;
	/* Recorded behind a wait that ends when the parent says so. */
	while (cu.cuStreamWaitValue32_v2(s, fx.flag_dev, 1, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS) {
		if (cu.cuEventRecord(e, s) || write(to, &handle, sizeof(handle)) != (ssize_t)sizeof(handle))
			return 1;
		if (read(from, &go, 1) != 1)
			_exit(0);
		__atomic_store_n(fx.flag, 1, __ATOMIC_RELEASE);
		if (cu.cuStreamSynchronize(s))
			return 1;
		__atomic_store_n(fx.flag, 0, __ATOMIC_RELEASE);
	}
	return 1;
}

static void an_event_of_another_process(void **state)
{
	(void)state;
	static const size_t sizes[] = {3 * MIB, BYTES};
	uint64_t staged = copy_staged();
	int back[2];
	char in[16], out[16];
	assert_int_equal(pipe(remote_go), 0);
	assert_int_equal(pipe(back), 0);
	snprintf(in, sizeof(in), "%d", remote_go[0]);
	snprintf(out, sizeof(out), "%d", back[1]);
	pid_t pid = fork();
	if (pid == 0) {
		close(remote_go[1]);
		close(back[0]);
		execl("/proc/self/exe", "test_copy_late", in, out, (char *)NULL);
		_exit(127);
	}
	close(remote_go[0]);
	close(back[1]);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		CUipcEventHandle handle;
		if (read(back[0], &handle, sizeof(handle)) != (ssize_t)sizeof(handle))
			break; /* it says why by its status */
		if (!remote)
			OK(cu.cuIpcOpenEventHandle(&remote, handle));
		late_writer(OTHER_PROCESS, sizes[i], false);
	}
	close(remote_go[1]);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		copy_skip("the driver shares no events between processes");
	assert_int_equal(status, 0);
	OK(cu.cuEventDestroy_v2(remote));
	if (fx.preloaded)
		assert_int_equal(copy_staged() - staged, 2);
}

int main(int argc, char **argv)
{
	copy_open();
	if (argc == 3)
		return other_process(argv[1], argv[2]);
	if (cu.cuStreamCreate(&stream, CU_STREAM_DEFAULT) || cu.cuMemAlloc_v2(&d, BYTES))
		return 1;
	host = pages_new(BYTES, 0);
	const struct CMUnitTest tests[] = {
		STAGED(a_host_function),
		STAGED(a_stream_callback),
		STAGED(a_wait_value),
		STAGED(a_kernel_that_spins_on_a_flag),
		STAGED(early_copies_do_not_wait),
		STAGED(from_the_device_it_waits),
		EITHER(an_event_of_another_process),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
