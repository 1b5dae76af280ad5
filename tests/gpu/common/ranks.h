/*
 * ranks.h - the ranks of a job as processes: the same program again, which obeys orders on pipes.
 *
 * An order and its answer are a line each. A rank obeys one after the other, so an order that hangs has no answer: all
 * waiting here has a limit. The launcher makes the unique id and must live until all ranks are initialised. Works over the
 * simulated NCCL and the real one. What ranks can do: rank_orders.h, or the program's own function.
 *
 *	int main(int argc, char **argv)
 *	{
 *		if (ranks_is_rank(argc, argv))
 *			return ranks_main(argv, rank_obey);
 *		struct ranks job;
 *		ranks_start(&job, 2, (const char *const[]){"SIM_JITTER_US=50", "1:SIM_NCCL_LATE_US=1000", NULL});
 *		ranks_all(&job, 2000, "init");			   // true: every rank has answered "ok"
 *		ranks_tell(&job, 0, "allreduce 100"); ...
 */
#ifndef TURBO_TEST_RANKS_H
#define TURBO_TEST_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RANKS_MAX 64
#define RANKS_LINE 512
#define RANKS_ID 256 /* digits of a ncclUniqueId */

struct ranks {
	int n;
	char id[RANKS_ID + 1];
	struct {
		pid_t pid; /* 0: was reaped */
		int to, from;
		char have[RANKS_LINE]; /* received, and no whole line yet */
		size_t got;
	} rank[RANKS_MAX];
};

/*
 * Starts n ranks. env: "NAME=value" for all, "R:NAME=value" for rank R; ends with NULL; may be NULL. False: there is
 * no NCCL, or no process could be made.
 */
bool ranks_start(struct ranks *job, int n, const char *const *env);
/* The same without a process: each is started by ranks_again(). */
bool ranks_prepare(struct ranks *job, int n);
/* Another process in the place of a rank, which ends if it has not yet. */
bool ranks_again(struct ranks *job, int rank, const char *const *env);
/* Sends an order (printf). */
void ranks_tell(struct ranks *job, int rank, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The answer to the next order that has none yet; NULL: none within ms, or the rank has ended. Valid until the next call. */
const char *ranks_answer(struct ranks *job, int rank, int ms);
/* Both. */
const char *ranks_ask(struct ranks *job, int rank, int ms, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The same order to all; true when all answer "ok" within ms. Others' answers are printed on stderr. */
bool ranks_all(struct ranks *job, int ms, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* True when none has an answer within ms. */
bool ranks_silent(struct ranks *job, int ms);
/* A signal to the rank. With SIGKILL: waits until it is gone. */
void ranks_signal(struct ranks *job, int rank, int signal);
/* Waits up to ms until the rank has ended; its wait status, or -1. */
int ranks_wait(struct ranks *job, int rank, int ms);
/* Lets all end; those that do not within ms are killed. True: all ended by themselves, with status 0. */
bool ranks_stop(struct ranks *job, int ms);
/* Kills all. */
void ranks_kill(struct ranks *job);

/* ---- in a rank ---- */
struct rank {
	int rank, ranks;
	unsigned char id[128]; /* a ncclUniqueId */
};
bool ranks_is_rank(int argc, char **argv);
/* Obeys until the launcher closes the pipe. obey writes its answer, one line without its end, of at most RANKS_LINE - 2
 * characters. */
int ranks_main(char **argv, void (*obey)(struct rank *me, char *order, char *answer));

#endif
