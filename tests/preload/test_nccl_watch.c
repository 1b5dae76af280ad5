/* SAN: address TIMED: its limits are seconds.
 *
 * test_nccl_watch.c - jobs of 2, 4 and 8 simulated ranks under the watchdog: what is found, who is named, and that it is
 * told once; and that nothing is found where nothing is wrong. The jobs run side by side: mostly they wait.
 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "policy/nccl/flight_page.h"
#include "tests/gpu/common/rank_orders.h"

#define S 1000000000ull
#define MS 20000 /* for what must happen: a loaded machine is no failure */

struct job {
	struct ranks ranks;
	char dir[64]; /* of its reports */
	uint64_t told;
	char report[4096]; /* the beginning of the newest */
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

static void nap(unsigned ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

	nanosleep(&t, NULL);
}

/* ---- what the ranks do ---- */

static void all(struct job *j, const char *order)
{
	if (!ranks_all(&j->ranks, MS, "%s", order))
		fail_msg("%s", order);
}

static void one(struct job *j, int rank, const char *order)
{
	const char *got = ranks_ask(&j->ranks, rank, MS, "%s", order);

	if (!got || strcmp(got, "ok") != 0)
		fail_msg("rank %d, %s: \"%s\"", rank, order, got ? got : "no answer");
}

static void last_is_killed(struct job *j)
{
	all(j, "allreduce 1000");
	all(j, "sync");
	for (int i = 0; i < j->ranks.n - 1; i++)
		one(j, i, "allgather 1000");
	kill(j->ranks.rank[j->ranks.n - 1].pid, SIGKILL);
}

/* In order, but others wait for it; the lowest one cannot tell. */
static void first_exits(struct job *j)
{
	for (int i = 1; i < j->ranks.n; i++)
		one(j, i, "allreduce 1000");
	ranks_tell(&j->ranks, 0, "exit 0");
}

static void one_calls_another(struct job *j)
{
	all(j, "allreduce 1000");
	for (int i = 0; i < j->ranks.n; i++)
		one(j, i, i == j->ranks.n / 2 ? "allgather 500" : "allreduce 500");
}

/* Nothing hangs, but the data is wrong. */
static void sum_less(struct job *j)
{
	for (int i = 0; i < j->ranks.n; i++)
		one(j, i, i == 2 ? "allreduce 200" : "allreduce 100");
}

static void receives_more(struct job *j)
{
	one(j, 0, "send 100 peer=1");
	one(j, 1, "recv 200 peer=0");
}

static void third_is_crossed(struct job *j)
{
	all(j, "split 0 0 to=1");
	for (int i = 0; i < j->ranks.n; i++) {
		one(j, i, i == 2 ? "allreduce 100 comm=1" : "allreduce 100 comm=0");
		one(j, i, i == 2 ? "allreduce 100 comm=0" : "allreduce 100 comm=1");
	}
}

static void second_computes(struct job *j)
{
	one(j, 0, "allreduce 100");
	ranks_tell(&j->ranks, 1, "work 60000");
}

static void seconds_gpu_computes(struct job *j)
{
	one(j, 1, "gate");
	all(j, "allreduce 100");
}

static void nothing_arrives(struct job *j)
{
	all(j, "allreduce 100");
}

static void all_are_slow(struct job *j)
{
	for (int i = 0; i < j->ranks.n; i++)
		ranks_tell(&j->ranks, i, "allreduce 1000 times=4");
}

/* ---- the jobs ---- */

#define LIMIT "TURBO_NCCL_TIMEOUT_S=1"

static const struct {
	int n;
	const char *env[3];
	void (*run)(struct job *j);
	const char *verdict; /* NULL: none */
	int culprit;         /* -1: nobody */
} rows[] = {
	{2, {NULL}, last_is_killed, "dead", 1},
	{8, {NULL}, last_is_killed, "dead", 7},
	{4, {NULL}, first_exits, "dead", 0},
	{4, {NULL}, one_calls_another, "mismatch", 2},
	{4, {"SIM_NCCL_MIXED=1"}, sum_less, "mismatch", 2},
	{2, {"TURBO_NCCL_WATCHDOG=abort"}, receives_more, "mismatch", 1},
	{2, {LIMIT}, second_computes, "timeout", 1},
	{2, {LIMIT}, seconds_gpu_computes, "timeout", 1},
	{2, {LIMIT, "SIM_NCCL_STUCK=1"}, nothing_arrives, "timeout", -1},
	{4, {"SIM_NCCL_DELAY_US=300000", "SIM_NCCL_ISSUE_US=200000"}, all_are_slow, NULL, 0},
	{4, {NULL}, third_is_crossed, "cycle", 2},
};
#define JOBS (sizeof(rows) / sizeof(rows[0]))
#define TOLD 5 /* the one whose ranks are told of it */
#define SLOW (JOBS - 2)
#define CROSSED (JOBS - 1) /* it takes 3 s */
static struct job jobs[JOBS];

static void start(struct job *j, int n, const char *const more[3])
{
	char where[96];
	const char *env[8] = {"SIM_QUIET=1", "TURBO_LOG=none", where, more[0], more[1], more[2]};

	snprintf(j->dir, sizeof(j->dir), "/tmp/turbo-test-watch-XXXXXX");
	assert_non_null(mkdtemp(j->dir));
	snprintf(where, sizeof(where), "TURBO_NCCL_DIR=%s", j->dir);
	assert_true(ranks_start(&j->ranks, n, env));
	all(j, "init");
}

/* Calls `each` with the path of every report, and says how many there are. */
static unsigned reports(struct job *j, const char *ending, void (*each)(struct job *j, const char *path))
{
	DIR *d = opendir(j->dir);
	struct dirent *entry;
	unsigned n = 0;

	assert_non_null(d);
	while ((entry = readdir(d))) {
		char path[512];
		size_t length = strlen(entry->d_name), end = strlen(ending);
		if (entry->d_name[0] == '.' || length < end || strcmp(entry->d_name + length - end, ending) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", j->dir, entry->d_name);
		each(j, path);
		n++;
	}
	closedir(d);
	return n;
}

static void take_away(struct job *j, const char *path)
{
	(void)j;
	unlink(path);
}

static int end_all(void **state)
{
	(void)state;
	for (unsigned i = 0; i < JOBS; i++) {
		if (!jobs[i].dir[0])
			continue;
		ranks_kill(&jobs[i].ranks);
		reports(&jobs[i], "", take_away);
		rmdir(jobs[i].dir);
	}
	return 0;
}

/* ---- what they have found ---- */

/* The verdict in the flight file of a rank; 0: none, or there is no file. */
static uint32_t verdict_of(const struct job *j, int rank)
{
	static struct flight_page page;
	char path[128];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/dev/shm/" FLIGHT_FILE_FORMAT, (unsigned)geteuid(),
			 (int)j->ranks.rank[rank].pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = pread(fd, &page, sizeof(page.bytes), 0);
	close(fd);
	return n == sizeof(page.bytes) ? page.verdict : 0;
}

static void read_report(struct job *j, const char *path)
{
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	j->report[fread(j->report, 1, sizeof(j->report) - 1, f)] = '\0';
	fclose(f);
}

/* A report of that verdict that names that rank. */
static void finds(struct job *j, const char *verdict, int culprit)
{
	char what[64], who[64];
	uint64_t limit = now_ns() + 15 * S;

	snprintf(what, sizeof(what), "\"verdict\": \"%s\"", verdict);
	if (culprit >= 0)
		snprintf(who, sizeof(who), "\"culprit\": {\"rank\": %d,", culprit);
	else
		snprintf(who, sizeof(who), "\"culprit\": null");
	while (reports(j, ".json", read_report) == 0 || !strstr(j->report, "\"ranks\": ["))
		if (now_ns() > limit)
			fail_msg("%d ranks: no report where \"%s\" is right", j->ranks.n, verdict);
		else
			nap(20);
	if (!strstr(j->report, what) || !strstr(j->report, who))
		fail_msg("%d ranks: where \"%s\" of rank %d is right: %s", j->ranks.n, verdict, culprit, j->report);
}

/* The others have found it, too, and leave it to one to tell. */
static void finds_once(struct job *j, int culprit)
{
	uint64_t limit = now_ns() + 5 * S;
	int found;

	do {
		nap(20);
		found = 0;
		for (int i = 0; i < j->ranks.n; i++)
			found += i != culprit && verdict_of(j, i) != 0;
	} while (found < j->ranks.n - 1 && now_ns() < limit);
	assert_true(found >= j->ranks.n - 1);
	assert_int_equal(reports(j, ".json", read_report), 1);
}

/* Nor has any rank found anything so far. */
static void finds_nothing(struct job *j)
{
	for (int i = 0; i < j->ranks.n; i++)
		if (verdict_of(j, i) != 0)
			fail_msg("rank %d of %d: verdict %u where nothing is wrong", i, j->ranks.n, verdict_of(j, i));
	if (reports(j, ".json", read_report) != 0)
		fail_msg("where nothing is wrong: %s", j->report);
}

static void test_jobs(void **state)
{
	(void)state;
	for (unsigned i = 0; i < JOBS; i++)
		start(&jobs[i], rows[i].n, rows[i].env);
	nap(350); /* they have seen each other */
	for (unsigned i = 0; i < JOBS; i++)
		rows[i].run(&jobs[i]);
	for (unsigned i = 0; i < CROSSED; i++)
		if (rows[i].verdict)
			finds(&jobs[i], rows[i].verdict, rows[i].culprit);
	for (unsigned i = 0; i < CROSSED; i++)
		if (rows[i].run == sum_less) /* nothing is stuck for long, so nobody goes on saying so */
			assert_int_equal(reports(&jobs[i], ".json", read_report), 1);
		else if (rows[i].verdict && strcmp(rows[i].verdict, "timeout") != 0)
			finds_once(&jobs[i], rows[i].culprit);
	finds_nothing(&jobs[SLOW]);
}

/* The framework hears of it by the functions that it asks anyway, and can end the communicator. */
static void test_told(void **state)
{
	struct ranks *r = &jobs[TOLD].ranks;
	(void)state;

	for (int i = 0; i < 2; i++) {
		uint64_t limit = now_ns() + 5 * S;
		const char *got = ranks_ask(r, i, MS, "async");
		while (got && strcmp(got, "6") != 0 && now_ns() < limit)
			got = ranks_ask(r, i, MS, "async");
		assert_string_equal(got ? got : "no answer", "6");
		got = ranks_ask(r, i, MS, "last");
		if (!got || !strstr(got, "nccl: mismatch: rank 1 "))
			fail_msg("\"%s\" as the last error", got ? got : "no answer");
	}
	all(&jobs[TOLD], "abort");
	all(&jobs[TOLD], "sync");
	/* Others are told nothing where libturbo only reports. */
	assert_string_equal(ranks_ask(&jobs[TOLD - 1].ranks, 0, MS, "async"), "0");
}

/* The slow ones get done, and leave one after the other. */
static void test_in_order(void **state)
{
	struct job *j = &jobs[SLOW];
	(void)state;

	for (int i = 0; i < j->ranks.n; i++)
		assert_non_null(ranks_answer(&j->ranks, i, MS));
	all(j, "check");
	for (int i = 0; i < j->ranks.n - 1; i++) {
		ranks_tell(&j->ranks, i, "exit 0");
		nap(50);
	}
	for (int i = 0; i < 10; i++, nap(50))
		finds_nothing(j);
}

static void test_crossed(void **state)
{
	(void)state;
	finds(&jobs[CROSSED], rows[CROSSED].verdict, rows[CROSSED].culprit);
	finds_once(&jobs[CROSSED], rows[CROSSED].culprit);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jobs),
		cmocka_unit_test(test_told),
		cmocka_unit_test(test_in_order),
		cmocka_unit_test(test_crossed),
	};

	if (ranks_is_rank(argc, argv))
		return ranks_main(argv, rank_obey);
	return cmocka_run_group_tests(tests, NULL, end_all);
}
