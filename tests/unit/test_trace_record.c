/* test_trace_record.c - TURBO_DEVMEM_TRACE: what is recorded is a trace that `turbo replay` reads,
 * and no trouble with the file reaches the program. */
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <pthread.h>

#include "log_fixture.h"

#include "devmem/trace.h"
#include "tools/turbo/trace_map.c"
#include "tools/turbo/trace_read.c"

#define S(n) ((CUstream)(uintptr_t)(0x55550000ull + 64 * (n)))
#define EVENT(n) ((CUevent)(uintptr_t)(0x66660000ull + 64 * (n)))
#define AT(n) ((CUdeviceptr)0x7f0000000000ull + ((CUdeviceptr)(n) << 21))

int failure(const char *name, const char *fmt, ...)
{
	(void)name;
	(void)fmt;
	return EXIT_FAILED;
}

/* Each case runs in a child: the recorder lives once in a process. */
static void in_child(void (*body)(void))
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* In a child: assertions cannot longjmp out of it. */
#define CHECK(x)                                                                 \
	do {                                                                         \
		if (!(x)) {                                                              \
			dprintf(real_stderr, "%s:%d: %s: not so\n", __FILE__, __LINE__, #x); \
			_exit(1);                                                            \
		}                                                                        \
	} while (0)

static void record_to(const char *path)
{
	static char entry[512], level[] = "TURBO_LOG=warn";
	char *env[] = {entry, level, NULL};
	snprintf(entry, sizeof(entry), "TURBO_DEVMEM_TRACE=%s", path);
	options_parse(env, NULL, NULL);
	log_start();
	devmem_trace_policy.start();
}

static bool file_is(const char *path, const char *want)
{
	const char *have = contents(path);
	if (!strcmp(have, want))
		return true;
	dprintf(real_stderr, "--- wanted\n%s--- found\n%s---\n", want, have);
	return false;
}

static uint64_t operations(const char *path, uint64_t *live)
{
	struct trace_reader r;
	struct trace_op op;
	uint64_t n = 0;
	int code;
	CHECK(trace_reader_open(&r, path));
	while ((code = trace_reader_next(&r, &op)) > 0)
		n++;
	if (code < 0)
		dprintf(real_stderr, "%s:%d: %s\n", path, (int)r.line, r.why);
	CHECK(code == 0);
	*live = r.live;
	trace_reader_close(&r);
	return n;
}

/* ---- what is written ---- */

static void write_some(void)
{
	record_to(in_dir("some"));
	CHECK(devmem_tracing());
	errno = EXDEV;
	devmem_trace_alloc(AT(1), 1000, NULL, 0);
	devmem_trace_alloc(AT(2), 2000, S(1), 0);
	devmem_trace_alloc(AT(3), 3000, S(1), 2);
	devmem_trace_free(AT(9), NULL); /* never seen */
	devmem_trace_free(0, NULL);
	devmem_trace_sync(S(7)); /* never used */
	devmem_trace_destroy(S(7));
	devmem_trace_wait(S(2), S(1));
	devmem_trace_free(AT(2), S(2));
	devmem_trace_alloc(AT(2), 2000, CU_STREAM_LEGACY, 0); /* the address again */
	devmem_trace_free(AT(3), S(1));
	devmem_trace_event(EVENT(1), S(1));
	devmem_trace_destroy(S(1));
	devmem_trace_wait_event(NULL, EVENT(1));
	devmem_trace_wait_event(NULL, EVENT(2));  /* never recorded */
	devmem_trace_alloc(AT(4), 4000, S(1), 0); /* the handle again */
	devmem_trace_sync(S(1));
	devmem_trace_alloc(AT(1), 5000, NULL, 0); /* its free was missed */
	devmem_trace_alloc(AT(5), 500, CU_STREAM_PER_THREAD, 0);
	devmem_trace_free(AT(5), CU_STREAM_PER_THREAD);
	CHECK(errno == EXDEV);
	devmem_trace_policy.stop();
	devmem_trace_alloc(AT(6), 1, NULL, 0);
	CHECK(file_is(in_dir("some"), "turbo-alloc-trace 1\n"
								  "a 1 1000 0\na 2 2000 1\na 3 3000 1 2\n"
								  "w 2 1\nf 2 2\na 4 2000 0\nf 3 1 2\nd 1\nw 0 1\n"
								  "a 5 4000 3\ns 3\nf 1 0\na 6 5000 0\na 7 500 4\nf 7 4\n"));
	uint64_t live;
	CHECK(operations(in_dir("some"), &live) == 15 && live == 2000 + 4000 + 5000);
	struct stat st;
	CHECK(stat(in_dir("some"), &st) == 0 && (st.st_mode & 0777) == 0600);
}

static void every_kind_of_line(void **state)
{
	(void)state;
	in_child(write_some);
}

static void reset_device(void)
{
	record_to(in_dir("reset"));
	for (int i = 1; i <= 3000; i++)
		devmem_trace_alloc(AT(i), 512, NULL, i % 3);
	devmem_trace_policy.context_gone((void *)1, 1);
	devmem_trace_policy.context_gone(NULL, 1);
	devmem_trace_policy.stop();
	uint64_t live;
	CHECK(operations(in_dir("reset"), &live) == 4000 && live == 2000 * 512);
}

static void a_reset_device_frees_its_blocks(void **state)
{
	(void)state;
	in_child(reset_device);
}

static void do_nothing(void)
{
	record_to("");
	CHECK(!devmem_tracing());
	devmem_trace_alloc(AT(1), 1, NULL, 0);
	devmem_trace_policy.stop();
}

static void without_the_option_nothing_happens(void **state)
{
	(void)state;
	in_child(do_nothing);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 20000 };

static void *allocate(void *arg)
{
	uintptr_t thread = (uintptr_t)arg;
	for (int i = 0; i < ROUNDS; i++) {
		devmem_trace_alloc(AT(i % 50 + 50 * (int)thread), 512, S(thread), 0);
		devmem_trace_free(AT(i % 50 + 50 * (int)thread), S(thread));
	}
	return NULL;
}

static void many_threads(void)
{
	pthread_t thread[THREADS];
	uint64_t live;
	record_to(in_dir("threads"));
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, allocate, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	devmem_trace_policy.stop();
	CHECK(operations(in_dir("threads"), &live) == 2 * THREADS * ROUNDS && live == 0);
}

static void threads_do_not_mix_lines(void **state)
{
	(void)state;
	in_child(many_threads);
}

/* ---- the file ---- */

/* What is written reaches the file within a second or so, if calls keep coming. */
static void wait_a_second(void)
{
	record_to(in_dir("second"));
	devmem_trace_alloc(AT(1), 512, NULL, 0);
	for (int i = 0; i < 40 && !strstr(contents(in_dir("second")), "a 1 512 0\n"); i++) {
		usleep(100000);
		devmem_trace_sync(NULL);
	}
	CHECK(strstr(contents(in_dir("second")), "a 1 512 0\n"));
}

static void a_killed_program_loses_little(void **state)
{
	(void)state;
	in_child(wait_a_second);
}

static void second_process(void)
{
	char path[300];
	record_to(in_dir("taken"));
	capture_start();
	devmem_trace_alloc(AT(1), 512, NULL, 0);
	devmem_trace_policy.stop();
	CHECK(strstr(capture_end(), "the file exists; recording to"));
	CHECK(file_is(in_dir("taken"), "precious"));
	snprintf(path, sizeof(path), "%s.%d", in_dir("taken"), (int)getpid());
	CHECK(file_is(path, "turbo-alloc-trace 1\na 1 512 0\n"));
	unlink(path);
}

static void an_existing_file_is_kept(void **state)
{
	(void)state;
	FILE *f = fopen(in_dir("taken"), "w");
	fputs("precious", f);
	fclose(f);
	in_child(second_process);
}

static void through_link(void)
{
	char path[300];
	record_to(in_dir("link"));
	capture_start();
	devmem_trace_alloc(AT(1), 512, NULL, 0);
	devmem_trace_policy.stop();
	capture_end();
	CHECK(access(in_dir("target"), F_OK) != 0);
	snprintf(path, sizeof(path), "%s.%d", in_dir("link"), (int)getpid());
	CHECK(unlink(path) == 0);
}

static void a_link_is_not_followed(void **state)
{
	(void)state;
	assert_int_equal(symlink("target", in_dir("link")), 0);
	in_child(through_link);
}

static void nowhere(void)
{
	record_to(in_dir("missing/file"));
	capture_start();
	for (int i = 1; i < 10; i++)
		devmem_trace_alloc(AT(i), 512, NULL, 0);
	devmem_trace_policy.stop();
	const char *said = capture_end();
	CHECK(strstr(said, "cannot be written: No such file"));
	CHECK(strchr(said, '\n') == said + strlen(said) - 1);
	CHECK(!devmem_tracing());
}

static void an_unwritable_file_is_said_once(void **state)
{
	(void)state;
	in_child(nowhere);
}

/* The limit of the file's size stands for a full disk: whole lines stay. */
static void full(void)
{
	struct rlimit limit = {100000, 100000};
	uint64_t live;
	record_to(in_dir("full"));
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	capture_start();
	for (int i = 1; i < 50000; i++)
		devmem_trace_alloc(AT(i), 512, NULL, 0);
	devmem_trace_policy.stop();
	const char *said = capture_end();
	CHECK(strstr(said, "cannot be written: File too large"));
	CHECK(strchr(said, '\n') == said + strlen(said) - 1);
	CHECK(operations(in_dir("full"), &live) > 1000);
}

static void a_full_disk_ends_the_recording(void **state)
{
	(void)state;
	in_child(full);
}

static void replace(void)
{
	record_to(in_dir("replaced"));
	devmem_trace_alloc(AT(1), 512, NULL, 0);
	CHECK(unlink(in_dir("replaced")) == 0);
	FILE *f = fopen(in_dir("replaced"), "w");
	fputs("other", f);
	fclose(f);
	capture_start();
	devmem_trace_policy.stop();
	CHECK(strstr(capture_end(), "changed by somebody else"));
	CHECK(file_is(in_dir("replaced"), "other"));
}

static void a_replaced_file_is_left_alone(void **state)
{
	(void)state;
	in_child(replace);
}

static void change_folder(void)
{
	CHECK(chdir(dir) == 0);
	record_to("relative");
	CHECK(chdir("/") == 0);
	devmem_trace_alloc(AT(1), 512, NULL, 0);
	devmem_trace_policy.stop();
	CHECK(file_is(in_dir("relative"), "turbo-alloc-trace 1\na 1 512 0\n"));
}

static void a_relative_path_is_of_the_start(void **state)
{
	(void)state;
	in_child(change_folder);
}

static void have_child(void)
{
	int status;
	record_to(in_dir("parent"));
	devmem_trace_alloc(AT(1), 512, NULL, 0);
	pid_t pid = fork();
	if (pid == 0) {
		devmem_trace_policy.fork_child();
		devmem_trace_alloc(AT(2), 512, NULL, 0);
		devmem_trace_policy.stop();
		_exit(devmem_tracing());
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	devmem_trace_alloc(AT(3), 512, NULL, 0);
	devmem_trace_policy.stop();
	CHECK(file_is(in_dir("parent"), "turbo-alloc-trace 1\na 1 512 0\na 2 512 0\n"));
}

static void a_forked_child_records_nothing(void **state)
{
	(void)state;
	in_child(have_child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_of_line),
		cmocka_unit_test(a_reset_device_frees_its_blocks),
		cmocka_unit_test(without_the_option_nothing_happens),
		cmocka_unit_test(threads_do_not_mix_lines),
		cmocka_unit_test(a_killed_program_loses_little),
		cmocka_unit_test(an_existing_file_is_kept),
		cmocka_unit_test(a_link_is_not_followed),
		cmocka_unit_test(an_unwritable_file_is_said_once),
		cmocka_unit_test(a_full_disk_ends_the_recording),
		cmocka_unit_test(a_replaced_file_is_left_alone),
		cmocka_unit_test(a_relative_path_is_of_the_start),
		cmocka_unit_test(a_forked_child_records_nothing),
	};
	return cmocka_run_group_tests(tests, log_set_up, log_clean_up);
}
