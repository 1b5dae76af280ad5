/*
 * trial_calls.c - NCCL's calls of a trial.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rank_data.h"
#include "trial_rank.h"

#define me trial_me

static ncclComm_t comm_of(int c)
{
	return __atomic_load_n(&me.comm[c], __ATOMIC_ACQUIRE);
}

static bool good(ncclResult_t r, const char *what)
{
	return r == ncclSuccess || trial_fails("%s: %d %s", what, (int)r, nccl.ncclGetErrorString(r));
}

/* What does not block. */
static bool is_ready(int c, ncclResult_t r, const char *what)
{
	ncclResult_t state = r;

	while (state == ncclInProgress && comm_of(c)) {
		usleep(50);
		if (!good(nccl.ncclCommGetAsyncError(comm_of(c), &state), "ncclCommGetAsyncError"))
			return false;
	}
	return good(state, what);
}

static bool all_ready(ncclResult_t r, const char *what)
{
	bool ok = true;

	for (int c = 0; c < TRIAL_COMMS && r == ncclInProgress; c++)
		ok = ok && (!comm_of(c) || !me.trial.comm[c].nonblocking || is_ready(c, r, what));
	return r == ncclInProgress ? ok : good(r, what);
}

/* ---- operations ---- */

static ncclResult_t operate(const struct trial_step *s)
{
	ncclComm_t c = comm_of(s->comm);
	CUstream on = me.stream[s->stream];
	void *to = (void *)(uintptr_t)trial_at(s->to), *from = (void *)(uintptr_t)trial_at(s->from);
	ncclDataType_t type = (ncclDataType_t)s->type;
	ncclRedOp_t op = (ncclRedOp_t)s->op;

	switch (s->func) {
	case DATA_ALLGATHER: return nccl.ncclAllGather(from, to, s->count, type, c, on);
	case DATA_ALLREDUCE: return nccl.ncclAllReduce(from, to, s->count, type, op, c, on);
	case DATA_REDUCESCATTER: return nccl.ncclReduceScatter(from, to, s->count, type, op, c, on);
	case DATA_REDUCE: return nccl.ncclReduce(from, to, s->count, type, op, s->peer, c, on);
	case DATA_BROADCAST: return nccl.ncclBroadcast(from, to, s->count, type, s->peer, c, on);
	case DATA_BCAST: return nccl.ncclBcast(to, s->count, type, s->peer, c, on);
	case DATA_ALLTOALL: return nccl.ncclAlltoAll(from, to, s->count, type, c, on);
	case DATA_GATHER: return nccl.ncclGather(from, to, s->count, type, s->peer, c, on);
	case DATA_SCATTER: return nccl.ncclScatter(from, to, s->count, type, s->peer, c, on);
	case DATA_SEND: return nccl.ncclSend(from, s->count, type, s->peer, c, on);
	default: return nccl.ncclRecv(to, s->count, type, s->peer, c, on);
	}
}

static bool async_errors(void)
{
	ncclResult_t state;

	for (int c = 0; c < TRIAL_COMMS; c++)
		if (comm_of(c) && (!good(nccl.ncclCommGetAsyncError(comm_of(c), &state), "ncclCommGetAsyncError") ||
						   !good(state, "asynchronous error")))
			return false;
	return true;
}

/* ---- communicators ---- */

void trial_account(int c)
{
	ncclComm_t comm = comm_of(c);
	unsigned long long launches = nccl.sim_nccl_launches ? nccl.sim_nccl_launches(comm) : 0;

	for (unsigned long long i = c ? 0 : me.launches_before; i < launches; i++)
		me.result.operations += nccl.sim_nccl_launch_ops(comm, i);
	me.result.launches += launches - (c ? 0 : me.launches_before);
	if (c == 0)
		me.launches_before = launches;
	if (nccl.sim_nccl_order)
		me.result.order =
			trial_hash(me.result.order, &(uint64_t){nccl.sim_nccl_order(comm)}, sizeof(uint64_t));
}

