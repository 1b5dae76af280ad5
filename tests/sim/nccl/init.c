/*
 * init.c - the calls that make and end communicators.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

NCCL_API(ncclGetUniqueId, (ncclUniqueId * id))
{
	struct place place;
	count_call("ncclGetUniqueId");
	if (!id)
		return ncclInvalidArgument;
	if (shared_make(&place) < 0)
		return ncclSystemError;
	memset(id, 0, sizeof(*id));
	memcpy(id, &place, sizeof place);
	return ncclSuccess;
}

/* The device that is current; device 0 where none is. */
static ncclResult_t take_device(struct comm *c, int device)
{
	CUdevice dev = 0;
	if (device >= 0)
		dev = device;
	else if (dr.cuCtxGetDevice(&dev) != CUDA_SUCCESS)
		dev = 0;
	c->dev = dev;
	return device_context(dev, &c->ctx);
}

static ncclResult_t init_rank(ncclComm_t *out, int ranks, const ncclUniqueId *id, int rank,
							  const ncclConfig_t *config, int device)
{
	ncclResult_t result = driver_ready();
	if (result != ncclSuccess)
		return result;
	if (!out || ranks < 1 || ranks > MAX_RANKS || rank < 0 || rank >= ranks) {
		set_last_error("Invalid rank requested : %d/%d", rank, ranks);
		return ncclInvalidArgument;
	}
	struct place place;
	memcpy(&place, id, sizeof place);
	struct comm *c = comm_new(ranks, rank, config, &place);
	if (!c) {
		set_last_error("ncclConfig_t argument not initialized");
		return ncclInvalidArgument;
	}
	result = take_device(c, device);
	if (result != ncclSuccess) {
		comm_free(c);
		return result;
	}
	*out = (ncclComm_t)c;
	return job_submit(job_new(c, step_init));
}

NCCL_API(ncclCommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank))
{
	count_call("ncclCommInitRank");
	return init_rank(comm, ranks, &id, rank, NULL, -1);
}

NCCL_API(ncclCommInitRankConfig,
		 (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config))
{
	count_call("ncclCommInitRankConfig");
	return init_rank(comm, ranks, &id, rank, config, -1);
}

NCCL_API(ncclCommInitRankScalable,
		 (ncclComm_t * comm, int ranks, int rank, int ids, ncclUniqueId *id, ncclConfig_t *config))
{
	count_call("ncclCommInitRankScalable");
	if (!id || ids < 1 || ids > ranks)
		return ncclInvalidArgument;
	return init_rank(comm, ranks, id, rank, config, -1);
}

NCCL_API(ncclCommInitAll, (ncclComm_t * comms, int devices, const int *list))
{
	ncclUniqueId id;
	int there = 0;
	count_call("ncclCommInitAll");
	ncclResult_t result = driver_ready();
	if (result != ncclSuccess)
		return result;
	if (!comms || devices < 1 || devices > MAX_RANKS || dr.cuDeviceGetCount(&there))
		return ncclInvalidArgument;
	for (int i = 0; i < devices; i++)
		if ((list ? list[i] : i) < 0 || (list ? list[i] : i) >= there)
			return ncclUnhandledCudaError;
	result = pncclGetUniqueId(&id);
	if (result != ncclSuccess)
		return result;
	group_start();
	for (int i = 0; i < devices && result == ncclSuccess; i++)
		result = init_rank(&comms[i], devices, &id, i, NULL, list ? list[i] : i);
	ncclResult_t ended = group_end();
	return result == ncclSuccess ? ended : result;
}

/* ---- children ---- */

static ncclResult_t make_child(struct comm *parent, struct job *job, bool member, ncclComm_t *out,
							   const ncclConfig_t *config)
{
	*out = NULL;
	job->parent = parent;
	job->number = ++parent->meetings;
	if (member) {
		/* Its rank and size are known when all have met. */
		job->comm = comm_new(1, 0, config ? config : &parent->config, NULL);
		if (!job->comm) {
			free(job);
			return ncclInvalidArgument;
		}
		job->comm->dev = parent->dev;
		job->comm->ctx = parent->ctx;
		*out = (ncclComm_t)job->comm;
	}
	return job_submit(job);
}

NCCL_API(ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *out, ncclConfig_t *config))
{
	struct comm *p = (struct comm *)comm;
	count_call("ncclCommSplit");
	ncclResult_t result = comm_ready(p, "CommSplit");
	if (result != ncclSuccess)
		return result;
	if (!out || color < NCCL_SPLIT_NOCOLOR)
		return ncclInvalidArgument;
	struct job *job = job_new(NULL, step_split);
	job->color = color;
	job->key = key;
	return make_child(p, job, color != NCCL_SPLIT_NOCOLOR, out, config);
}

NCCL_API(ncclCommShrink,
		 (ncclComm_t comm, int *exclude, int excludes, ncclComm_t *out, ncclConfig_t *config, int flags))
{
	struct comm *p = (struct comm *)comm;
	count_call("ncclCommShrink");
	ncclResult_t result = comm_check(p, "CommShrink");
	if (result == ncclSuccess && !(flags & NCCL_SHRINK_ABORT) && !comm_has_stopped(p))
		result = comm_ready(p, "CommShrink");
	if (result != ncclSuccess)
		return result;
	if (!out || excludes < 1 || excludes >= p->ranks || !exclude)
		return ncclInvalidArgument;
	struct job *job = job_new(NULL, step_split);
	job->kind = comm_has_stopped(p);
	for (int i = 0; i < excludes; i++) {
		job->excluded[job->excludes++] = exclude[i];
		job->color = job->color * 31 + exclude[i] + 1;
	}
	job->color &= INT_MAX;
	job->key = p->rank;
	if (!takes_part(job, p->rank)) {
		free(job);
		return ncclInvalidArgument;
	}
	if (flags & NCCL_SHRINK_ABORT) {
		job->kind = 1;
		comm_stop(p, STOP_REVOKED);
	}
	return make_child(p, job, true, out, config);
}

/* ---- ends ---- */

static ncclResult_t end_comm(ncclComm_t comm, const char *what, int kind)
{
	struct comm *c = (struct comm *)comm;
	if (!c)
		return ncclSuccess; /* as the real one does */
	ncclResult_t result = comm_check(c, what);
	if (result != ncclSuccess)
		return result;
	struct job *job = job_new(c, step_close);
	job->kind = kind;
	job->waits = kind == CLOSE_DESTROY || kind == CLOSE_ABORT;
	return job_submit(job);
}

NCCL_API(ncclCommFinalize, (ncclComm_t comm))
{
	struct comm *c = (struct comm *)comm;
	count_call("ncclCommFinalize");
	ncclResult_t result = c ? comm_ready(c, "CommFinalize") : ncclSuccess;
	return result == ncclSuccess ? end_comm(comm, "CommFinalize", CLOSE_FINALIZE) : result;
}

NCCL_API(ncclCommDestroy, (ncclComm_t comm))
{
	count_call("ncclCommDestroy");
	return end_comm(comm, "CommDestroy", CLOSE_DESTROY);
}

NCCL_API(ncclCommAbort, (ncclComm_t comm))
{
	count_call("ncclCommAbort");
	return end_comm(comm, "CommAbort", CLOSE_ABORT);
}

NCCL_API(ncclCommRevoke, (ncclComm_t comm, int flags))
{
	count_call("ncclCommRevoke");
	if (flags)
		return ncclInvalidArgument;
	return end_comm(comm, "CommRevoke", CLOSE_REVOKE);
}
