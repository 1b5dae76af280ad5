/* ENV: TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=8 */
/*
 * A program with much thread-local storage, all of which lies in every thread's stack: the
 * workers start all the same.
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>

#define BYTES (3 * MIB)

static __thread volatile unsigned char much[700 * 1024];

static unsigned workers(void)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned n = 0;
	struct dirent *task;
	assert_non_null(tasks);
	while ((task = readdir(tasks))) {
		char path[300], name[32] = "";
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
		FILE *f = fopen(path, "r");
		if (!f)
			continue;
		if (fgets(name, sizeof(name), f))
			n += !strcmp(name, "turbo-copy\n");
		fclose(f);
	}
	closedir(tasks);
	return n;
}

static void workers_start(void **state)
{
	(void)state;
	unsigned char *h = pages_new(BYTES, 1);
	CUdeviceptr d = device_new(BYTES);
	much[0] = 1;
	OK(cu.cuMemcpyHtoD_v2(d, h, BYTES));
	DEVICE_IS(d, BYTES, 1);
	assert_int_equal(workers(), 2);
	device_free(d);
	pages_free(h, BYTES);
}

int main(void)
{
	copy_limit();
	if (!counters_preloaded()) {
		print_message("needs libturbo.so\n");
		return 77;
	}
	copy_open();
	const struct CMUnitTest tests[] = {STAGED(workers_start)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
