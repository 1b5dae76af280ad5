/* ENV: TURBO_FILES=prefetch TURBO_RUN=1 XDG_CACHE_HOME=/proc/nonexistent
 * test_files_memory.c - files that are in memory already: one process of a family looks, once; what is no longer in memory later is
 * read ahead after all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN
#endif
#endif

#define FILES 1500
#define BYTES 8192
#define QUIET_NS 900000000 /* some of tune.h's QUIET_MS */

static char folder[512];

static const char *path_of(int i)
{
	static char path[1024];

	snprintf(path, sizeof(path), "%s/f%05d.dat1", folder, i);
	return path;
}

__attribute__((unused)) static int64_t now_ns(void) /* not in every build */
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void nap(int ms)
{
	const struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

	nanosleep(&t, NULL);
}

static void read_files(int from, int to)
{
	char text[BYTES];

	for (int i = from; i < to; i++) {
		int fd = open(path_of(i), O_RDONLY);
		if (read(fd, text, sizeof(text)) != BYTES)
			_exit(9);
		close(fd);
	}
}

/* Opened for writing, too: no run of reads. */
static bool is_in_memory(int i)
{
	unsigned char is = 0;
	int fd = open(path_of(i), O_RDWR);
	void *m = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);

	if (m != MAP_FAILED) {
		mincore(m, 1, &is);
		munmap(m, BYTES);
	}
	close(fd);
	return is & 1;
}

static bool forget_all(void)
{
	int left = 1;

	for (int round = 0; round < 200 && left; round++) {
		left = 0;
		for (int i = 0; i < FILES; i++) {
			if (!is_in_memory(i))
				continue;
			int fd = open(path_of(i), O_RDWR);
			fsync(fd);
			posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
			close(fd);
			left += is_in_memory(i);
		}
		if (left)
			nap(20);
	}
	return left == 0;
}

static int setup(void **state)
{
	static const char text[BYTES];

	(void)state;
	snprintf(folder, sizeof(folder), "%.400s/test-files-XXXXXX",
			 getenv("BUILD") ? getenv("BUILD") : "/var/tmp");
	if (!mkdtemp(folder))
		return 1;
	for (int i = 0; i < FILES; i++) {
		int fd = open(path_of(i), O_WRONLY | O_CREAT | O_EXCL, 0600);
		if (fd < 0 || write(fd, text, BYTES) != BYTES || close(fd) != 0)
			return 1;
	}
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st, (void)kind, (void)at;
	return remove(path);
}

static int teardown(void **state)
{
	(void)state;
	return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#ifndef TSAN
static int threads(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

/* Status of a worker: the threads that libturbo has started in it. */
static int worker(bool stay)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		read_files(0, FILES);
		if (stay) /* until its verdict is there */
			nap(300);
		_exit(threads() - 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void one_worker_looks(void **state)
{
	(void)state;
	for (int attempt = 0; attempt < 50; attempt++) {
		int64_t since = now_ns();
		int more = 0, first = worker(true);
		for (int i = 0; i < 4; i++)
			more += worker(false);
		if (now_ns() - since < QUIET_NS) {
			assert_int_equal(more, 0);
			assert_int_equal(first, 1);
			return;
		}
		nap(attempt * 100);
	}
	puts("the machine is too slow");
	skip();
}
#endif

static void it_looks_again(void **state)
{
	bool came = false;

	(void)state;
	read_files(0, 40);
	nap(300);
	if (!forget_all()) {
		puts("files stay in memory here");
		skip();
	}
	nap(1000);
	/* Slowly enough for a helper to see them all; by then no other has begun to look. */
	for (int i = 0; i < FILES / 2; i += 10) {
		read_files(i, i + 10);
		nap(1);
	}
	for (int i = 0; i < 2000 && !came; i++) {
		came = is_in_memory(FILES - 1) && is_in_memory(FILES - 100);
		nap(10);
	}
	assert_true(came);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifndef TSAN /* starts no thread in a forked child */
		cmocka_unit_test(one_worker_looks),
#endif
		cmocka_unit_test(it_looks_again),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
