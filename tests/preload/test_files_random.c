/* ENV: TURBO_FILES=prefetch TURBO_RUN=1 XDG_CACHE_HOME=/nonexistent BARE
 * test_files_random.c - files that are read ahead while they are removed, replaced, cut, locked, made unreadable, and turned into
 * fifos and links: whatever can be opened holds what was written, and nothing waits. SEED, SOAK_S.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN
#endif
#endif

#define DIRS 12
#define FILES 40 /* in each */
#define OPERATIONS 2000
#define READERS 2
#define BYTES_MOST 20000

static char folder[512];
static unsigned seed;
static time_t end;
static _Atomic int changing;
static _Atomic int bad;

static void path_of(char path[1024], unsigned file, const char *more)
{
	snprintf(path, 1024, "%.500s/d%02u/f%04u.bin%s", folder, file % DIRS, file / DIRS % FILES, more);
}

/* Every file is full of its number. */
static void write_new(unsigned file, size_t bytes)
{
	static unsigned char text[BYTES_MOST];
	char path[1024], made[1024];

	path_of(path, file, "");
	path_of(made, file, ".new");
	memset(text, (int)(file % (DIRS * FILES) % 251), bytes);
	int fd = open(made, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0)
		return;
	if (write(fd, text, bytes) != (ssize_t)bytes)
		bad = 1;
	close(fd);
	rename(made, path);
}

static void change(unsigned file, unsigned how, unsigned size)
{
	char path[1024], other[1024];
	int fd;

	path_of(path, file, "");
	path_of(other, file + DIRS, "");
	switch (how % 10) {
	case 0: unlink(path); break;
	case 1:
		unlink(path);
		mkfifo(path, 0600);
		break;
	case 2:
		unlink(path);
		if (symlink(path, path) != 0 && errno != EEXIST)
			bad = 2;
		break;
	case 3:
		if (truncate(path, size % 100) != 0 && errno == EIO)
			bad = 3;
		write_new(file, size % BYTES_MOST);
		break;
	case 4: chmod(path, size % 2 ? 0 : 0600); break;
	case 5:
		fd = open(path, O_RDWR | O_NONBLOCK);
		if (fd >= 0) {
			flock(fd, LOCK_EX | LOCK_NB);
			fcntl(fd, F_SETLEASE, F_WRLCK);
			usleep(size % 300);
			close(fd);
		}
		break;
	default: write_new(file, size % BYTES_MOST);
	}
}

static void read_one(unsigned file)
{
	unsigned char text[BYTES_MOST];
	char path[1024];
	ssize_t n;
	int fd;

	path_of(path, file, "");
	errno = 0;
	fd = open(path, O_RDONLY | O_NONBLOCK);
	if (fd < 0)
		return;
	if (errno != 0)
		bad = 4;
	while ((n = read(fd, text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < n; i++)
			if (text[i] != file % (DIRS * FILES) % 251 && text[i] != 0) /* 0: cut and grown again */
				bad = 5;
	close(fd);
}

static void *reader(void *arg)
{
	unsigned mine = seed + *(unsigned *)arg, at = 0;

	while (changing) {
		/* For a while in order, for a while in none. */
		unsigned file = rand_r(&mine) % 64 ? (at += 1) : (at = (unsigned)rand_r(&mine));
		read_one(mine % 3 ? file : (unsigned)rand_r(&mine));
	}
	return NULL;
}

#ifndef TSAN
static void child(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(60);
		for (unsigned i = 0; i < 50; i++)
			read_one(i);
		_exit(bad);
	}
	if (waitpid(pid, &status, 0) != pid || status != 0)
		bad = 6;
}
#endif

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st, (void)kind, (void)at;
	return remove(path);
}

static void files_that_change(void **state)
{
	unsigned index[READERS], mine = seed;
	pthread_t thread[READERS];
	int lowest = dup(0);

	(void)state;
	close(lowest);
	snprintf(folder, sizeof(folder), "%.400s/test-files-XXXXXX",
			 getenv("BUILD") ? getenv("BUILD") : "/var/tmp");
	assert_non_null(mkdtemp(folder));
	for (unsigned i = 0; i < DIRS; i++) {
		char dir[1024];
		snprintf(dir, sizeof(dir), "%s/d%02u", folder, i);
		assert_int_equal(mkdir(dir, 0700), 0);
	}
	for (unsigned i = 0; i < DIRS * FILES; i++)
		write_new(i, (size_t)rand_r(&mine) % BYTES_MOST);
	changing = 1;
	for (unsigned i = 0; i < READERS; i++) {
		index[i] = i;
		assert_int_equal(pthread_create(&thread[i], NULL, reader, &index[i]), 0);
	}
	for (unsigned i = 0; (i < OPERATIONS || time(NULL) < end) && !bad; i++) {
		change((unsigned)rand_r(&mine) % (DIRS * FILES), (unsigned)rand_r(&mine), (unsigned)rand_r(&mine));
#ifndef TSAN /* starts no thread in a forked child */
		if (i % 200 == 0)
			child();
#endif
	}
	changing = 0;
	for (unsigned i = 0; i < READERS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(bad, 0);
	int fd = dup(0);
	assert_int_equal(fd, lowest);
	close(fd);
	assert_int_equal(nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(files_that_change)};
	const char *given = getenv("SEED"), *soak = getenv("SOAK_S");

	seed = given ? (unsigned)atoi(given) : (unsigned)time(NULL) ^ (unsigned)getpid() << 8;
	end = time(NULL) + (soak ? atoi(soak) : 0);
	printf("SEED=%u\n", seed);
	signal(SIGIO, SIG_IGN); /* somebody opens a file that a lease is on */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
