/*
 * test_recording_file.c - the file of a recording, also in bad surroundings: full disks, and directories that cannot be
 * written. The program goes on, and what there is of a file can be read.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "stats_leftovers.h"
#include "tests/unit/recording_fixture.h"

#define MB (UINT64_C(1) << 20)

/* ---- libc, failing ---- */

static int fallocate_error; /* 0: none */
static bool no_tmpfile, no_linkat;

int fallocate(int fd, int mode, off_t offset, off_t length)
{
	if (fallocate_error) {
		errno = fallocate_error;
		return -1;
	}
	return (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

/* Asked before a file without a name is made. */
int access(const char *path, int mode)
{
	if (no_tmpfile && strcmp(path, "/proc/self/fd") == 0) {
		errno = ENOENT;
		return -1;
	}
	return (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
	if (no_linkat) {
		errno = EPERM;
		return -1;
	}
	return (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
}

static int reset(void **state)
{
	fallocate_error = 0;
	no_tmpfile = no_linkat = false;
	return fixture_make(state);
}

static unsigned files_in(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	unsigned n = 0;

	while ((entry = readdir(d)))
		n += entry->d_name[0] != '.';
	closedir(d);
	return n;
}

/* ---- what it is ---- */

static void test_file(void **state)
{
	(void)state;
	struct timeline_device device = {.name = "A100", .multiprocessors = 108};
	struct recording_setup setup = {.mode = TIMELINE_MODE_LAUNCH,
									.dir = fixture_dir,
									.bytes = MB,
									.cupti_version = 130001,
									.driver_version = 13000,
									.device = &device,
									.device_count = 1};
	char want[300], host[64];
	struct stat st;

	setenv("RANK", "5", 1);
	setenv("WORLD_SIZE", "16", 1);
	setenv("LOCAL_RANK", "x", 1);
	recording_read_environment();
	unsetenv("RANK");
	unsetenv("WORLD_SIZE");
	unsetenv("LOCAL_RANK");
	assert_true(recording_open(&setup, fixture_why, sizeof(fixture_why)));
	assert_int_equal(stat(recording_path(), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_true((uint64_t)st.st_blocks * 512 >= (uint64_t)st.st_size);
	gethostname(host, sizeof(host));
	snprintf(want, sizeof(want), "%s/turbo-%s-%d-", fixture_dir, host, (int)getpid());
	assert_memory_equal(recording_path(), want, strlen(want));
	struct trace *t = fixture_read(recording_path());
	const struct timeline_header *h = trace_header(t);
	assert_int_equal(h->pid, getpid());
	assert_int_equal(h->pid_start_ticks, stats_start_ticks(getpid()));
	assert_int_equal(h->pid_ns, stats_pid_namespace());
	assert_int_equal(h->rank, 5);
	assert_int_equal(h->ranks, 16);
	assert_int_equal(h->local_rank, -1);
	assert_int_equal(h->mode, TIMELINE_MODE_LAUNCH);
	assert_int_equal(h->cupti_version, 130001);
	assert_int_equal(h->driver_version, 13000);
	assert_int_equal(h->device_count, 1);
	assert_string_equal(h->device[0].name, "A100");
	assert_string_equal(h->host, host);
	assert_non_null(strstr(h->command, "test_recording_file"));
	assert_string_equal(h->version_text, TURBO_VERSION);
	assert_non_null(strstr(h->options, "TURBO_COPY="));
	assert_non_null(strstr(h->options, " TURBO_DEVMEM="));
	assert_int_equal(h->file_bytes, st.st_size);
	assert_int_equal(h->start_ns / UINT64_C(1000000000000), (uint64_t)time(NULL) / 1000);
	assert_int_equal(h->end_ns, 0);
	trace_close(t);
	recording_read_environment();
}

/* From here on in this process files are made under their names. */
static void test_name_refused(void **state)
{
	(void)state;

	no_linkat = true;
	assert_true(fixture_open(MB));
	fixture_put(0, 0, 10);
	recording_close();
	struct trace *t = fixture_read(recording_path());
	assert_int_equal(fixture_check(t), 10);
	trace_close(t);
	assert_int_equal(files_in(fixture_dir), 1);
}

/* ---- no room ---- */

static void refused(const char *dir, uint64_t bytes, const char *because)
{
	struct recording_setup setup = {.dir = dir, .bytes = bytes, .least_bytes = bytes};

	fixture_why[0] = '\0';
	errno = 4711;
	assert_false(recording_open(&setup, fixture_why, sizeof(fixture_why)));
	assert_int_equal(errno, 4711);
	if (!strstr(fixture_why, because))
		fail_msg("%s", fixture_why);
	assert_false(recording_is_open());
	assert_false(recording_begin());
	assert_int_equal(files_in(fixture_dir), 0);
}

static void test_full_disk(void **state)
{
	(void)state;
	const int errors[] = {ENOSPC, EDQUOT, EIO};

	for (unsigned i = 0; i < 3; i++) {
		fallocate_error = errors[i];
		refused(fixture_dir, 64 * MB, strerror(errors[i]));
		no_tmpfile = true;
		refused(fixture_dir, 64 * MB, strerror(errors[i]));
		no_tmpfile = false;
	}
	fallocate_error = 0;
	/* Not even nearly all that is left. */
	refused(fixture_dir, UINT64_C(1) << 42, "No space left");
	assert_true(fixture_open(MB));
}

static void test_smaller_where_there_is_less(void **state)
{
	(void)state;
	struct recording_setup setup = {.dir = fixture_dir, .bytes = UINT64_C(1) << 44, .least_bytes = MB};

	assert_true(recording_open(&setup, fixture_why, sizeof(fixture_why)));
	fixture_put(0, 0, 100);
}

static int limited(void)
{
	const struct rlimit limit = {8 * MB, 8 * MB};

	setrlimit(RLIMIT_FSIZE, &limit);
	refused(fixture_dir, 64 * MB, "File too large");
	struct recording_setup setup = {.dir = fixture_dir, .bytes = 64 * MB, .least_bytes = MB};
	if (!recording_open(&setup, fixture_why, sizeof(fixture_why)))
		return 2;
	fixture_put(0, 0, 400000);
	recording_close();
	return 0;
}

static void test_limited_files(void **state)
{
	(void)state;
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(limited());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0); /* no SIGXFSZ */
}

static void test_nothing_can_be_reserved(void **state)
{
	(void)state;
	struct stat st;

	fallocate_error = EOPNOTSUPP;
	assert_true(fixture_open(MB));
	assert_int_equal(stat(recording_path(), &st), 0);
	assert_true((uint64_t)st.st_blocks * 512 >= (uint64_t)st.st_size);
	fixture_put(0, 0, 1000);
}

/* ---- directories ---- */

static void test_directories(void **state)
{
	(void)state;
	char path[600], dir[100];

	snprintf(path, sizeof(path), "%s/a/b", fixture_dir);
	refused(path, MB, "No such file");
	refused("/proc", MB, "/proc");
	refused("/dev/null", MB, "Not a directory");
	/* Its last part is made. */
	snprintf(dir, sizeof(dir), "%s/a", fixture_dir);
	struct recording_setup setup = {.dir = dir, .bytes = MB};
	assert_true(recording_open(&setup, fixture_why, sizeof(fixture_why)));
	assert_memory_equal(recording_path(), dir, strlen(dir));
	unlink(recording_path());
	rmdir(dir);
	/* A link in place of a file is not followed, nor written over. */
	no_tmpfile = true;
	assert_true(fixture_open(MB));
	strcpy(path, recording_path());
	char *number = strrchr(path, '-') + 1;
	snprintf(number, 40, "%u.timeline", atoi(number) + 1);
	assert_int_equal(symlink("/dev/null", path), 0);
	assert_true(fixture_open(MB));
	assert_string_not_equal(recording_path(), path);
	fixture_put(0, 0, 10);
}

/* None named: where we are, else TMPDIR, else /tmp. */
static int from_a_removed_directory(void)
{
	struct recording_setup setup = {.bytes = MB};
	char gone[100];

	snprintf(gone, sizeof(gone), "%s/gone", fixture_dir);
	if (chdir(fixture_dir) != 0 || !recording_open(&setup, fixture_why, sizeof(fixture_why)) ||
		strncmp(recording_path(), fixture_dir, strlen(fixture_dir)) != 0 || recording_path()[0] != '/')
		return 2;
	unlink(recording_path());
	setenv("TMPDIR", fixture_dir, 1);
	recording_read_environment();
	if (mkdir(gone, 0700) != 0 || chdir(gone) != 0 || rmdir(gone) != 0)
		return 3;
	if (!recording_open(&setup, fixture_why, sizeof(fixture_why)) ||
		strncmp(recording_path(), fixture_dir, strlen(fixture_dir)) != 0)
		return 4;
	unlink(recording_path());
	setenv("TMPDIR", "/proc/nowhere", 1);
	recording_read_environment();
	if (!recording_open(&setup, fixture_why, sizeof(fixture_why)) ||
		strncmp(recording_path(), "/tmp/turbo-", 11) != 0)
		return 5;
	unlink(recording_path());
	return 0;
}

static void test_no_directory_named(void **state)
{
	(void)state;
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(from_a_removed_directory());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, reset, fixture_remove)
	const struct CMUnitTest tests[] = {
		TEST(test_file),
		TEST(test_full_disk),
		TEST(test_smaller_where_there_is_less),
		TEST(test_limited_files),
		TEST(test_nothing_can_be_reserved),
		TEST(test_directories),
		TEST(test_no_directory_named),
		TEST(test_name_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
