/*
 * test_flight_file.c - the flight file: whole for whoever reads it, whatever is done to it; leftovers; the exit.
 *
 * In place of the copier the tests copy, so that each step is seen.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "policy/nccl/comms.h"
#include "policy/nccl/file.h"
#include "policy/nccl/flight_open.h"
#include "policy/nccl/flight_thread.h"
#include "policy/nccl/progress.h"
#include "policy/nccl/watch.h"
#include "proc_stat.h"
#include "real.h"
#include "thread.h"

int ncclCommInitAll(void **comms, int ranks, const int *list);
int ncclCommDestroy(void *comm);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream);

/* ---- in place of NCCL and of what is not looked at ---- */

static uintptr_t next_handle = 0x7f1200000000;

static int init_all(void **comms, int ranks, const int *list)
{
	(void)list;
	for (int i = 0; i < ranks; i++)
		comms[i] = (void *)(next_handle += 4096);
	return 0;
}

static int nothing(void)
{
	return 0;
}

void *real_resolve_lazy(enum hook_id id, const void *caller)
{
	(void)caller;
	return id == HOOK_ncclCommInitAll ? (void *)init_all : (void *)nothing;
}

bool thread_start(const char *name, void *(*run)(void *), void *arg)
{
	(void)name, (void)run, (void)arg;
	return true;
}

uint32_t progress_before(struct flight_comm *comm, void *stream)
{
	(void)comm, (void)stream;
	return 0;
}

void progress_start(void) {}

void nccl_watch_start(bool acts, uint64_t timeout)
{
	(void)acts, (void)timeout;
}

/* ---- what a reader does ---- */

static struct flight_page *page;
static char path[PATH_MAX], other_path[PATH_MAX], tmp_dir[] = "/tmp/test_flight.XXXXXX";

static void path_in(char *to, const char *dir, int pid)
{
	snprintf(to, PATH_MAX, "%s/" FLIGHT_FILE_FORMAT, dir, (unsigned)geteuid(), pid);
}

static bool read_at(int fd, void *to, size_t bytes, off_t at)
{
	return pread(fd, to, bytes, at) == (ssize_t)bytes;
}

static off_t place_of(unsigned comm)
{
	return (off_t)(COMMS_OFF + comm * sizeof(struct flight_comm));
}

/* A whole operation, as flight_page.h says. */
static bool read_op(int fd, unsigned comm, uint64_t index, struct flight_op *op)
{
	off_t at =
		place_of(comm) + (off_t)offsetof(struct flight_comm, op) + (off_t)(index % FLIGHT_OPS * sizeof(*op));
	uint32_t version;

	for (unsigned i = 0; i < 100; i++)
		if (read_at(fd, op, sizeof(*op), at) && op->version % 2 == 0 &&
			read_at(fd, &version, sizeof(version), at) && version == op->version)
			return true;
	return false;
}

/* The file at `name` says what the record does. */
static void assert_whole(const char *name)
{
	static struct flight_page header;
	static struct flight_comm comm;
	struct stat st;
	int fd = open(name, O_RDONLY | O_NOFOLLOW);

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	assert_int_equal(st.st_uid, geteuid());
	assert_int_equal(st.st_size, place_of(page->comm_high));
	assert_true(st.st_blocks * 512 >= st.st_size); /* none of it is missing */
	assert_true(read_at(fd, &header, sizeof(header), 0));
	assert_memory_equal(header.bytes, page->bytes, sizeof(page->bytes));
	assert_memory_equal(header.wait, page->wait, sizeof(page->wait));
	assert_memory_equal(header.sites, page->sites, page->site_bytes);
	assert_int_equal(header.dump.bytes, page->dump.bytes);
	assert_memory_equal(header.dump.text, page->dump.text, page->dump.bytes);
	for (unsigned i = 0; i < page->comm_high; i++) {
		const struct flight_comm *is = comms_at(page, i);
		assert_true(read_at(fd, &comm, sizeof(comm), place_of(i)));
		assert_memory_equal(&comm, is, offsetof(struct flight_comm, op));
		for (unsigned k = 0; k < FLIGHT_OPS; k++)
			assert_memory_equal((char *)&comm.op[k] + 4, (const char *)&is->op[k] + 4,
								sizeof(comm.op[k]) - 4);
	}
	close(fd);
}

