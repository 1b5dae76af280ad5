/* ENV: TURBO_DEVMEM_CACHE_MB=128 TURBO_COPY=off SIM_DEVICES=1 SIM_MEM_MB=512 */
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
#include <sys/wait.h>
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

static void one_block_is_one_block(void **state)
{
	CUdeviceptr p = device_new(480 * MIB), more;
	(void)state;
	listen_anew();
	assert_int_equal(cu.cuMemAlloc_v2(&more, 64 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	const char *text = said();
	print_message("%s", text);
	assert_non_null(strstr(text, "480.0 MiB in 1 block, the largest 480.0 MiB"));
	device_free(p);
}

/* The same of the heap that serves cuMemAllocAsync. */
static void the_heaps_end_is_reported_too(void **state)
{
	CUdeviceptr p[64];
	CUstream stream;
	unsigned n = 0;
	(void)state;
	OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	listen_anew();
	while (n < 64 && cu.cuMemAllocAsync(&p[n], 16 * MIB, stream) == CUDA_SUCCESS)
		n++;
	assert_in_range(n, 28, 32);
	const char *text = said();
	print_message("%s", text);
	assert_int_equal(count(text, "out of device memory"), 1);
	char held[64];
	snprintf(held, sizeof(held), "cuMemAllocAsync: %.1f MiB, in %.1f MiB", 16.0 * n, 16.0 * n);
	assert_non_null(strstr(text, held));
	while (n)
		OK(cu.cuMemFreeAsync(p[--n], stream));
	OK(cu.cuStreamSynchronize(stream));
	OK(cu.cuStreamDestroy_v2(stream));
}

/* Options are read when the library is loaded, and there is one report a process: each is one of its own, with a
 * log file. */
static int in_mode(const char *mode, const char *tests)
{
	char name[] = "/tmp/test_devmem_oom.XXXXXX";
	int status = -1;
	close(mkstemp(name));
	pid_t child = fork();
	if (!child) {
		setenv("TURBO_LOG_FILE", name, 1);
		setenv("TURBO_DEVMEM", mode, 1);
		execl("/proc/self/exe", "test_devmem_oom", tests, NULL);
		_exit(1);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		status = -1;
	unlink(name);
	return status;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest cached[] = {
		cmocka_unit_test(what_is_kept_is_given_up_first),
		cmocka_unit_test(the_error_comes_with_one_report),
	};
	const struct CMUnitTest one[] = {
		cmocka_unit_test(one_block_is_one_block),
	};
	const struct CMUnitTest streamed[] = {
		cmocka_unit_test(the_heaps_end_is_reported_too),
	};
	if (argc < 2)
		return in_mode("cache", "cached") | in_mode("cache", "one") | in_mode("stream", "streamed") ? 1 : 0;
	log_file = getenv("TURBO_LOG_FILE");
	devmem_open();
	if (strcmp(argv[1], "cached") == 0)
		return cmocka_run_group_tests(cached, NULL, NULL);
	return strcmp(argv[1], "one") == 0 ? cmocka_run_group_tests(one, NULL, NULL)
									   : cmocka_run_group_tests(streamed, NULL, NULL);
}
