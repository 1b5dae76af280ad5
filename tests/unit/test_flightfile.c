/*
 * test_flightfile.c - the flight file is a copy of the record, whole for whoever reads it; a child's, and the exit.
 */
#define _GNU_SOURCE
#include "flightfile_rig.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

#include "policy/nccl/flight_thread.h"
#include "proc_stat.h"

int ncclCommDestroy(void *comm);

static void the_file_follows_the_record(void **state)
{
	(void)state;
	void *comm = comm_new(), *other = comm_new();

	assert_memory_equal(page->magic, FLIGHT_MAGIC, 8);
	assert_int_equal(page->pid, getpid());
	assert_int_equal(proc_life(page->pid, page->start_ticks), PROC_RUNS);
	copy();
	assert_whole(path);
	assert_int_equal(proc_maps((uint32_t)getpid(), strrchr(path, '/')), 1);
	for (unsigned i = 0; i < 700; i++) {
		reduce(comm, i);
		if (i % 97 == 0 || i == 699) {
			copy();
			assert_whole(path);
		}
	}
	/* What is told later of operations that are there. */
	struct flight_comm *c = flight_comm_of(comm);
	for (uint64_t i = c->issued - 200; i <= c->issued; i += 3) {
		c->op[i % FLIGHT_OPS].started = i;
		c->op[i % FLIGHT_OPS].done = 2 * i;
	}
	c->done = c->issued;
	copy();
	assert_whole(path);
	page->heartbeat = 5;
	page->wait[3].since = 7;
	memcpy(page->sites + page->site_bytes, "a stack", 8);
	page->site_bytes += 8;
	strcpy(page->dump.text, "thread 1\n");
	page->dump.bytes = 9;
	page->dump.version = 2;
	copy();
	assert_whole(path);
	/* Another one in its place. */
	ncclCommDestroy(comm);
	for (unsigned i = 0; i < FLIGHT_COMMS; i++)
		comm_new();
	reduce(other, 1);
	copy();
	assert_whole(path);
	assert_int_equal(page->comm_high, FLIGHT_COMMS);
}

static void of_nothing_new_little_is_written(void **state)
{
	(void)state;
	uint64_t calls[2];

	copy();
	for (unsigned i = 0; i < 2; i++) {
		FILE *f = fopen("/proc/self/io", "r");
		char line[100];
		assert_non_null(f);
		while (fgets(line, sizeof(line), f) && sscanf(line, "syscw: %lu", &calls[i]) != 1)
			;
		fclose(f);
		for (unsigned k = 0; k < 40 && i == 0; k++)
			copy();
	}
	assert_in_range(calls[1] - calls[0], 0, 2);
}

/* ---- others at the same time ---- */

static _Atomic bool stop;

static void *copies(void *arg)
{
	while (!stop)
		flight_file_copy();
	return arg;
}

static void *issues(void *comm)
{
	for (size_t i = 0; !stop; i++)
		reduce(comm, i % 1000);
	return NULL;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void readers_see_whole_operations(void **state)
{
	(void)state;
	pthread_t copier, issuer;
	void *comm = comm_new();
	struct flight_comm *c = flight_comm_of(comm), head;
	unsigned place = (unsigned)(c - comms_at(page, 0)), seen = 0;
	uint64_t end;
	struct flight_op op;
	int fd;

	copy();
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	pthread_create(&copier, NULL, copies, NULL);
	pthread_create(&issuer, NULL, issues, comm);
	for (end = now_ns() + 700000000; now_ns() < end;) {
		assert_true(read_at(fd, &head, offsetof(struct flight_comm, op), place_of(place)));
		for (uint64_t i = head.issued > 8 ? head.issued - 8 : 1; i <= head.issued; i++) {
			if (!read_op(fd, place, i, &op) || op.index != i || op.function != FLIGHT_ALL_REDUCE)
				continue; /* overwritten by now */
			assert_int_equal(op.bytes, op.count * 4);
			assert_int_equal(op.count, (i - 2) % 1000);
			assert_int_equal(op.sequence, i);
			assert_true(op.issued != 0);
			seen++;
		}
	}
	stop = true;
	pthread_join(copier, NULL);
	pthread_join(issuer, NULL);
	close(fd);
	assert_true(seen > 100);
	copy();
	assert_whole(path);
}

static void a_child_has_no_part_in_it(void **state)
{
	(void)state;
	pid_t child = fork();
	int status;

	if (child == 0) {
		flight_fork_child();
		flight_file_fork_child();
		bool good = !flight_file_copy();
		void *comm = comm_new();
		reduce(comm, 1);
		flight_file_end();
		_exit(good && !flight_comm_of(comm) ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_whole(path);
	/* One of clone() runs no handlers. */
	page->pid++;
	flight_file_end();
	page->pid--;
	copy();
	assert_whole(path);
}

/* Last. */
static void at_the_end_it_says_so_and_is_gone(void **state)
{
	(void)state;
	static struct flight_page header;
	int fd = open(path, O_RDONLY);

	page->leaving = 1;
	flight_file_end();
	assert_int_equal(access(path, F_OK), -1);
	assert_true(read_at(fd, &header, sizeof(header), 0));
	assert_int_equal(header.leaving, 1);
	close(fd);
	assert_false(flight_file_copy());
	flight_file_end();
	assert_int_equal(access(path, F_OK), -1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, rig_setup)
	const struct CMUnitTest tests[] = {
		TEST(the_file_follows_the_record),
		TEST(of_nothing_new_little_is_written),
		TEST(readers_see_whole_operations),
		TEST(a_child_has_no_part_in_it),
	};
	/* Nothing comes after it. */
	const struct CMUnitTest last[] = {TEST(at_the_end_it_says_so_and_is_gone)};

	if (!mkdtemp(tmp_dir))
		return 1;
	setenv("TMPDIR", tmp_dir, 1);
	path_in(path, "/dev/shm", getpid());
	flight_switch(true);
	page = flight_open(NULL);
	int failed = cmocka_run_group_tests(tests, NULL, NULL) + harm_tests() +
				 cmocka_run_group_tests_name("exit", last, NULL, NULL);
	rmdir(tmp_dir);
	return failed;
}
