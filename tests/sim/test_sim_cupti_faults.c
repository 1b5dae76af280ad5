/* LINK: cupti
 *
 * test_sim_cupti_faults.c - the faults that the simulated CUPTI is told to have, and its versions.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/simtest.h"
#include "sim_cupti.h"
#include "tests/gpu/common/cupti_client.h"

#define cupti_ok(call) assert_int_equal((call), CUPTI_SUCCESS)
#define KERNEL CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
#define KERNELS 2000

static const uint32_t kernels[] = {KERNEL, 0};
static CUdeviceptr dev;

static int setup(void **state)
{
	if (simtest_setup(state))
		return -1;
	dev = st_device(4096);
	return 0;
}

static int teardown(void **state)
{
	ok(cuMemFree_v2(dev));
	return simtest_teardown(state);
}

static void fault_set(const char *name, uint64_t value)
{
	assert_int_equal(sim_cupti_fault(name, value), 1);
}

static void launch(int times)
{
	for (int i = 0; i < times; i++)
		st_fill(dev, 1, 1, NULL);
	ok(cuCtxSynchronize());
}

/* Runs work between ct_begin and ct_end with a fault. */
static void with_fault(const char *name, uint64_t value)
{
	cupti_ok(ct_begin(kernels));
	fault_set(name, value);
	launch(KERNELS);
	fault_set(name, 0);
	cupti_ok(ct_end());
}

static void dropped_records_are_counted(void **state)
{
	(void)state;
	size_t dropped;
	cupti_ok(cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped));
	with_fault("DROP", 10);
	cupti_ok(cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped));
	assert_in_range(dropped, KERNELS / 20, KERNELS / 5);
	assert_int_equal(ct_number(KERNEL), KERNELS - (int)dropped);
}

static void zero_timestamps_are_not_counted(void **state)
{
	(void)state;
	size_t dropped;
	int zero = 0;
	uint64_t before = sim_cupti_zeroed();
	with_fault("ZERO", 10);
	for (int i = 0; i < ct_count; i++)
		zero += !ct_records[i].start && !ct_records[i].end;
	assert_int_equal(ct_number(KERNEL), KERNELS);
	assert_in_range(zero, KERNELS / 20, KERNELS / 5);
	assert_int_equal(sim_cupti_zeroed() - before, zero);
	cupti_ok(cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped));
	assert_int_equal(dropped, 0);
}

static void some_end_before_they_start(void **state)
{
	(void)state;
	int backward = 0;
	with_fault("BACKWARD", 10);
	for (int i = 0; i < ct_count; i++)
		backward += ct_records[i].end < ct_records[i].start;
	assert_in_range(backward, KERNELS / 20, KERNELS / 5);
}

static void an_unknown_kind_ends_the_buffer(void **state)
{
	(void)state;
	with_fault("UNKNOWN", 50);
	assert_in_range(ct_number(KERNEL), 1, KERNELS - 1);
}

static void buffers_may_not_come_back(void **state)
{
	(void)state;
	uint64_t held = sim_cupti_buffers_held();
	cupti_ok(ct_begin(kernels));
	fault_set("KEEP", 2);
	launch(KERNELS);
	cupti_ok(ct_end()); /* some are given back at the flush alone */
	fault_set("KEEP", 0);
	assert_true(ct_buffers < ct_requests);
	assert_int_equal(sim_cupti_buffers_held() - held, ct_requests - ct_buffers);
}

static void recording_may_stop_silently(void **state)
{
	(void)state;
	size_t dropped;
	with_fault("SILENT", sim_cupti_records(0) + 100);
	assert_int_equal(ct_number(KERNEL), 100);
	cupti_ok(cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped));
	assert_int_equal(dropped, 0);
}

