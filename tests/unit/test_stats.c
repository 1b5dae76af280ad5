/* test_stats.c - the file says what the counters say, and nothing is left behind. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "stats.h"
#include "stats_leftovers.h"

/* Two cells to count in: a symbol's and the last counter's. */
#define CALL ((enum hook_id)(HOOK_COUNT / 2))
#define LAST ((enum stats_counter)(STATS_COUNTER_END - 1))

static const char *path_of(const char *dir, pid_t pid)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/" STATS_FILE_FORMAT, dir, (unsigned)geteuid(), (int)pid);
	return path;
}

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

/* ---- reading the file as a tool does ---- */

struct file {
	unsigned char *bytes;
	size_t size;
};

static struct file open_file(const char *path)
{
	struct file f = {NULL, 0};
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	f.size = (size_t)st.st_size;
	f.bytes = mmap(NULL, f.size, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(f.bytes, MAP_FAILED);
	close(fd);
	return f;
}

static const struct stats_header *header_of(struct file f)
{
	return (const struct stats_header *)(void *)f.bytes;
}

static uint64_t sum_of(struct file f, unsigned cell)
{
	const struct stats_header *h = header_of(f);
	uint64_t sum = 0;

	for (unsigned lane = 0; lane < h->lanes; lane++) {
		uint64_t *p = (uint64_t *)(void *)(f.bytes + h->lanes_off + lane * (uint64_t)h->lane_bytes) + cell;
		sum += __atomic_load_n(p, __ATOMIC_RELAXED);
	}
	return sum;
}

/* ---- the file ---- */

static void the_file_says_what_the_counters_say(void **state)
{
	const char *path = path_of("/dev/shm", getpid());
	uint64_t before;
	struct stat st;
	struct file f;

	(void)state;
	stats_add(LAST, 5);
	before = stats_get(LAST);
	stats_publish();
	assert_int_equal(stats_get(LAST), before);
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0600);
	f = open_file(path);
	assert_int_equal(sum_of(f, HOOK_COUNT + LAST), before);
	stats_add(LAST, 11);
	stats_call(CALL);
	assert_int_equal(sum_of(f, HOOK_COUNT + LAST), before + 11);
	for (unsigned cell = 0; cell < STATS_CELLS; cell++)
		assert_int_equal(sum_of(f, cell), stats_cell_sum(cell));
	munmap(f.bytes, f.size);
	stats_unpublish();
	assert_false(exists(path));
	assert_int_equal(stats_get(LAST), before + 11);
	stats_add(LAST, 1);
	assert_int_equal(stats_get(LAST), before + 12);
}

static void the_header_describes_the_file(void **state)
{
	const struct stats_header *h;
	struct timespec now;
	struct stat st;
	struct file f;

	(void)state;
	stats_publish();
	f = open_file(path_of("/dev/shm", getpid()));
	h = header_of(f);
	assert_memory_equal(h->magic, STATS_MAGIC, 8);
	assert_int_equal(h->version, STATS_VERSION);
	assert_int_equal(h->pid, getpid());
	assert_int_equal(h->start_ticks, stats_start_ticks(getpid()));
	assert_true(h->start_ticks != 0);
	assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
	assert_int_equal(h->pid_ns, st.st_ino);
	clock_gettime(CLOCK_REALTIME, &now);
	assert_in_range(h->start_ns / 1000000000, (uint64_t)now.tv_sec - 60, (uint64_t)now.tv_sec);
	assert_int_equal(h->cells, STATS_CELLS);
	assert_int_equal(h->calls, HOOK_COUNT);
	assert_true(h->lanes_off + (uint64_t)h->lanes * h->lane_bytes <= h->names_off);
	assert_true(h->names_off + h->names_bytes <= f.size);
	assert_int_equal(h->engaged, 1);
	assert_string_equal(h->version_text, TURBO_VERSION);
	assert_non_null(strstr(h->command, "test_stats"));
	munmap(f.bytes, f.size);
	stats_unpublish();
}

static void the_names_stand_in_cell_order(void **state)
{
	static const char *const counters[] = {
#define COUNTER(id, name, unit, text) name "\t" unit "\t" text,
#include "counters.def"
#undef COUNTER
	};
	const char *p, *end;
	struct file f;
	unsigned cell = 0;

	(void)state;
	stats_publish();
	f = open_file(path_of("/dev/shm", getpid()));
	p = (const char *)f.bytes + header_of(f)->names_off;
	end = p + header_of(f)->names_bytes;
	for (; p < end; cell++) {
		const char *stop = memchr(p, '\n', (size_t)(end - p));
		char expected[512];
		assert_non_null(stop);
		if (cell < HOOK_COUNT)
			snprintf(expected, sizeof(expected), "%s\tcalls\t", hook_table[cell].name);
		else
			snprintf(expected, sizeof(expected), "%s\n", counters[cell - HOOK_COUNT]);
		assert_memory_equal(p, expected, strlen(expected));
		p = stop + 1;
	}
	assert_int_equal(cell, STATS_CELLS);
	munmap(f.bytes, f.size);
	stats_unpublish();
}

static void no_descriptor_is_kept(void **state)
{
	int before = dup(2), after;

	(void)state;
	close(before);
	stats_publish();
	after = dup(2);
	close(after);
	assert_int_equal(before, after);
	stats_unpublish();
}

/* ---- fork ---- */

/* Runs `body` in a child as the fork handler would; it must return 0. */
static pid_t in_child(int (*body)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		stats_fork_child();
		_exit(body());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return pid;
}

static int count_in_child(void)
{
	if (stats_get(LAST) != 0)
		return 1;
	stats_add(LAST, 100);
	if (stats_get(LAST) != 100)
		return 2;
	stats_unpublish();
	return exists(path_of("/dev/shm", getppid())) ? 0 : 3;
}

static int publish_in_child(void)
{
	struct file f;

	stats_add(LAST, 7);
	stats_publish();
	f = open_file(path_of("/dev/shm", getpid()));
	if (sum_of(f, HOOK_COUNT + LAST) != 7)
		return 1;
	stats_unpublish();
	return exists(path_of("/dev/shm", getpid())) ? 2 : 0;
}

static void a_child_counts_for_itself(void **state)
{
	uint64_t before;

	(void)state;
	stats_add(LAST, 1);
	stats_publish();
	before = stats_get(LAST);
	in_child(count_in_child);
	in_child(publish_in_child);
	assert_int_equal(stats_get(LAST), before);
	stats_unpublish();
	in_child(publish_in_child); /* of a parent that has no file */
	assert_int_equal(stats_get(LAST), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_file_says_what_the_counters_say),
		cmocka_unit_test(the_header_describes_the_file),
		cmocka_unit_test(the_names_stand_in_cell_order),
		cmocka_unit_test(no_descriptor_is_kept),
		cmocka_unit_test(a_child_counts_for_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
