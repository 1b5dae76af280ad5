/*
 * rank_ops.c - a rank's operations, and whether they did what they should.
 */
#include <stdlib.h>
#include <string.h>

#include "rank_state.h"

ncclDataType_t rank_type(const struct order *o)
{
	const char *name = rank_text(o, "type", "f32");
	for (int i = 0; i < ncclNumTypes; i++)
		if (!strcmp(name, data_type_names[i]))
			return (ncclDataType_t)i;
	return ncclNumTypes;
}

bool rank_fill(struct order *o)
{
	int rank = 0;
	ncclDataType_t type = rank_type(o);
	void *host = malloc(RANK_BUFFER);
	bool ok = host && type < ncclNumTypes && rank_good(o, nccl.ncclCommUserRank(*rank_comm(o), &rank));
	if (ok) {
		data_fill(host, type, rank, 0, RANK_BUFFER / data_size(type));
		ok = rank_copy(o, host, rank_state.send, RANK_BUFFER, true);
	}
	free(host);
	return ok;
}

/* ---- operations ---- */

static ncclResult_t call(const struct data_op *p, void *send, void *recv, ncclComm_t c, ncclStream_t s)
{
	switch (p->func) {
	case DATA_ALLGATHER: return nccl.ncclAllGather(send, recv, p->count, p->type, c, s);
	case DATA_ALLREDUCE: return nccl.ncclAllReduce(send, recv, p->count, p->type, p->op, c, s);
	case DATA_REDUCESCATTER: return nccl.ncclReduceScatter(send, recv, p->count, p->type, p->op, c, s);
	case DATA_REDUCE: return nccl.ncclReduce(send, recv, p->count, p->type, p->op, p->root, c, s);
	case DATA_BROADCAST: return nccl.ncclBroadcast(send, recv, p->count, p->type, p->root, c, s);
	case DATA_BCAST: return nccl.ncclBcast(recv, p->count, p->type, p->root, c, s);
	case DATA_ALLTOALL: return nccl.ncclAlltoAll(send, recv, p->count, p->type, c, s);
	case DATA_GATHER: return nccl.ncclGather(send, recv, p->count, p->type, p->root, c, s);
	case DATA_SCATTER: return nccl.ncclScatter(send, recv, p->count, p->type, p->root, c, s);
	case DATA_SEND: return nccl.ncclSend(send, p->count, p->type, p->root, c, s);
	default: return nccl.ncclRecv(recv, p->count, p->type, p->root, c, s);
	}
}

/* In place: the send buffer lies in the receive buffer, or the other way round, where NCCL wants it. */
static bool put_in_place(struct order *o, const struct data_op *p, CUdeviceptr recv, CUdeviceptr *send)
{
	size_t size = data_size(p->type), n = data_sends(p);
	size_t at = p->func == DATA_ALLGATHER || p->func == DATA_GATHER ? (size_t)p->rank * p->count * size : 0;
	void *host = malloc(n * size);
	*send = recv + at;
	data_fill(host, p->type, p->rank, 0, n);
	bool ok = host && rank_copy(o, host, *send, n * size, true);
	free(host);
	return ok;
}

static bool operate_once(struct order *o, struct data_op *p)
{
	size_t bytes = data_receives(p) * data_size(p->type);
	if (!rank_state.grouped)
		rank_state.recv_at = 0;
	if (data_sends(p) * data_size(p->type) > RANK_BUFFER || rank_state.recv_at + bytes > RANK_BUFFER) {
		rank_say(o, "error too large");
		return false;
	}
	CUdeviceptr send = rank_state.send, recv = rank_state.recv + rank_state.recv_at;
	bool in_place = rank_number(o, "inplace", 0) || (p->func == DATA_BCAST && p->rank == p->root);
	if (in_place && !put_in_place(o, p, recv, &send))
		return false;
	if (in_place && p->func == DATA_REDUCESCATTER)
		recv += (size_t)p->rank * p->count * data_size(p->type);
	ncclResult_t r = call(p, (void *)(uintptr_t)send, (void *)(uintptr_t)recv, *rank_comm(o), rank_stream(o));
	if (r == ncclInProgress ? !rank_wait_ready(o, *rank_comm(o)) : !rank_good(o, r))
		return false;
	if (rank_state.done_count < RANK_OPS) {
		rank_state.done[rank_state.done_count].op = *p;
		rank_state.done[rank_state.done_count++].at = recv - rank_state.recv;
	}
	rank_state.recv_at += (bytes + 255) / 256 * 256;
	return true;
}

void rank_operate(struct order *o, enum data_func func)
{
	static const char *const ops[] = {"sum", "prod", "max", "min", "avg"};
	struct data_op p = {.func = func, .type = rank_type(o), .count = (size_t)rank_word(o, 1)};
	const char *op = rank_text(o, "op", "sum");
	for (int i = 0; i < 5; i++)
		if (!strcmp(op, ops[i]))
			p.op = (ncclRedOp_t)i;
	p.root = (int)rank_number(o, "root", rank_number(o, "peer", 0));
	if (p.type == ncclNumTypes || !rank_good(o, nccl.ncclCommUserRank(*rank_comm(o), &p.rank)) ||
		!rank_good(o, nccl.ncclCommCount(*rank_comm(o), &p.ranks)))
		return;
	if (func < DATA_SEND && !rank_state.grouped)
		rank_state.done_count = 0; /* the buffer is used again */
	for (long i = rank_number(o, "times", 1); i > 0; i--)
		if (!operate_once(o, &p))
			return;
}

void rank_check(struct order *o)
{
	void *host = malloc(RANK_BUFFER);
	for (int i = 0; i < RANK_HANDLES; i++)
		if (rank_state.stream[i] && !rank_good_cu(o, cu.cuStreamSynchronize(rank_state.stream[i])))
			return;
	for (int i = 0; i < rank_state.done_count && host; i++) {
		const struct data_op *p = &rank_state.done[i].op;
		if (!rank_copy(o, host, rank_state.recv + rank_state.done[i].at,
					   data_receives(p) * data_size(p->type), false))
			break;
		int64_t wrong = data_check(p, host);
		if (wrong >= 0) {
			rank_say(o, "error operation %d (%s): element %lld is wrong", i, data_func_names[p->func],
					 (long long)wrong);
			break;
		}
	}
	free(host);
	rank_state.done_count = 0;
}
