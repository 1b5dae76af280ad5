/* NATIVE: races between threads that must run at once. */
/*
 * test_flightfile.c - the flight file is a copy of the record, whole for whoever reads it; a child's, and the exit.
 */
#define _GNU_SOURCE
#include "flightfile_rig.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
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

/* All operations of a ring that a reader takes for whole say what they should; returns how many these are. */
static unsigned check_ring(int fd, unsigned place)
{
	static struct flight_op op[FLIGHT_OPS], again[FLIGHT_OPS];
	off_t at = place_of(place) + (off_t)offsetof(struct flight_comm, op);
	unsigned whole = 0;

	if (!read_at(fd, op, sizeof(op), at) || !read_at(fd, again, sizeof(again), at))
		return 0;
	for (unsigned i = 0; i < FLIGHT_OPS; i++) {
		if (op[i].version % 2 || op[i].version != again[i].version || op[i].function != FLIGHT_ALL_REDUCE)
			continue;
		assert_int_equal(op[i].index % FLIGHT_OPS, i);
		assert_int_equal(op[i].count, (op[i].index - 2) % 1000);
		assert_int_equal(op[i].bytes, op[i].count * 4);
		assert_int_equal(op[i].sequence, op[i].index);
		assert_int_equal(op[i].stream, 0x1000 + op[i].count);
		assert_true(op[i].issued != 0);
		whole++;
	}
	return whole;
}

static void readers_see_whole_operations(void **state)
{
	(void)state;
	pthread_t copier, issuer;
	void *comm = comm_new();
	unsigned place = (unsigned)(flight_comm_of(comm) - comms_at(page, 0)), whole = 0;
	int fd;

	copy();
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	pthread_create(&copier, NULL, copies, NULL);
	pthread_create(&issuer, NULL, issues, comm);
	for (uint64_t end = now_ns() + 500000000; now_ns() < end;)
		whole += check_ring(fd, place);
	stop = true;
	pthread_join(copier, NULL);
	pthread_join(issuer, NULL);
	close(fd);
	assert_true(whole > 1000);
	copy();
	assert_whole(path);
}

/* Whatever a reader catches of a write that has come half the way, and in whatever order it does. */
static struct {
	int fd; /* the reader's; 0: none */
	unsigned place, checked, whole;
	bool backwards;
	size_t cut;
} slow;

static ssize_t write_part(int fd, const char *from, size_t bytes, off_t at)
{
	return syscall(SYS_pwrite64, fd, from, bytes, at);
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at)
{
	size_t cut = slow.cut < bytes ? slow.cut : bytes;

	if (!slow.fd)
		return write_part(fd, from, bytes, at);
	if (slow.backwards)
		write_part(fd, (const char *)from + cut, bytes - cut, at + (off_t)cut);
	else
		write_part(fd, from, cut, at);
	slow.whole += check_ring(slow.fd, slow.place);
	slow.checked++;
	return write_part(fd, from, bytes, at);
}

static void a_write_has_an_order(void **state)
{
	(void)state;
	void *comm = comm_new();

	slow.place = (unsigned)(flight_comm_of(comm) - comms_at(page, 0));
	copy();
	slow.fd = open(path, O_RDONLY);
	for (size_t i = 0; i < 6000; i++) {
		reduce(comm, i % 1000);
		slow.cut = i * 8 % 1024;
		slow.backwards = i % 7 < 3;
		if (i % 11 == 0)
			copy();
	}
	close(slow.fd);
	slow.fd = 0;
	assert_true(slow.checked > 1000);
	assert_true(slow.whole / slow.checked > FLIGHT_OPS / 2);
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
		TEST(the_file_follows_the_record),  TEST(of_nothing_new_little_is_written),
		TEST(readers_see_whole_operations), TEST(a_write_has_an_order),
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