bool trial_leave(int c)
{
	ncclComm_t comm = comm_of(c);

	if (c && me.trial.comm[c].nonblocking && !is_ready(c, nccl.ncclCommFinalize(comm), "ncclCommFinalize"))
		return false;
	__atomic_store_n(&me.comm[c], NULL, __ATOMIC_RELEASE);
	return good(nccl.ncclCommDestroy(comm), "ncclCommDestroy");
}

static bool init(int c, int ranks, int rank, const unsigned char *id, bool nonblocking)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId unique;
	ncclComm_t comm = NULL;
	ncclResult_t r;

	memcpy(&unique, id, sizeof(unique));
	config.blocking = !nonblocking;
	/* Programs call the one or the other. */
	r = nonblocking || rank % 2 ? nccl.ncclCommInitRankConfig(&comm, ranks, unique, rank, &config)
								: nccl.ncclCommInitRank(&comm, ranks, unique, rank);
	__atomic_store_n(&me.comm[c], comm, __ATOMIC_RELEASE);
	return is_ready(c, r, "ncclCommInitRank");
}

bool trial_join(const unsigned char id[128], int ranks)
{
	me.launches_before = 0;
	return init(0, ranks, me.rank, id, false);
}

void trial_make_id(char *answer)
{
	ncclUniqueId id;

	if (!good(nccl.ncclGetUniqueId(&id), "ncclGetUniqueId")) {
		strcpy(answer, "error no id");
		return;
	}
	for (size_t i = 0; i < sizeof(id.internal); i++)
		sprintf(answer + 2 * i, "%02x", (unsigned char)id.internal[i]);
}

/* The first of its ranks makes the id. */
static bool init_new(const struct trial_step *s)
{
	__typeof__(&me.page->id[0]) slot = &me.page->id[s->comm];
	ncclUniqueId id;

	if (s->peer == 0) {
		if (!good(nccl.ncclGetUniqueId(&id), "ncclGetUniqueId"))
			return false;
		memcpy(slot->id, &id, sizeof(slot->id));
		__atomic_store_n(&slot->ready, 1, __ATOMIC_RELEASE);
	}
	while (!__atomic_load_n(&slot->ready, __ATOMIC_ACQUIRE))
		usleep(50);
	return init(s->comm, me.trial.comm[s->comm].n, s->peer, slot->id, s->value);
}

static bool split(const struct trial_step *s)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t child = NULL;
	ncclResult_t r;

	config.blocking = !s->value;
	r = nccl.ncclCommSplit(comm_of(s->comm), s->peer < 0 ? NCCL_SPLIT_NOCOLOR : (int)s->from, (int)s->to,
						   &child, s->value ? &config : NULL);
	if (!is_ready(s->comm, r, "ncclCommSplit"))
		return false;
	if (s->peer < 0)
		return true;
	__atomic_store_n(&me.comm[s->peer], child, __ATOMIC_RELEASE);
	return is_ready(s->peer, s->value ? ncclInProgress : ncclSuccess, "a split communicator");
}

bool trial_call(const struct trial_step *s)
{
	static bool grouped; /* of one thread at a time */
	ncclResult_t r;

	switch (s->what) {
	case TRIAL_CALL:
		r = operate(s);
		return grouped && r == ncclInProgress ? true : is_ready(s->comm, r, "a collective");
	case TRIAL_GROUP: grouped = true; return good(nccl.ncclGroupStart(), "ncclGroupStart");
	case TRIAL_END: grouped = false; return all_ready(nccl.ncclGroupEnd(), "ncclGroupEnd");
	case TRIAL_SPLIT: return split(s);
	case TRIAL_INIT: return init_new(s);
	case TRIAL_DESTROY: trial_account(s->comm); return trial_leave(s->comm);
	default: return async_errors();
	}
}

/* In a group: one abort waits for what is before its collectives, which may be another communicator's. */
void trial_abort_all(void)
{
	nccl.ncclGroupStart();
	for (int c = TRIAL_COMMS; c-- > 0;) {
		ncclComm_t comm = comm_of(c);
		if (comm)
			nccl.ncclCommAbort(comm);
	}
	nccl.ncclGroupEnd();
}