/* Until it is there: a vain copy finds out what is wrong, the next one makes it anew. */
static void copy(void)
{
	for (unsigned i = 0; i < 3; i++)
		if (flight_file_copy())
			return;
	fail();
}

static void *comm_new(void)
{
	void *comm;

	assert_int_equal(ncclCommInitAll(&comm, 1, NULL), 0);
	return comm;
}

static char buffer[8];

static void reduce(void *comm, size_t count)
{
	ncclAllReduce(buffer, buffer, count, 7, 0, comm, (void *)0x51);
}

static int setup(void **state)
{
	(void)state;
	for (unsigned i = 0; i < page->comm_high; i++) {
		const void *caller;
		void *comm = flight_comm_handle(comms_at(page, i), &caller);
		if (comm)
			ncclCommDestroy(comm);
	}
	copy();
	return access(path, F_OK);
}

/* ---- tests ---- */

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

static void what_is_done_to_it_is_undone(void **state)
{
	(void)state;
	struct stat before, after;

	for (unsigned what = 0; what < 6; what++) {
		assert_int_equal(stat(path, &before), 0);
		switch (what) {
		case 0: assert_int_equal(unlink(path), 0); break;
		case 1: assert_int_equal(truncate(path, 0), 0); break;
		case 2: assert_int_equal(truncate(path, 5000), 0); break;
		case 3: assert_int_equal(truncate(path, before.st_size * 2), 0); break;
		case 4: /* another in its place */
			assert_int_equal(unlink(path), 0);
			assert_true((close(open(path, O_CREAT | O_WRONLY, 0644)), true));
			break;
		default: /* zeros of the same size */
			assert_int_equal(truncate(path, 0), 0);
			assert_int_equal(truncate(path, before.st_size), 0);
		}
		copy();
		assert_int_equal(stat(path, &after), 0);
		assert_whole(path);
	}
}

static void a_link_under_its_name_is_not_followed(void **state)
{
	(void)state;
	char target[PATH_MAX];
	struct stat st;

	snprintf(target, sizeof(target), "%s/target", tmp_dir);
	int fd = open(target, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, "mine", 4), 4);
	close(fd);
	unlink(path);
	assert_int_equal(symlink(target, path), 0);
	copy();
	path_in(other_path, tmp_dir, getpid());
	assert_whole(other_path);
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(stat(target, &st), 0);
	assert_int_equal(st.st_size, 4);
	unlink(path);
	/* It stays where it is; only when that one is gone, too, is the first folder tried again. */
	copy();
	assert_int_equal(access(path, F_OK), -1);
	unlink(other_path);
	copy();
	assert_whole(path);
	unlink(target);
}

static void another_users_file_is_left_alone(void **state)
{
	(void)state;
	struct stat st;

	if (geteuid() != 0) {
		print_message("needs root: the file of another user\n");
		skip();
	}
	unlink(path);
	assert_true((close(open(path, O_CREAT | O_WRONLY, 0644)), true));
	assert_int_equal(chown(path, 12345, 12345), 0);
	copy();
	path_in(other_path, tmp_dir, getpid());
	assert_whole(other_path);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, 12345);
	assert_int_equal(st.st_size, 0);
	unlink(path);
	unlink(other_path);
	copy();
	assert_whole(path);
}

static void without_room_nothing_breaks(void **state)
{
	(void)state;
	struct rlimit old, little;
	char taken[3][PATH_MAX];
	const char *dirs[] = {"/dev/shm", tmp_dir, "/tmp"};
	void *comm;

	/* A limit that would raise SIGXFSZ, which ends a process. */
	unlink(path);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	little = old;
	little.rlim_cur = 4096;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	assert_false(flight_file_copy());
	assert_false(flight_file_copy());
	comm = comm_new();
	reduce(comm, 1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	copy();
	assert_whole(path);
	/* No folder takes it. */
	for (unsigned i = 0; i < 3; i++) {
		path_in(taken[i], dirs[i], getpid());
		unlink(taken[i]);
		assert_int_equal(mkdir(taken[i], 0700), 0);
	}
	assert_false(flight_file_copy());
	assert_false(flight_file_copy());
	reduce(comm, 2);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(rmdir(taken[i]), 0);
	copy();
	assert_whole(path);
}

/* ---- leftovers ---- */

/* A file as process `pid`, of this pid namespace or another, left it `age` seconds ago. */
static void leave(char *name, int pid, uint64_t ns, bool magic, long age)
{
	static struct flight_page old;
	struct timespec times[2];

	path_in(name, tmp_dir, pid);
	memcpy(&old, page, sizeof(old));
	old.pid = (uint32_t)pid;
	old.start_ticks = page->start_ticks + (pid == getppid() ? 0 : 1);
	old.pid_ns = ns;
	if (!magic)
		memset(old.magic, 0, sizeof(old.magic));
	int fd = open(name, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, &old, sizeof(old)), sizeof(old));
	clock_gettime(CLOCK_REALTIME, &times[0]);
	times[0].tv_sec -= age;
	times[1] = times[0];
	assert_int_equal(futimens(fd, times), 0);
	close(fd);
}

