/* LINK: nccl ENV: TURBO_NCCL_COALESCE=on NOLEAKS: ranks end in the middle. BARE */
/*
 * test_coalesce_ends.c - ranks that end with all-gathers held back: in order, at once, killed, with a communicator that is gone
 * already. Whoever ends, ends; whoever can go on, goes on; the next job is none the worse.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/gpu/common/rank_orders.h"
#include "tests/gpu/common/util.h"

#define MUST_MS 20000
#define ROUNDS 2

static struct ranks job;

static bool all(const char *order)
{
	return ranks_all(&job, MUST_MS, "%s", order);
}

static bool start(int n)
{
	return ranks_start(&job, n, NULL) && all("init") && all("allgather 100 stream=1") && all("check");
}

static bool ends(int rank, int status)
{
	int got = ranks_wait(&job, rank, MUST_MS);

	if (got != status)
		fprintf(stderr, "rank %d: wait status %d, not %d\n", rank, got, status);
	return got == status;
}

/* All issue and end, without a wait. */
static bool all_exit(void)
{
	bool ok = start(2) && all("allgather 100 stream=1 times=20");

	for (int i = 0; i < 2 && ok; i++)
		ranks_tell(&job, i, "exit %d", 3 + i);
	for (int i = 0; i < 2 && ok; i++)
		ok = ends(i, (3 + i) << 8);
	ranks_kill(&job);
	return ok;
}

/* The pipe ends: they return from main(). */
static bool all_return(void)
{
	return start(2) && all("allgather 100 stream=1 times=20") && ranks_stop(&job, MUST_MS);
}

/* One ends when all that it has issued is over; the other has all of it, too. */
static bool one_exits(void)
{
	bool ok = start(2) && all("allgather 100 stream=1 times=20") &&
			  !strcmp(ranks_ask(&job, 0, MUST_MS, "sync stream=1") ?: "", "ok");

	if (ok)
		ranks_tell(&job, 0, "exit 0");
	ok = ok && ends(0, 0) && !strcmp(ranks_ask(&job, 1, MUST_MS, "check") ?: "", "ok");
	/* From here on it hangs, as without libturbo; an abort frees it. */
	ok = ok && !strcmp(ranks_ask(&job, 1, MUST_MS, "allgather 100 stream=1 times=5") ?: "", "ok");
	ok = ok && !strcmp(ranks_ask(&job, 1, MUST_MS, "query stream=1") ?: "", "busy");
	sleep_ms(20);
	ok = ok && !strcmp(ranks_ask(&job, 1, MUST_MS, "query stream=1") ?: "", "busy");
	ok = ok && !strcmp(ranks_ask(&job, 1, MUST_MS, "abort") ?: "", "ok");
	ok = ok && !strcmp(ranks_ask(&job, 1, MUST_MS, "sync stream=1") ?: "", "ok");
	ranks_kill(&job);
	return ok;
}

static bool one_is_killed(void)
{
	bool ok = start(4) && all("allgather 100 stream=1 times=20");

	ranks_signal(&job, 2, SIGKILL);
	for (int i = 0; i < 4 && ok; i++)
		ok = i == 2 || !strcmp(ranks_ask(&job, i, MUST_MS, "abort") ?: "", "ok");
	for (int i = 0; i < 4 && ok; i++)
		if (i != 2)
			ranks_tell(&job, i, "exit 0");
	for (int i = 0; i < 4 && ok; i++)
		ok = i == 2 || ends(i, 0);
	ranks_kill(&job);
	return ok;
}

static bool destroyed_at_once(void)
{
	bool ok = start(2) && all("allgather 100 stream=1 times=20") && all("destroy") && all("check");

	for (int i = 0; i < 2 && ok; i++)
		ranks_tell(&job, i, "exit 0");
	for (int i = 0; i < 2 && ok; i++)
		ok = ends(i, 0);
	ranks_kill(&job);
	return ok;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		bool (*run)(void);
	} tests[] = {{"all exit", all_exit},
				 {"all return", all_return},
				 {"one exits", one_exits},
				 {"one is killed", one_is_killed},
				 {"destroyed at once", destroyed_at_once}};
	int failed = 0;

	if (ranks_is_rank(argc, argv))
		return ranks_main(argv, rank_obey);
	for (size_t t = 0; t < sizeof(tests) / sizeof(tests[0]); t++)
		for (int i = 0; i < ROUNDS; i++)
			if (!tests[t].run()) {
				printf("FAILED: %s, round %d\n", tests[t].name, i);
				ranks_kill(&job);
				failed++;
				break;
			}
	printf("%d failed\n", failed);
	return failed != 0;
}
