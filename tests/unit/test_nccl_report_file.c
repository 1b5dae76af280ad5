/* test_nccl_report_file.c - where a report goes: the log and two files, whole or not at all. */
#include <dirent.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/json_check.h"
#include "common/judge_world.h"
#include "common/report_made.h"
#include "log_fixture.h"

static struct report r;
static struct report_given given;
static _Atomic bool stuck;

/* The library's, too: a file server that takes its time. */
ssize_t write(int fd, const void *bytes, size_t n)
{
	while (stuck)
		usleep(10000);
	return syscall(SYS_write, fd, bytes, n);
}

static const struct made_case *named(const char *name)
{
	const struct made_case *c = made_cases;

	while (strcmp(c->name, name))
		c++;
	return c;
}

/* A report about to be given, with an empty folder for it and one that is spare; NULL: there is none. */
static void ready(const char *name, const char *level, const char *folder, const char *spare)
{
	static char a[300], b[64], command[300];
	char *env[] = {a, b, NULL};

	snprintf(command, sizeof(command), "rm -rf %s/* && mkdir -p %s/reports %s/spare", dir, dir, dir);
	assert_int_equal(system(command), 0);
	snprintf(a, sizeof(a), "TURBO_NCCL_DIR=%s/%s", dir, folder ? folder : "missing");
	snprintf(b, sizeof(b), "TURBO_LOG=%s", level);
	setenv("TMPDIR", in_dir(spare ? spare : "missing"), 1);
	options_parse(env, NULL, NULL);
	log_start();
	made_report(&r, named(name));
	memset(&given, 0, sizeof(given));
}

static const char *name_of(const char *folder, unsigned number, const char *suffix)
{
	static char path[600];
	char host[65];

	gethostname(host, sizeof(host));
	snprintf(path, sizeof(path), "%s/%s/" REPORT_FILE_FORMAT "%s", dir, folder, host, (int)getpid(), number,
			 suffix);
	return path;
}

static unsigned files_in(const char *folder)
{
	DIR *d = opendir(in_dir(folder));
	unsigned n = 0;

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));)
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	closedir(d);
	return n;
}

static bool exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static void make(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* ---- */

static void test_both(void **state)
{
	const char *log;
	struct stat st;
	(void)state;
	ready("dead", "warn", "reports", NULL);
	world_page(0)->dump.version = 0; /* nobody has said where he is, yet */
	capture_start();
	report_begin(&r, &given);
	log = capture_end();
	assert_non_null(strstr(log, line_of("warn", named("dead")->line)));
	assert_non_null(strstr(log, "\n  >    1  1001  dead "));
	assert_non_null(strstr(log, given.path));
	assert_int_equal(given.number, 1);
	assert_string_equal(given.path, name_of("reports", 1, ".txt"));
	assert_non_null(strstr(contents(given.path), "it has not said"));
	assert_int_equal(stat(given.path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(stat(name_of("reports", 1, ".json"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_true(json_is_valid(contents(name_of("reports", 1, ".json"))));

	made_report(&r, named("dead"));
	capture_start();
	report_end(&r, &given);
	log = capture_end();
	assert_non_null(strstr(log, "    Loader.__next__ (/home/u/train/data.py:12)\n"));
	assert_null(strstr(log, "warn"));
	assert_non_null(strstr(contents(given.path), "Loader.__next__"));
	assert_true(json_is_valid(contents(name_of("reports", 1, ".json"))));
	assert_string_equal(json_at(contents(name_of("reports", 1, ".json")), "processes.1.python_now.0"),
						"\"/home/u/train/data.py:12 Loader.__next__\"");
	assert_int_equal(files_in("reports"), 2);
}

/* What is there stays, be it one of the two, a link or what a killed writer has left. */
static void test_names_taken(void **state)
{
	(void)state;
	ready("mismatch", "none", "reports", NULL);
	make(name_of("reports", 1, ".txt"), "old");
	make(name_of("reports", 2, ".json"), "old");
	assert_int_equal(symlink(in_dir("target"), name_of("reports", 3, ".txt")), 0);
	char hidden[700];
	snprintf(hidden, sizeof(hidden), "%s/reports/.%s.new", dir, strrchr(name_of("x", 4, ".txt"), '/') + 1);
	make(hidden, "half");
	report_begin(&r, &given);
	report_end(&r, &given);
	assert_int_equal(given.number, 4);
	assert_string_equal(contents(name_of("reports", 1, ".txt")), "old");
	assert_string_equal(contents(name_of("reports", 2, ".json")), "old");
	assert_false(exists(name_of("reports", 2, ".txt")));
	assert_false(exists(in_dir("target")));
	assert_int_equal(files_in("reports"), 5);
	/* The next report of the process has the next number. */
	memset(&given, 0, sizeof(given));
	report_begin(&r, &given);
	assert_int_equal(given.number, 5);
}

static void test_spare_folder(void **state)
{
	(void)state;
	ready("cycle", "none", NULL, "spare");
	report_begin(&r, &given);
	assert_string_equal(given.path, name_of("spare", 1, ".txt"));
	report_end(&r, &given);
	assert_int_equal(files_in("spare"), 2);
}

static void test_nowhere(void **state)
{
	const char *log;
	(void)state;
	ready("stopped", "warn", NULL, NULL);
	capture_start();
	report_begin(&r, &given);
	report_end(&r, &given);
	log = capture_end();
	assert_non_null(strstr(log, "nccl: stopped: "));
	assert_non_null(strstr(log, "could not be written: No such file or directory\n"));
	assert_null(strstr(strstr(log, "could not be written") + 1, "could not be written"));
	assert_int_equal(given.number, 0);
}

/* A rank that is late for a good reason is no alarm. */
static void test_no_alarm(void **state)
{
	static const char *const name[] = {"held", "laggard"};
	(void)state;
	for (int i = 0; i < 2; i++) {
		ready(name[i], "info", "reports", "spare");
		capture_start();
		report_begin(&r, &given);
		report_end(&r, &given);
		assert_string_equal(capture_end(), line_of("info", named(name[i])->line));
		assert_int_equal(files_in("reports"), 0);
		ready(name[i], "warn", "reports", "spare");
		capture_start();
		report_begin(&r, &given);
		report_end(&r, &given);
		assert_string_equal(capture_end(), "");
		assert_string_equal(given.line, named(name[i])->line);
	}
}

/* The job may hang on the very file server that the reports go to: who reports goes on, and what is to be done is done. */
static void test_slow_folder(void **state)
{
	const char *log;
	double since = seconds();
	(void)state;
	ready("transport", "warn", "reports", NULL);
	capture_start();
	stuck = true;
	report_begin(&r, &given);
	report_end(&r, &given);
	stuck = false;
	log = capture_end();
	assert_true(seconds() - since < 4);
	assert_non_null(strstr(log, "nccl: transport: "));
	assert_non_null(strstr(log, "takes long"));
	for (int i = 0; i < 500 && !exists(name_of("reports", 1, ".json")); i++)
		usleep(10000);
	assert_true(json_is_valid(contents(name_of("reports", 1, ".json"))));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both),         cmocka_unit_test(test_names_taken),
		cmocka_unit_test(test_spare_folder), cmocka_unit_test(test_nowhere),
		cmocka_unit_test(test_no_alarm),     cmocka_unit_test(test_slow_folder),
	};
	return cmocka_run_group_tests(tests, log_set_up, log_clean_up);
}
