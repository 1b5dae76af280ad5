/* ENV: TURBO_DEVMEM_CACHE_MB=256 */
/*
 * Under a memory checker or a debugger every allocation and every free reaches the driver: from the
 * start, or from when a debugger attaches, and what was kept until then is given back.
 */
#include "common/copy_fixture.h"
#include "common/modes.h"
#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (4 * MIB)

static uint32_t *debugger_flag; /* the debugger writes it */

static bool keeps(void)
{
	const char *mode = getenv("TURBO_DEVMEM");
	return fx.preloaded && mode && strcmp(mode, "off");
}

/* Of so many pairs of free and allocation, how many the driver was not asked for. */
static unsigned kept_of(unsigned pairs, size_t bytes)
{
	unsigned kept = 0;
	CUdeviceptr p = device_new(bytes);

	for (unsigned i = 0; i < pairs; i++) {
		uint64_t calls = sim.calls("cuMemAlloc_v2");
		device_free(p);
		OK(cu.cuCtxSynchronize());
		usleep(2000); /* a fence passes */
		p = device_new(bytes);
		kept += sim.calls("cuMemAlloc_v2") == calls;
	}
	device_free(p);
	return kept;
}

/* Of so many stream-ordered allocations, how many the driver was not asked for. */
static unsigned ordered_of(unsigned count)
{
	unsigned kept = 0;
	CUdeviceptr p;

	for (unsigned i = 0; i < count; i++) {
		uint64_t calls = sim.calls("cuMemAllocAsync");
		OK(cu.cuMemAllocAsync(&p, BYTES, NULL));
		kept += sim.calls("cuMemAllocAsync") == calls;
		OK(cu.cuMemFreeAsync(p, NULL));
	}
	OK(cu.cuCtxSynchronize());
	return kept;
}

static void stream_ordered_memory_too(void **state)
{
	(void)state;
	const char *mode = getenv("TURBO_DEVMEM");
	CUdeviceptr held;
	OK(cu.cuMemAllocAsync(&held, BYTES, NULL));
	assert_int_equal(ordered_of(10), fx.preloaded && mode && !strcmp(mode, "stream") ? 10 : 0);
	*debugger_flag = 1;
	assert_int_equal(ordered_of(10), 0);
	/* What the heap gave before is still its own. */
	CUdeviceptr base;
	size_t bytes;
	OK(cu.cuMemGetAddressRange_v2(&base, &bytes, held + 5));
	assert_int_equal(base, held);
	assert_int_equal(bytes, BYTES);
	OK(cu.cuMemFreeAsync(held, NULL));
	*debugger_flag = 0;
}

static void a_debugger_attaches(void **state)
{
	(void)state;
	uint64_t before = sim.live_allocs();
	CUdeviceptr held = device_new(BYTES);
	unsigned kept = kept_of(20, BYTES) + kept_of(20, 64 * KIB);
	if (keeps())
		assert_in_range(kept, 10, 40);
	else
		assert_int_equal(kept, 0);
	*debugger_flag = 1;
	CUdeviceptr p = device_new(16 * MIB);
	/* What was kept is the driver's again: what lives is what the program holds. */
	assert_int_equal(sim.live_allocs(), before + 2);
	assert_int_equal(kept_of(10, BYTES), 0);
	uint64_t frees = sim.calls("cuMemFree_v2");
	device_free(held); /* from before */
	device_free(p);
	assert_int_equal(sim.calls("cuMemFree_v2"), frees + 2);
	assert_int_equal(sim.live_allocs(), before);
	*debugger_flag = 0; /* it has gone: nothing begins anew */
	assert_int_equal(kept_of(3, BYTES), 0);
}

/* ---- from the start ---- */

static const char *const checkers[][2] = {
	{"NV_SANITIZER_INJECTION_PORT_BASE", "49152"},
	{"CUDA_INJECTION64_PATH", "/opt/compute-sanitizer/libsanitizer-collection.so"},
};

static int checked_process(void)
{
	int bad = kept_of(5, BYTES) != 0;
	if (bad)
		printf("memory was kept under %s\n", getenv(checkers[0][0]) ? checkers[0][0] : checkers[1][0]);
	return bad;
}

static void a_checker_is_there_from_the_start(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		int status;
		pid_t pid = fork();
		if (pid == 0) {
			setenv(checkers[i][0], checkers[i][1], 1);
			execl("/proc/self/exe", "test_devmem_answers_debugger", "checked", (char *)NULL);
			_exit(127);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

int main(int argc, char **argv)
{
	int status = modes_main(argv);

	if (status >= 0)
		return status;
	copy_limit();
	copy_open();
	debugger_flag = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "cudbgIpcFlag");
	if (!sim.calls || !debugger_flag) {
		printf("plays the debugger on the simulated driver only\n");
		return 77;
	}
	if (argc > 1)
		return checked_process();
	const struct CMUnitTest tests[] = {
		EITHER(a_checker_is_there_from_the_start),
		EITHER(stream_ordered_memory_too),
		EITHER(a_debugger_attaches),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
