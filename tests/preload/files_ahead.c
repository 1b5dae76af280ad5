/*
 * files_ahead.c - reads some files of a directory and waits for others to come into memory (test_files_ahead.sh).
 *
 *   files_ahead DIR READ WAIT_FOR SECONDS
 *
 * All files of DIR are put out of memory first, unless KEEP is set. Opens f00000, f00001, ... READ of them, then waits until WAIT_FOR is
 * in memory. PAUSE: seconds of rest in the middle of these, in whose middle FROM is renamed to TO. STRIDE: not one after the other but so many apart, around the first 300.
 * Exit status: 0 it came, 1 it did not, 77 the file system keeps everything in memory; 2 something was not as without libturbo.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILES 3000 /* of a directory, at most */
#define FILES_OF_STRIDE 300

/* Pages of the file in memory; -1: it is not there. */
static long resident(const char *path)
{
	struct stat st;
	unsigned char pages[4096];
	long n = 0;
	int fd = open(path, O_RDWR | O_CLOEXEC); /* not a run of reads */
	if (fd < 0 || fstat(fd, &st) != 0)
		return -1;
	void *m = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	size_t count = ((size_t)st.st_size + 4095) / 4096;
	if (m != MAP_FAILED && count <= sizeof(pages) && mincore(m, (size_t)st.st_size, pages) == 0)
		for (size_t i = 0; i < count; i++)
			n += pages[i] & 1;
	if (m != MAP_FAILED)
		munmap(m, (size_t)st.st_size);
	close(fd);
	return n;
}

static void forget(const char *path)
{
	int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_DIRECT);
	if (fd < 0)
		fd = openat(AT_FDCWD, path, O_RDWR | O_CLOEXEC); /* not a run of reads */
	if (fd >= 0) {
		fsync(fd);
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
}

/* The system lets go of a page when nobody else has it in hand: until all are out. */
static int forget_all(const char *dir, const char *more)
{
	const struct timespec nap = {0, 20000000};
	char path[512];
	int left = 1;
	for (int round = 0; round < 200 && left; round++) {
		if (round)
			nanosleep(&nap, NULL);
		left = 0;
		for (int i = 0; i < FILES; i++) {
			snprintf(path, sizeof(path), "%s/f%05d", dir, i);
			if (resident(path) > 0 || round == 0)
				forget(path);
			left += resident(path) > 0;
		}
		forget(more);
		left += resident(more) > 0;
	}
	return !left;
}

int main(int argc, char **argv)
{
	char path[512], buffer[4096], lowest_path[] = "/dev/null";
	if (argc != 5)
		return 2;
	int count = atoi(argv[2]);
	if (!getenv("KEEP") && !forget_all(argv[1], argv[3]))
		return 77;
	int lowest = open(lowest_path, O_WRONLY);
	close(lowest);
	const char *pause = getenv("PAUSE"), *stride = getenv("STRIDE");
	const char *from = getenv("FROM"), *to = getenv("TO");
	for (int i = 0; i < count; i++) {
		if (pause && i == count / 2) {
			sleep((unsigned)atoi(pause));
			if (from && rename(from, to) == 0)
				sleep((unsigned)atoi(pause));
		}
		snprintf(path, sizeof(path), "%s/f%05d", argv[1], stride ? i * atoi(stride) % FILES_OF_STRIDE : i);
		errno = 77;
		int fd = open(path, O_RDONLY);
		if (fd != lowest || errno != 77) {
			printf("descriptor %d instead of %d, errno %d\n", fd, lowest, errno);
			return 2;
		}
		while (read(fd, buffer, sizeof(buffer)) > 0)
			;
		close(fd);
	}
	const struct timespec nap = {0, 10000000};
	for (int i = 0; i < atoi(argv[4]) * 100; i++) {
		int fd = open(lowest_path, O_WRONLY);
		if (fd != lowest)
			return 2;
		close(fd);
		if (resident(argv[3]) > 0)
			return 0;
		nanosleep(&nap, NULL);
	}
	return 1;
}
