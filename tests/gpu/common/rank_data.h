/*
 * rank_data.h - data that ranks know of each other, and what collectives make of it.
 *
 * Element i of rank r is (r + 1) * (i % 7 + 1), for types of 8 bits (i + r) % 4: sums and averages are exact.
 */
#ifndef TURBO_TEST_RANK_DATA_H
#define TURBO_TEST_RANK_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nccl_dl.h"

enum data_func {
	DATA_ALLGATHER,
	DATA_ALLREDUCE,
	DATA_REDUCESCATTER,
	DATA_REDUCE,
	DATA_BROADCAST,
	DATA_BCAST,
	DATA_ALLTOALL,
	DATA_GATHER,
	DATA_SCATTER,
	DATA_SEND,
	DATA_RECV,
	DATA_FUNCS
};

struct data_op {
	enum data_func func;
	ncclDataType_t type;
	ncclRedOp_t op;
	size_t count;
	int root, rank, ranks; /* root: or the peer */
};

extern const char *const data_func_names[DATA_FUNCS], *const data_type_names[ncclNumTypes];

size_t data_size(ncclDataType_t type);
/* n elements of a rank, from element `first` on. */
void data_fill(void *to, ncclDataType_t type, int rank, size_t first, size_t n);
/* Elements that the operation reads, and writes on this rank. */
size_t data_sends(const struct data_op *op);
size_t data_receives(const struct data_op *op);
/* First wrong element of what was received, or -1. Sent were the elements from 0 on, to a peer's receive the peer's. */
int64_t data_check(const struct data_op *op, const void *received);

#endif
