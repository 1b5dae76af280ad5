/* ENV: TURBO_FILES=prefetch TURBO_RUN=1 XDG_CACHE_HOME=/proc/nonexistent BARE
 * test_files_program.c - what a program sees of its files while others are read ahead: its descriptors, locks, pipes, times,
 * offsets, errno are what they are without libturbo.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN
#endif
#endif

#define FILES 300
#define OPENED 60
#define SHARD_BYTES ((off_t)36 << 20)

static char folder[512];

static const char *name_of(const char *format, int a)
{
	static __thread char path[1024];
	int n = snprintf(path, sizeof(path), "%s/", folder);

	snprintf(path + n, sizeof(path) - (size_t)n, format, a);
	return path;
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st, (void)kind, (void)at;
	return remove(path);
}

/* A folder for each test, out of memory where the system lets go of it: else there is nothing to be read ahead. */
static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "%s/test-files-XXXXXX", getenv("BUILD") ? getenv("BUILD") : "/var/tmp");
	if (!mkdtemp(folder))
		return 1;
	for (int i = 0; i < FILES; i++)
		put(name_of("f%05d.txt", i), "some text");
	int dir = open(folder, O_RDONLY | O_DIRECTORY);
	syncfs(dir);
	close(dir);
	for (int i = 0; i < FILES; i++) {
		int fd = open(name_of("f%05d.txt", i), O_RDWR);
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return chdir("/") || nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void nap(int ms)
{
	const struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

	nanosleep(&t, NULL);
}

static void read_file(const char *path)
{
	char text[64];
	int fd;

	errno = 4711;
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(errno, 4711);
	assert_int_equal(read(fd, text, sizeof(text)), 9);
	assert_memory_equal(text, "some text", 9);
	assert_int_equal(close(fd), 0);
}

/* A run of reads, and time in which others may be read. */
static void run(void)
{
	for (int i = 0; i < OPENED; i++)
		read_file(name_of("f%05d.txt", i));
	nap(100);
}

/* ---- descriptors ---- */

static _Atomic int running;

static void *keep_lowest(void *arg)
{
	int lowest = *(int *)arg;

	while (running) {
		int fd = fcntl(0, F_DUPFD, lowest);
		if (fd != lowest) /* nobody else opens anything */
			return arg;
		close(fd);
	}
	return NULL;
}

/* Reading happens in a child's threads; here the program does nothing but look. */
static void the_lowest_number_stays_free(void **state)
{
	int lowest = dup(0);
	pthread_t thread;
	void *bad;

	(void)state;
	close(lowest);
	for (int round = 0; round < 5; round++) {
		run();
		running = 1;
		assert_int_equal(pthread_create(&thread, NULL, keep_lowest, &lowest), 0);
		nap(20);
		running = 0;
		pthread_join(thread, &bad);
		assert_null(bad);
	}
}

static void a_closed_pipe_is_at_its_end(void **state)
{
	int p[2];
	struct pollfd ends;

	(void)state;
	assert_int_equal(pipe(p), 0);
	run();
	close(p[1]);
	ends = (struct pollfd){.fd = p[0], .events = POLLIN};
	assert_int_equal(poll(&ends, 1, 20000), 1);
	assert_true(ends.revents & POLLHUP);
	close(p[0]);
}

static void locks_stay(void **state)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = open(name_of("f%05d.txt", 7), O_RDWR), status;

	(void)state;
	assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
	run();
	pid_t pid = fork();
	if (pid == 0) {
		struct flock see = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
		_exit(fcntl(fd, F_GETLK, &see) == 0 && see.l_type == F_WRLCK && see.l_pid == getppid() ? 0 : 1);
	}
	/* The run closed the file, which by POSIX ends the lock. */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 256);
	assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
	nap(100); /* what reads it for us closes it, too, and ends nothing */
	pid = fork();
	if (pid == 0) {
		struct flock see = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
		_exit(fcntl(fd, F_GETLK, &see) == 0 && see.l_type == F_WRLCK && see.l_pid == getppid() ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(fd);
}

static void leases_stay(void **state)
{
	int fd = open(name_of("f%05d.txt", FILES - 1), O_RDWR);

	(void)state;
	signal(SIGIO, SIG_IGN);
	if (fcntl(fd, F_SETLEASE, F_WRLCK) != 0) {
		close(fd);
		puts("no leases here");
		skip();
	}
	for (int i = 0; i < 10; i++) {
		run();
		assert_int_equal(fcntl(fd, F_GETLEASE), F_WRLCK);
	}
	close(fd);
}

/* ---- other kinds of files ---- */

static void a_fifo_is_never_opened(void **state)
{
	(void)state;
	assert_int_equal(mkfifo(name_of("f%05d.txt", FILES + 1), 0600), 0);
	assert_int_equal(symlink("loop.txt", name_of("loop.txt", 0)), 0);
	for (int i = 0; i < 10; i++) {
		run();
		errno = 0;
		assert_int_equal(open(name_of("f%05d.txt", FILES + 1), O_WRONLY | O_NONBLOCK), -1);
		assert_int_equal(errno, ENXIO); /* nobody has it open for reading */
	}
}

static void times_of_access_stay(void **state)
{
	const struct timespec old[2] = {{1000000, 0}, {1000000, 0}};
	struct stat st;

	(void)state;
	for (int i = 0; i < FILES; i++)
		assert_int_equal(utimensat(AT_FDCWD, name_of("f%05d.txt", i), old, 0), 0);
	run();
	nap(200);
	for (int i = OPENED; i < FILES; i++) {
		assert_int_equal(stat(name_of("f%05d.txt", i), &st), 0);
		assert_int_equal(st.st_atim.tv_sec, 1000000);
	}
}

/* Bytes that this process has had written to disks; -1: it cannot be told. What names its threads has no place there. */
static long long written(void)
{
	char text[1024] = "", *at;
	int fd = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	close(fd);
	at = n > 0 ? strstr(text, "\nwrite_bytes: ") : NULL;
	return at ? atoll(at + strlen("\nwrite_bytes: ")) : -1;
}

static void nothing_is_written(void **state)
{
	long long before;
	static struct stat st[FILES];
	struct stat now;

	(void)state;
	for (int i = 0; i < FILES; i++) {
		/* Read already, later than it was written: no time of access is to be written when the program reads it. */
		const struct timespec times[2] = {{.tv_sec = time(NULL) + 3600}, {.tv_nsec = UTIME_OMIT}};
		assert_int_equal(utimensat(AT_FDCWD, name_of("f%05d.txt", i), times, 0), 0);
		assert_int_equal(stat(name_of("f%05d.txt", i), &st[i]), 0);
	}
	if ((before = written()) < 0) {
		puts("no /proc/self/io here");
		skip();
	}
	run();
	nap(300);
	assert_true(written() == before);
	for (int i = 0; i < FILES; i++) {
		assert_int_equal(stat(name_of("f%05d.txt", i), &now), 0);
		assert_memory_equal(&now.st_mtim, &st[i].st_mtim, sizeof(now.st_mtim));
		assert_memory_equal(&now.st_ctim, &st[i].st_ctim, sizeof(now.st_ctim));
		assert_int_equal(now.st_ino, st[i].st_ino);
		assert_int_equal(now.st_size, st[i].st_size);
	}
}

/* ---- forks, directories, signals ---- */

#ifndef TSAN
static int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void child(int depth)
{
	int before, status;
	pid_t pid;

	run();
	before = descriptors();
	pid = depth ? fork() : -1;
	if (pid == 0) {
		if (descriptors() != before)
			_exit(1);
		child(depth - 1);
		_exit(0);
	}
	if (pid > 0) {
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

static void children_of_children(void **state)
{
	(void)state;
	child(3);
}

static void *open_and_open(void *arg)
{
	(void)arg;
	while (running)
		for (int i = 0; running && i < FILES; i++)
			close(open(name_of("f%05d.txt", i), O_RDONLY));
	return NULL;
}

static void forks_amid_opens(void **state)
{
	pthread_t thread[4];
	int status;

	(void)state;
	running = 1;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, open_and_open, NULL), 0);
	for (int i = 0; i < 50; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			alarm(60);
			for (int n = 0; n < OPENED; n++)
				close(open(name_of("f%05d.txt", n), O_RDONLY));
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	running = 0;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
}

#endif

static void relative_names_while_the_directory_changes(void **state)
{
	(void)state;
	assert_int_equal(mkdir(name_of("other", 0), 0700), 0);
	for (int i = 0; i < OPENED; i++) {
		char name[32];
		snprintf(name, sizeof(name), "f%05d.txt", i);
		assert_int_equal(chdir(folder), 0);
		read_file(name);
		assert_int_equal(chdir(name_of("other", 0)), 0);
		snprintf(name, sizeof(name), "../f%05d.txt", i);
		read_file(name);
	}
	int dir = open(folder, O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < OPENED; i++) {
		char name[32], text[16];
		snprintf(name, sizeof(name), "f%05d.txt", i);
		int fd = openat(dir, name, O_RDONLY);
		assert_int_equal(read(fd, text, sizeof(text)), 9);
		close(fd);
	}
	close(dir);
	assert_int_equal(chdir("/"), 0);
}

static void on_signal(int number)
{
	int saved = errno;

	(void)number;
	for (int i = 0; i < 30; i++)
		close(open(name_of("f%05d.txt", i), O_RDONLY));
	errno = saved;
}

static void opens_in_a_signal_handler(void **state)
{
	const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
	int status;

	(void)state;
	pid_t pid = fork(); /* in which no thread has been started */
	if (pid == 0) {
		alarm(60);
		signal(SIGALRM, on_signal);
		signal(SIGVTALRM, on_signal);
		setitimer(ITIMER_VIRTUAL, &often, NULL);
		for (int i = 0; i < 200000; i++)
			free(malloc((size_t)i % 5000 + 1)); /* whose lock a thread's start would want, too */
		setitimer(ITIMER_VIRTUAL, &never, NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- large files ---- */

static void make_shard(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_int_equal(ftruncate(fd, SHARD_BYTES), 0);
	for (off_t at = 0; at < SHARD_BYTES; at += 1 << 20)
		assert_int_equal(pwrite(fd, &at, sizeof(at), at), sizeof(at));
	close(fd);
}

static void a_stream_keeps_its_place(void **state)
{
	static char block[1 << 20];

	(void)state;
	for (int n = 0; n < 3; n++)
		make_shard(name_of("shard-%03d.tar", n));
	for (int n = 0; n < 3; n++) {
		int fd = open(name_of("shard-%03d.tar", n), O_RDONLY);
		for (off_t at = 0; at < SHARD_BYTES; at += sizeof(block)) {
			assert_int_equal(lseek(fd, 0, SEEK_CUR), at);
			assert_int_equal(read(fd, block, sizeof(block)), sizeof(block));
			assert_int_equal(*(off_t *)(void *)block, at);
			nap(2);
		}
		assert_int_equal(read(fd, block, sizeof(block)), 0);
		close(fd);
	}
}

static void a_mapped_file_that_is_closed_and_cut(void **state)
{
	(void)state;
	make_shard(name_of("model.safetensors", 0));
	int fd = open(name_of("model.safetensors", 0), O_RDONLY);
	unsigned char *m = mmap(NULL, SHARD_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	assert_true(m != MAP_FAILED);
	for (off_t at = 0; at < SHARD_BYTES / 2; at += 1 << 20) {
		assert_int_equal(*(off_t *)(void *)(m + at), at);
		nap(10);
	}
	assert_int_equal(truncate(name_of("model.safetensors", 0), SHARD_BYTES / 2), 0);
	nap(100);
	munmap(m, SHARD_BYTES);
	nap(100);
	assert_int_equal(unlink(name_of("model.safetensors", 0)), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_lowest_number_stays_free),
		TEST(a_closed_pipe_is_at_its_end),
		TEST(locks_stay),
		TEST(leases_stay),
		TEST(a_fifo_is_never_opened),
		TEST(times_of_access_stay),
		TEST(nothing_is_written),
#ifndef TSAN /* starts no thread in a forked child */
		TEST(children_of_children),
		TEST(forks_amid_opens),
#endif
		TEST(relative_names_while_the_directory_changes),
		TEST(opens_in_a_signal_handler),
		TEST(a_stream_keeps_its_place),
		TEST(a_mapped_file_that_is_closed_and_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