static void leftovers_go_after_a_while(void **state)
{
	(void)state;
	struct {
		int pid;
		uint64_t ns;
		bool magic;
		long age;
		bool goes;
	} file[] = {
		{99999001, page->pid_ns, true, FLIGHT_FILE_KEPT_S + 5, true},
		{99999002, page->pid_ns, true, FLIGHT_FILE_KEPT_S - 60, false}, /* somebody may want to read it */
		{99999003, page->pid_ns + 1, true, FLIGHT_FILE_KEPT_S + 5, false},
		{99999004, page->pid_ns + 1, true, FLIGHT_FILE_FORGOTTEN_S + 5, true},
		{99999005, page->pid_ns, false, FLIGHT_FILE_KEPT_S + 5, true},
		{99999006, page->pid_ns, false, 5, false},             /* just being made */
		{1, page->pid_ns, true, FLIGHT_FILE_KEPT_S + 5, true}, /* the number is another one's */
	};
	char name[sizeof(file) / sizeof(file[0])][PATH_MAX], odd[3][PATH_MAX];

	for (unsigned i = 0; i < sizeof(file) / sizeof(file[0]); i++)
		leave(name[i], file[i].pid, file[i].ns, file[i].magic, file[i].age);
	/* Names that are not ours, and a link. */
	snprintf(odd[0], PATH_MAX, "%s/" FLIGHT_FILE_FORMAT ".old", tmp_dir, geteuid(), 99999001);
	snprintf(odd[1], PATH_MAX, "%s/turbo-%u-99999007.flight", tmp_dir, geteuid() + 1);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(link(name[0], odd[i]), 0);
	path_in(odd[2], tmp_dir, 99999008);
	assert_int_equal(symlink(odd[0], odd[2]), 0);
	flight_file_sweep(tmp_dir);
	for (unsigned i = 0; i < sizeof(file) / sizeof(file[0]); i++) {
		assert_int_equal(access(name[i], F_OK) != 0, file[i].goes);
		unlink(name[i]);
	}
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(unlink(odd[i]), 0);
	flight_file_sweep("/no/such/folder");
}

/* Of this process before exec(), or of one that had its number. */
static void a_predecessors_file_is_replaced(void **state)
{
	(void)state;
	char name[PATH_MAX];

	unlink(path);
	leave(name, getpid(), page->pid_ns, true, 0);
	assert_int_equal(link(name, path) == 0 || errno == EXDEV, 1);
	unlink(name);
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, page, sizeof(*page)), sizeof(*page));
	close(fd);
	copy();
	assert_whole(path);
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
#define TEST(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		TEST(the_file_follows_the_record),       TEST(of_nothing_new_little_is_written),
		TEST(what_is_done_to_it_is_undone),      TEST(a_link_under_its_name_is_not_followed),
		TEST(another_users_file_is_left_alone),  TEST(without_room_nothing_breaks),
		TEST(leftovers_go_after_a_while),        TEST(a_predecessors_file_is_replaced),
		TEST(readers_see_whole_operations),      TEST(a_child_has_no_part_in_it),
		TEST(at_the_end_it_says_so_and_is_gone),
	};

	if (!mkdtemp(tmp_dir))
		return 1;
	setenv("TMPDIR", tmp_dir, 1);
	path_in(path, "/dev/shm", getpid());
	flight_switch(true);
	page = flight_open(NULL);
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(tmp_dir);
	return failed;
}
