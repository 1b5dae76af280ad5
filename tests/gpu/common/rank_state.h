/*
 * rank_state.h - what a rank has, and what the files of rank_orders.h share.
 */
#ifndef TURBO_TEST_RANK_STATE_H
#define TURBO_TEST_RANK_STATE_H

#include "cuda_dl.h"
#include "kernels.h"
#include "rank_data.h"
#include "rank_orders.h"

#define RANK_HANDLES 8
#define RANK_OPS 256
#define RANK_WORDS 24

/* Used by the thread that obeys, and by that of `behind` while that one does something else. */
struct rank_state {
	bool ready;
	CUcontext ctx;
	struct kernels kernels;
	ncclComm_t comm[RANK_HANDLES];
	CUstream stream[RANK_HANDLES], side;
	CUgraph graph[RANK_HANDLES];
	CUgraphExec exec[RANK_HANDLES];
	CUdeviceptr send, recv;
	size_t recv_at; /* of the next operation in a group */
	bool grouped;
	uint32_t *gate;
	struct {
		struct data_op op;
		size_t at;
	} done[RANK_OPS]; /* since the last check */
	int done_count;
};
extern struct rank_state rank_state;

struct order {
	struct rank *me;
	int count, options;
	char *word[RANK_WORDS]; /* without options */
	char *option[RANK_WORDS];
	char *answer;
};

void rank_say(struct order *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* True for success; else that is the answer. */
bool rank_good(struct order *o, ncclResult_t result);
bool rank_good_cu(struct order *o, CUresult result);
const char *rank_text(const struct order *o, const char *option, const char *standard);
long rank_number(const struct order *o, const char *option, long standard);
long rank_word(const struct order *o, int i);
ncclComm_t *rank_comm(const struct order *o);
CUstream rank_stream(const struct order *o); /* makes it */
bool rank_copy(struct order *o, void *host, CUdeviceptr device, size_t n, bool to_device);
bool rank_wait_ready(struct order *o, ncclComm_t comm);

/* rank_ops.c */
ncclDataType_t rank_type(const struct order *o);
bool rank_fill(struct order *o);
void rank_operate(struct order *o, enum data_func func);
void rank_check(struct order *o);

#endif
