/*
 * trial_rank.h - what a rank that carries out trials has, and what its files share.
 */
#ifndef TURBO_TEST_TRIAL_RANK_H
#define TURBO_TEST_TRIAL_RANK_H

#include <pthread.h>

#include "cuda_dl.h"
#include "kernels.h"
#include "nccl_dl.h"
#include "trial.h"

/* Of the thread that carries out, or of `other` while that one waits for it; what trial_watch.c reads besides is atomic. */
struct trial_rank {
	bool ready;
	int rank;
	CUcontext ctx;
	struct kernels kernels;
	CUdeviceptr arena, buffer[TRIAL_BUFFERS];
	unsigned char *pinned, *host; /* host: pageable, of all units */
	CUstream stream[TRIAL_STREAMS];
	ncclComm_t comm[TRIAL_COMMS]; /* atomic */
	CUgraph graph[TRIAL_GRAPHS];
	CUgraphExec exec[TRIAL_GRAPHS];
	struct trial_page *page;
	CUdeviceptr flags;
	uint64_t seen, seen_on[TRIAL_STREAMS]; /* by the host; by host functions: the stream's order */
	unsigned long long launches_before;
	struct trial_result result;
	struct trial trial;
	char error[RANKS_LINE / 2]; /* of the first: atomic flag `failed` */
	uint32_t failed;
};
extern struct trial_rank trial_me;

/* False, and the first one is kept. Any thread. */
bool trial_fails(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool trial_good(CUresult r, const char *what);
#define GOOD(call) trial_good((call), #call)
uint64_t trial_hash(uint64_t h, const void *data, size_t n);
/* What every rank has in the unit that is never written, in all of a program. */
void trial_constant(unsigned char *to, unsigned seed, int rank, size_t n);
uint64_t trial_at(uint32_t place); /* address */

/* trial_steps.c: carries it out, in the thread that calls. */
bool trial_take(const struct trial_step *s);
/* Where it ends in the middle: communicators cannot be aborted while graphs hold them. */
void trial_drop_all(void);

/* trial_calls.c */
bool trial_join(const unsigned char id[128], int ranks); /* communicator 0 */
bool trial_leave(int comm);
void trial_make_id(char *answer);            /* as digits */
bool trial_call(const struct trial_step *s); /* of a kind of NCCL's */
void trial_account(int comm);                /* its launches, before it is destroyed */
void trial_abort_all(void);

/* trial_watch.c */
bool watch_init(void);
bool watch_reset(void);
void watch_run(bool on);
CUevent watch_event(int event);
bool watch_record(int event, CUstream stream, const struct trial_step *s);
void watch_forget(uint32_t watched);
bool watch_anew(int event, unsigned flags);
bool watch_ask(int event, bool wait, bool until); /* until: again and again */

#endif