static void privileges_may_lack(void **state)
{
	(void)state;
	CUpti_SubscriberHandle s = NULL;
	fault_set("DENY", 1);
	assert_int_equal(cuptiActivityEnable(KERNEL), CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
	assert_int_equal(cuptiSubscribe(&s, NULL, NULL), CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
	fault_set("DENY", 0);
}

static void another_tool_may_be_there(void **state)
{
	(void)state;
	char old[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = "";
	CUpti_SubscriberParams p = {CUpti_SubscriberParams_STRUCT_SIZE, NULL, old, sizeof old};
	CUpti_SubscriberHandle s = NULL;
	sim_cupti_foreign(1);
	assert_int_equal(cuptiSubscribe(&s, NULL, NULL), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	assert_int_equal(cuptiSubscribe_v2(&s, NULL, NULL, &p), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	assert_string_equal(old, "Nsight Systems");
	cupti_ok(ct_begin(kernels));
	launch(10);
	assert_int_equal(ct_requests, 0);
	cupti_ok(ct_end());
	assert_int_equal(ct_count, 0);
	sim_cupti_foreign(0);
	cupti_ok(cuptiSubscribe(&s, NULL, NULL));
	cupti_ok(cuptiUnsubscribe(s));
}

static void the_clock_may_settle_late(void **state)
{
	(void)state;
	uint64_t before;
	cupti_ok(cuptiGetTimestamp(&before));
	cupti_ok(ct_begin(kernels));
	fault_set("SETTLE", 100000);
	launch(1);
	fault_set("SETTLE", 0);
	launch(1);
	cupti_ok(ct_end());
	assert_true(ct_records[0].start < before - 1000000000u);
	assert_true(ct_records[1].start > before);
}

static void dirty_requested(uint8_t **buffer, size_t *size, size_t *max)
{
	*buffer = aligned_alloc(64, 4096);
	memset(*buffer, 1, 4096);
	*size = 4096;
	*max = 0;
}

static void plain_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	(void)context;
	(void)stream;
	(void)size;
	(void)valid;
	free(buffer);
}

/* ---- versions: the environment is read at load, so each has a process of its own ---- */

static int run_self(const char *name, const char *value, const char *what)
{
	int status = -1;
	pid_t child = fork();
	if (!child) {
		setenv(name, value, 1);
		execl("/proc/self/exe", "test_sim_cupti_faults", what, (char *)NULL);
		_exit(99);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* The version's number and the length of a kernel's record, as the library steps over it. */
static int print_layout(const char *want)
{
	static uint64_t buffer[256];
	CUpti_Activity *record = NULL;
	uint32_t version = 0;
	char have[64];
	cuptiGetVersion(&version);
	int length = 0;
	for (*(uint32_t *)buffer = KERNEL; length < (int)sizeof buffer; length += 8, record = NULL)
		if (cuptiActivityGetNextRecord((uint8_t *)buffer, (size_t)length, &record) == CUPTI_SUCCESS)
			break;
	snprintf(have, sizeof have, "%u %d", version, length);
	if (!strcmp(have, want))
		return 0;
	printf("%s instead of %s\n", have, want);
	return 1;
}

static void versions_have_their_layouts(void **state)
{
	(void)state;
	assert_int_equal(run_self("SIM_CUPTI_VERSION", "120600", "24 208"), 0);
	assert_int_equal(run_self("SIM_CUPTI_VERSION", "120901", "28 208"), 0);
	assert_int_equal(run_self("SIM_CUPTI_VERSION", "130001", "130001 216"), 0);
	assert_int_equal(run_self("SIM_CUPTI_GROW", "24", "130001 240"), 0);
}

static void no_buffer(uint8_t **buffer, size_t *size, size_t *max)
{
	*buffer = NULL;
	*size = *max = 0;
}

static int give_none(void)
{
	void *unused = NULL;
	if (simtest_setup(&unused))
		return 1;
	return cuptiActivityRegisterCallbacks(no_buffer, plain_completed) || cuptiActivityEnable(KERNEL) ||
		   cuMemAlloc_v2(&dev, 4096) || (st_fill(dev, 1, 1, NULL), 0);
}

static void old_versions_need_buffers(void **state)
{
	(void)state;
	assert_int_equal(run_self("SIM_CUPTI_VERSION", "120600", "none"), -SIGABRT);
	assert_int_equal(run_self("SIM_CUPTI_VERSION", "120900", "none"), 0);
}

static int last_buffers; /* completed after main */

static void late_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	plain_completed(context, stream, buffer, size, valid);
	static const char said[] = "completed while exiting\n";
	if (last_buffers && valid && write(STDOUT_FILENO, said, sizeof said - 1) > 0)
		_exit(42);
}

static int leave_work(void)
{
	void *unused = NULL;
	if (simtest_setup(&unused) || cuMemAlloc_v2(&dev, 4096) ||
		cuptiActivityRegisterCallbacks(dirty_requested, late_completed) || cuptiActivityEnable(KERNEL))
		return 1;
	launch(1);
	last_buffers = 1;
	return 0;
}

static void buffers_may_be_completed_at_exit(void **state)
{
	(void)state;
	assert_int_equal(run_self("SIM_CUPTI_AT_EXIT", "1", "leave"), 42);
	assert_int_equal(run_self("SIM_CUPTI_AT_EXIT", "0", "leave"), 0);
}

/* A build of the library beside the directory of the one that is linked. */
static void *flavour(const char *name)
{
	Dl_info info;
	char path[4096];
	assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "sim_cupti_errors"), &info), 0);
	snprintf(path, sizeof path, "%s", info.dli_fname);
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(path, '/');
		assert_non_null(slash);
		*slash = 0;
	}
	strncat(path, name, sizeof path - strlen(path) - 1);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(library);
	return library;
}

static uint32_t version_of(void *library)
{
	uint32_t version = 0;
	CUptiResult (*get)(uint32_t *) = NULL;
	*(void **)&get = dlsym(library, "cuptiGetVersion");
	assert_non_null(get);
	cupti_ok(get(&version));
	return version;
}

static void there_are_other_builds(void **state)
{
	(void)state;
	void *twelve = flavour("/sim-12/libcupti.so.12"), *old = flavour("/sim-old/libcupti.so.12");
	assert_int_equal(version_of(twelve), 24);
	assert_non_null(dlsym(twelve, "cuptiSubscribe_v2"));
	assert_int_equal(version_of(old), 19);
	assert_null(dlsym(old, "cuptiSubscribe_v2"));
	assert_null(dlsym(old, "cuptiActivityEnableDriverApi"));
	assert_non_null(dlsym(old, "cuptiActivityEnable"));
}

int main(int argc, char **argv)
{
	simtest_only_sim();
	if (argc == 2 && !strcmp(argv[1], "none"))
		return give_none();
	if (argc == 2 && !strcmp(argv[1], "leave"))
		return leave_work();
	if (argc == 2)
		return print_layout(argv[1]);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dropped_records_are_counted), cmocka_unit_test(zero_timestamps_are_not_counted),
		cmocka_unit_test(some_end_before_they_start),  cmocka_unit_test(an_unknown_kind_ends_the_buffer),
		cmocka_unit_test(buffers_may_not_come_back),   cmocka_unit_test(recording_may_stop_silently),
		cmocka_unit_test(privileges_may_lack),         cmocka_unit_test(another_tool_may_be_there),
		cmocka_unit_test(the_clock_may_settle_late),   cmocka_unit_test(versions_have_their_layouts),
		cmocka_unit_test(old_versions_need_buffers),   cmocka_unit_test(buffers_may_be_completed_at_exit),
		cmocka_unit_test(there_are_other_builds),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
