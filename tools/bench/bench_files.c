/*
 * bench_files.c - data files: a directory of small files read once, a tar shard streamed, with TURBO_FILES=prefetch and without.
 */
#include <dirent.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include "bench_cold.h"

#define FILES 20000
#define LEAST_BYTES 4096 /* of a file; most is seven times that */
#define SHARD_MIB 2048
#define ROUNDS 7

/* ---- the programs ---- */

static char names[FILES][16];
static int name_count;

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* As a data set lists its files: sorted, and for training shuffled with a seed. */
static void list_names(const char *dir, bool shuffled)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	unsigned seed = 1;
	while (d && (e = readdir(d)))
		if (e->d_name[0] == 'f' && name_count < FILES)
			snprintf(names[name_count++], sizeof(names[0]), "%.15s", e->d_name);
	if (d)
		closedir(d);
	qsort(names, (size_t)name_count, sizeof(names[0]), by_name);
	for (int i = name_count - 1; shuffled && i > 0; i--) {
		int j = rand_r(&seed) % (i + 1);
		char t[16];
		memcpy(t, names[i], sizeof(t));
		memcpy(names[i], names[j], sizeof(t));
		memcpy(names[j], t, sizeof(t));
	}
}

static void read_names(const char *dir, int *next)
{
	static char buffer[65536];
	char path[4200];
	for (int i; (i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < name_count;) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		int fd = open(path, O_RDONLY);
		if (fd < 0)
			exit(1);
		while (read(fd, buffer, sizeof(buffer)) > 0)
			;
		close(fd);
	}
}

/* --read DIR sorted|shuffled READERS: readers are processes, as a loader's workers. */
static int read_dir(char **argv)
{
	int readers = atoi(argv[4]), status, failed = 0;
	int *next = mmap(NULL, sizeof(*next), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	list_names(argv[2], !strcmp(argv[3], "shuffled"));
	if (next == MAP_FAILED || name_count == 0)
		return 1;
	double start = bench_now_ns();
	if (readers == 1)
		read_names(argv[2], next);
	for (int i = 0; readers > 1 && i < readers; i++)
		if (fork() == 0) {
			read_names(argv[2], next);
			_exit(0);
		}
	while (wait(&status) > 0)
		failed |= status;
	printf("%.4f\n", (bench_now_ns() - start) / 1e9);
	return failed;
}

/* --stream FILE read|map */
static int stream(char **argv)
{
	static char buffer[1 << 18];
	int fd = open(argv[2], O_RDONLY);
	volatile unsigned long sum = 0; /* so that every byte is looked at */
	struct stat st;
	ssize_t n;
	double start = bench_now_ns();
	if (fd < 0 || fstat(fd, &st) != 0)
		return 1;
	if (!strcmp(argv[3], "map")) {
		unsigned char *m = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
		for (off_t i = 0; m != MAP_FAILED && i < st.st_size; i += 64)
			sum += m[i];
	} else {
		while ((n = read(fd, buffer, sizeof(buffer))) > 0)
			for (ssize_t i = 0; i < n; i += 64)
				sum += (unsigned char)buffer[i];
		close(fd);
	}
	(void)sum;
	printf("%.4f\n", (bench_now_ns() - start) / 1e9);
	return 0;
}

/* ---- the files ---- */

static char block[1 << 20];

static void fill_block(void)
{
	unsigned seed = 2;
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = (char)rand_r(&seed);
}

static void put(const char *path, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	for (size_t n; fd >= 0 && bytes; bytes -= n) {
		n = bytes < sizeof(block) ? bytes : sizeof(block);
		if (write(fd, block, n) != (ssize_t)n)
			break;
	}
	if (fd < 0 || bytes || close(fd) != 0) {
		perror(path);
		cold_remove();
		exit(2);
	}
}

static char small[4096], shard[4096];

static void make_files(void)
{
	char path[4200];
	unsigned seed = 3;
	fill_block();
	mkdir(cold_dir(""), 0700);
	strcpy(small, cold_dir("small"));
	strcpy(shard, cold_dir("shard-000001.tar"));
	mkdir(small, 0700);
	for (int i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "%s/f%06d.jpg", small, i);
		put(path, LEAST_BYTES + (size_t)rand_r(&seed) % (6 * LEAST_BYTES));
	}
}

static bool make_shard(void)
{
	struct statvfs fs;
	if (statvfs(cold_dir(""), &fs) != 0 || fs.f_bavail * fs.f_frsize < ((uint64_t)SHARD_MIB << 21))
		return false;
	put(shard, (size_t)SHARD_MIB << 20);
	return true;
}

static void nothing(void) {}

static void forget_small(void)
{
	char path[4200];
	if (cold_can_drop() && cold_drop())
		return;
	for (int i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "%s/f%06d.jpg", small, i);
		cold_forget(path);
	}
}

static void forget_shard(void)
{
	cold_forget(shard);
}

/* ---- */

static int compare_dir(char *self, const char *title, const char *order, const char *readers, double limit,
					   void (*prepare)(void))
{
	char *argv[] = {self, (char *)"--read", small, (char *)(uintptr_t)order, (char *)(uintptr_t)readers,
					NULL};
	return cold_compare(title, limit, ROUNDS, prepare, argv);
}

static int compare_shard(char *self, const char *title, const char *how, void (*prepare)(void))
{
	char *argv[] = {self, (char *)"--stream", shard, (char *)(uintptr_t)how, NULL};
	return cold_compare(title, 0.97, ROUNDS, prepare, argv);
}

int main(int argc, char **argv)
{
	char self[] = "/proc/self/exe", exe[4096];
	int missed = 0;
	ssize_t n;
	if (argc == 5 && !strcmp(argv[1], "--read"))
		return read_dir(argv);
	if (argc == 4 && !strcmp(argv[1], "--stream"))
		return stream(argv);
	n = readlink(self, exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = '\0';
	setenv("TURBO_RUN", "1", 1);
	setenv("TURBO_FILES", "prefetch", 1);
	setenv("XDG_CACHE_HOME", "/nonexistent", 1); /* learned start-up is another benchmark's */
	make_files();
	sync();
	cold_heading("20,000 files of 4 to 28 KiB in one directory", ROUNDS);
	missed += compare_dir(exe, "one reader, sorted", "sorted", "1", 2, forget_small);
	missed += compare_dir(exe, "one reader, shuffled", "shuffled", "1", 2, forget_small);
	missed += compare_dir(exe, "8 readers, sorted", "sorted", "8", 1.2, forget_small);
	missed += compare_dir(exe, "8 readers, shuffled", "shuffled", "8", 1.2, forget_small);
	missed += compare_dir(exe, "one reader, shuffled, all in memory", "shuffled", "1", 0.97, nothing);
	missed += compare_dir(exe, "8 readers, shuffled, all in memory", "shuffled", "8", 0.97, nothing);
	if (make_shard()) {
		sync();
		missed += compare_shard(exe, "2 GiB tar, read", "read", forget_shard);
		missed += compare_shard(exe, "2 GiB tar, mapped", "map", forget_shard);
		missed += compare_shard(exe, "2 GiB tar, read, in memory", "read", nothing);
	} else {
		puts("no room for a shard of 2 GiB: left out");
	}
	puts("");
	cold_remove();
	return missed != 0;
}
