/* test_proc_stat.c - other processes by their number: alive, ended, another; what they have mapped. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "proc_stat.h"

static uint64_t start_of(pid_t pid)
{
	struct proc_stat s;
	assert_true(proc_stat_read((uint32_t)pid, &s));
	return s.start_ticks;
}

static void nap(void)
{
	struct timespec t = {0, 2000000};
	nanosleep(&t, NULL);
}

/* Until the process is in that state. */
static bool becomes(pid_t pid, char state)
{
	struct proc_stat s;
	for (int i = 0; i < 1000; i++, nap())
		if (proc_stat_read((uint32_t)pid, &s) && s.state == state)
			return true;
	return false;
}

static void test_a_life(void **state)
{
	pid_t pid = fork();
	(void)state;
	if (pid == 0) {
		pause();
		_exit(0);
	}
	uint64_t ticks = start_of(pid);
	assert_int_equal(proc_life((uint32_t)pid, ticks), PROC_RUNS);
	assert_int_equal(proc_life((uint32_t)pid, ticks + 1), PROC_OTHER);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_true(becomes(pid, 'T'));
	assert_int_equal(proc_life((uint32_t)pid, ticks), PROC_RUNS);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_true(becomes(pid, 'Z'));
	assert_int_equal(proc_life((uint32_t)pid, ticks), PROC_ENDED);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	errno = 7;
	assert_int_equal(proc_life((uint32_t)pid, ticks), PROC_ENDED);
	assert_int_equal(errno, 7);
	assert_int_equal(proc_life(0, ticks), PROC_ENDED);
	assert_int_equal(proc_life(UINT32_MAX, ticks), PROC_ENDED); /* -1 would be everybody */
}

static void *wait_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* Its first thread has ended, another goes on: it is shown as a zombie, and is none. */
static void test_first_thread_ends(void **state)
{
	pid_t pid = fork();
	(void)state;
	if (pid == 0) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, wait_for_ever, NULL) != 0)
			_exit(1);
		pthread_exit(NULL);
	}
	uint64_t ticks = start_of(pid);
	assert_true(becomes(pid, 'Z'));
	assert_int_equal(proc_life((uint32_t)pid, ticks), PROC_RUNS);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A name may lie across two reads of the list: mapped at many places of it, it is always found. */
static void test_maps(void **state)
{
	char path[] = "/tmp/turbo-test-proc-stat-XXXXXX";
	int fd = mkstemp(path);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint32_t me = (uint32_t)getpid();
	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)page), 0);
	assert_int_equal(proc_maps(me, path), 0);
	for (int i = 0; i < 200; i++) {
		void *mapped = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
		assert_ptr_not_equal(mapped, MAP_FAILED);
		assert_int_equal(proc_maps(me, path), 1);
		munmap(mapped, page);
		/* Moves the next one down the list; two alike would be one mapping. */
		mapped = mmap(NULL, page, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(mapped, MAP_FAILED);
	}
	assert_int_equal(proc_maps(me, path), 0);
	assert_int_equal(proc_maps(0x7fffffff, path), -1);
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_life),
		cmocka_unit_test(test_first_thread_ends),
		cmocka_unit_test(test_maps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
