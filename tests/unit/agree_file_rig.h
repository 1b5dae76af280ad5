/*
 * agree_file_rig.h - keys that nobody else has, the files by their names, and files made by hand.
 */
#ifndef TURBO_AGREE_FILE_RIG_H
#define TURBO_AGREE_FILE_RIG_H

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "policy/nccl/agree_file.h"
#include "stats_leftovers.h"

#define RIG __attribute__((unused)) static

static uint64_t key[2];

RIG void new_key(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	key[0] = UINT64_C(0x7e57) << 48 | (uint64_t)getpid();
	key[1] = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

RIG const char *path_of_key(void)
{
	static char path[160];

	snprintf(path, sizeof(path), AGREE_FILE_DIR "/" AGREE_FILE_FORMAT AGREE_FILE_SUFFIX, (unsigned)geteuid(),
			 (unsigned long long)key[0], (unsigned long long)key[1]);
	return path;
}

/* Entries of `dir` whose names begin alike. */
RIG int names_like(const char *dir, const char *begin)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	int n = 0;

	while (d && (entry = readdir(d)))
		n += strncmp(entry->d_name, begin, strlen(begin)) == 0;
	if (d)
		closedir(d);
	return n;
}

/* Those of the key, also what is being made. */
RIG int names_of_key(void)
{
	char begin[80];

	snprintf(begin, sizeof(begin), AGREE_FILE_FORMAT, (unsigned)geteuid(), (unsigned long long)key[0],
			 (unsigned long long)key[1]);
	return names_like(AGREE_FILE_DIR, begin);
}

RIG int open_descriptors(void)
{
	return names_like("/proc/self/fd", "");
}

/* A file of `key` as this process would have made it. */
RIG void put_file(const char *path, unsigned ranks)
{
	struct agree_file_head head;
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);

	memset(&head, 0, sizeof(head)); /* what is between its fields is written, too */
	memcpy(head.magic, AGREE_FILE_MAGIC, sizeof(head.magic));
	head.key[0] = key[0];
	head.key[1] = key[1];
	head.start_ticks = stats_start_ticks(getpid());
	head.pid_ns = stats_pid_namespace();
	head.pid = (uint32_t)getpid();
	head.ranks = ranks;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)(sizeof(head) + agree_bytes(ranks))), 0);
	assert_int_equal(pwrite(fd, &head, sizeof(head), 0), sizeof(head));
	close(fd);
}

RIG void read_head(const char *path, struct agree_file_head *head)
{
	int fd = open(path, O_RDONLY);

	assert_int_equal(pread(fd, head, sizeof(*head), 0), sizeof(*head));
	close(fd);
}

RIG void write_head(const char *path, const struct agree_file_head *head)
{
	int fd = open(path, O_WRONLY);

	assert_int_equal(pwrite(fd, head, sizeof(*head), 0), sizeof(*head));
	close(fd);
}

RIG void make_old(const char *path, unsigned seconds)
{
	struct timespec t[2] = {{time(NULL) - seconds, 0}, {time(NULL) - seconds, 0}};

	assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

#endif
