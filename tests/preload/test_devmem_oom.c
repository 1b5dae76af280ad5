/* ENV: TURBO_DEVMEM=cache TURBO_DEVMEM_CACHE_MB=128 TURBO_COPY=off SIM_DEVICES=1 SIM_MEM_MB=512 */
/*
 * Out of memory: what libturbo keeps is given up first; then the program gets the driver's error, and
 * the log one report that says who holds the memory.
 */
#include "common/devmem_fixture.h"
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT 8192

/* What the log says from here on. The library writes to the stderr that it began with, or to this file. */
static const char *log_file;

static void listen_anew(void)
{
	assert_int_equal(truncate(log_file, 0), 0);
}

static const char *said(void)
{
	static char text[TEXT];
	int fd = open(log_file, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	ssize_t n = read(fd, text, TEXT - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	return text;
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;
	for (const char *p = text; (p = strstr(p, what)); p++)
		n++;
	return n;
}

/* Takes memory in pieces until there is no more; how many. */
static __attribute__((noinline)) unsigned take_all(CUdeviceptr *p, size_t bytes, unsigned most)
{
	unsigned n = 0;
	while (n < most && cu.cuMemAlloc_v2(&p[n], bytes) == CUDA_SUCCESS) {
		n++;
		usleep(2000); /* stacks are sampled at most every half millisecond */
	}
	return n;
}

static void give_all(CUdeviceptr *p, unsigned n)
{
	while (n)
		OK(cu.cuMemFree_v2(p[--n]));
}

/* 100 MiB are kept in pieces that fit no other request; the driver alone would have said no. */
static void what_is_kept_is_given_up_first(void **state)
{
	CUdeviceptr p[25], big;
	(void)state;
	listen_anew();
	for (unsigned i = 0; i < 25; i++)
		p[i] = device_new(4 * MIB);
	give_all(p, 25);
	OK(cu.cuMemAlloc_v2(&big, 480 * MIB));
	OK(cu.cuMemFree_v2(big));
	assert_string_equal(said(), "");
}

static void the_error_comes_with_one_report(void **state)
{
	CUdeviceptr p[64], more;
	(void)state;
	listen_anew();
	unsigned n = take_all(p, 16 * MIB, 64);
	assert_in_range(n, 28, 32);
	assert_int_equal(cu.cuMemAlloc_v2(&more, 16 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cu.cuMemAlloc_v2(&more, 64 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	const char *text = said();
	print_message("%s", text);
	assert_int_equal(count(text, "out of device memory"), 1);
	assert_non_null(strstr(text, "16.0 MiB asked for on device 0"));
	char blocks[64];
	snprintf(blocks, sizeof(blocks), "%.1f MiB in %u blocks, the largest 16.0 MiB", 16.0 * n, n);
	assert_non_null(strstr(text, blocks));
	give_all(p, n);
	OK(cu.cuMemAlloc_v2(&more, 64 * MIB));
	OK(cu.cuMemFree_v2(more));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_kept_is_given_up_first),
		cmocka_unit_test(the_error_comes_with_one_report),
	};
	(void)argc;
	log_file = getenv("TURBO_LOG_FILE");
	if (!log_file) { /* options are read when the library is loaded */
		char name[] = "/tmp/test_devmem_oom.XXXXXX";
		close(mkstemp(name));
		setenv("TURBO_LOG_FILE", name, 1);
		execv("/proc/self/exe", argv);
		return 1;
	}
	devmem_open();
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(log_file);
	return failed;
}
