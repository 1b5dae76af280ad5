/*
 * nccl_job.c - the ranks of a job, told on the command line what to do (tests/gpu/common/rank_orders.h).
 *
 *	nccl_job RANKS [NAME=value | R:NAME=value]... -- STEP...
 *
 * A step is an order for all ranks, or `R:order` for one. `&order`, `R:&order`: its answer is not waited for. `wait MS`: pause.
 * `kill R`, `halt R`, `cont R`: signals. Prints "R: answer" for answers other than "ok"; those that do not come within
 * 20 s are "none". In the end all ranks are killed. LD_PRELOAD and the like reach the ranks. Exits with 0, or 2 for
 * wrong usage.
 */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/common/rank_orders.h"
#include "tests/gpu/common/util.h"

#define ANSWER_MS 20000

static struct ranks job;
static int owed[RANKS_MAX]; /* answers that nobody waited for */

static void show_answer(int rank)
{
	const char *answer = NULL;
	for (owed[rank]++; owed[rank]; owed[rank]--) {
		answer = ranks_answer(&job, rank, ANSWER_MS);
		if (!answer || strcmp(answer, "ok"))
			printf("%d: %s\n", rank, answer ? answer : "none");
		if (!answer)
			break; /* it is owed still */
	}
	fflush(stdout);
}

static void tell(int rank, const char *order, bool waits)
{
	ranks_tell(&job, rank, "%s", order);
	if (!waits)
		owed[rank]++;
}

static bool is_signal(const char *step)
{
	static const struct {
		const char *word;
		int signal;
	} known[] = {{"kill ", SIGKILL}, {"halt ", SIGSTOP}, {"cont ", SIGCONT}};
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (!strncmp(step, known[i].word, 5)) {
			ranks_signal(&job, atoi(step + 5) % job.n, known[i].signal);
			return true;
		}
	}
	return false;
}

static void take_step(const char *step)
{
	int first = 0, last = job.n - 1;
	const char *colon = isdigit((unsigned char)*step) ? strchr(step, ':') : NULL;
	if (is_signal(step))
		return;
	if (!strncmp(step, "wait ", 5)) {
		sleep_ms((unsigned)atoi(step + 5));
		return;
	}
	if (colon) {
		first = last = atoi(step) % job.n;
		step = colon + 1;
	}
	bool waits = *step != '&';
	for (int i = first; i <= last; i++)
		tell(i, step + !waits, waits);
	for (int i = first; i <= last && waits; i++)
		show_answer(i);
}

int main(int argc, char **argv)
{
	if (ranks_is_rank(argc, argv))
		return ranks_main(argv, rank_obey);
	int steps = 2;
	while (steps < argc && strcmp(argv[steps], "--"))
		steps++;
	if (steps >= argc || atoi(argv[1]) < 1) {
		fprintf(stderr, "usage: %s RANKS [[R:]NAME=value]... -- STEP...\n", argv[0]);
		return 2;
	}
	argv[steps] = NULL; /* ends the environment */
	if (!ranks_start(&job, atoi(argv[1]), (const char *const *)argv + 2)) {
		fprintf(stderr, "%s: no NCCL, or no processes\n", argv[0]);
		return 2;
	}
	for (int i = 0; i < job.n; i++)
		printf("pid %d %d\n", i, (int)job.rank[i].pid);
	fflush(stdout);
	for (int i = steps + 1; i < argc; i++)
		take_step(argv[i]);
	ranks_kill(&job);
	return 0;
}
