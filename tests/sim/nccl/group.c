/*
 * group.c - calls between ncclGroupStart and ncclGroupEnd, by thread.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static __thread struct {
	int depth;
	struct op *ops;
	int count, room;
	struct job *jobs, **tail;
	ncclResult_t error;
} group;

int group_depth(void)
{
	return group.depth;
}

ncclResult_t group_start(void)
{
	if (!group.depth++) {
		group.count = 0;
		group.jobs = NULL;
		group.tail = &group.jobs;
		group.error = ncclSuccess;
	}
	return ncclSuccess;
}

NCCL_API(ncclGroupStart, (void))
{
	count_call("ncclGroupStart");
	return group_start();
}

static ncclResult_t run_jobs(struct job *jobs)
{
	bool behind = true;
	for (struct job *j = jobs; j; j = j->next) {
		const struct comm *c = j->comm ? j->comm : j->parent;
		behind = behind && !j->waits && !c->blocking;
	}
	return behind ? jobs_run_behind(jobs) : jobs_run_held(jobs);
}

ncclResult_t job_submit(struct job *job)
{
	if (!group.depth)
		return run_jobs(job);
	*group.tail = job;
	group.tail = &job->next;
	return ncclSuccess;
}

/* ---- launching behind: communicators that do not block ---- */

struct later {
	struct job job; /* first: jobs_run frees it */
	struct op *ops;
	int count;
};

static bool step_launch(struct job *job)
{
	struct later *later = (struct later *)job;
	job->result = launch_all(later->ops, later->count);
	free(later->ops);
	return true;
}

/* Takes over ops, which are of communicators that do not block. */
static ncclResult_t launch_behind(struct op *ops, int count)
{
	struct job *first = NULL, **tail = &first;
	struct later *later = calloc(1, sizeof(*later));
	if (!later)
		abort();
	later->job.step = step_launch;
	later->job.comm = ops[0].comm;
	later->ops = ops;
	later->count = count;
	*tail = &later->job;
	return jobs_run_behind(first);
}

static ncclResult_t launch_or_behind(struct op *ops, int count)
{
	if (ops[0].comm->blocking)
		return launch_all(ops, count);
	struct op *copy = malloc((size_t)count * sizeof(*copy));
	if (!copy)
		return ncclSystemError;
	memcpy(copy, ops, (size_t)count * sizeof(*copy));
	return launch_behind(copy, count);
}

ncclResult_t group_end(void)
{
	if (!group.depth) {
		set_last_error("ncclGroupEnd: not in a group call.");
		return ncclInvalidUsage;
	}
	if (--group.depth)
		return ncclSuccess;
	ncclResult_t result = group.error;
	struct job *jobs = group.jobs;
	group.jobs = NULL;
	for (int i = 1; i < group.count && result == ncclSuccess; i++) {
		if (group.ops[i].comm->blocking != group.ops[0].comm->blocking) {
			set_last_error("Blocking and nonblocking communicators are not allowed in the same group.");
			result = ncclInvalidArgument;
		}
	}
	if (result != ncclSuccess) {
		for (struct job *next; jobs; jobs = next) {
			next = jobs->next;
			free(jobs);
		}
		return result;
	}
	if (jobs)
		result = run_jobs(jobs);
	if (group.count && (result == ncclSuccess || result == ncclInProgress)) {
		ncclResult_t launched = launch_or_behind(group.ops, group.count);
		result = result == ncclSuccess ? launched : result;
	}
	group.count = 0;
	return result;
}

NCCL_API(ncclGroupEnd, (void))
{
	count_call("ncclGroupEnd");
	return group_end();
}

NCCL_API(ncclGroupSimulateEnd, (ncclSimInfo_t * info))
{
	count_call("ncclGroupSimulateEnd");
	if (!group.depth)
		return ncclInvalidUsage;
	if (!info || info->magic != NCCL_SIM_INFO_MAGIC)
		return ncclInvalidArgument;
	info->estimatedTime = 10.0f * (float)group.count; /* us */
	group.count = 0;
	group.depth--;
	return group.error;
}

/* ---- what may be in a group ---- */

static ncclResult_t remember(const struct op *op)
{
	if (group.count == group.room) {
		int room = group.room ? group.room * 2 : 16;
		struct op *ops = realloc(group.ops, (size_t)room * sizeof(*ops));
		if (!ops)
			return ncclSystemError;
		group.ops = ops;
		group.room = room;
	}
	group.ops[group.count++] = *op;
	return ncclSuccess;
}

static ncclResult_t take_operator(struct op *op)
{
	if (op->func != F_ALLREDUCE && op->func != F_REDUCE && op->func != F_REDUCESCATTER) {
		op->op = ncclSum;
		return ncclSuccess;
	}
	if ((unsigned)op->op < ncclNumOps)
		return ncclSuccess;
	unsigned which = (unsigned)op->op - ncclNumOps;
	if (which >= MAX_OPS || !op->comm->premul[which].used || op->comm->premul[which].type != op->type)
		return ncclInvalidArgument;
	op->premul = op->comm->premul[which];
	op->op = ncclNumOps; /* its number is this rank's own affair */
	return ncclSuccess;
}

static ncclResult_t op_check(struct op *op, const char *function)
{
	ncclResult_t result = comm_ready(op->comm, function);
	if (result != ncclSuccess)
		return result;
	if (op->root < 0 || op->root >= op->comm->ranks) {
		set_last_error("%s : invalid root %d (root should be in the 0..%d range)", function, op->root,
					   op->comm->ranks);
		return ncclInvalidArgument;
	}
	if (!type_size(op->type)) {
		set_last_error("%s : invalid type %d", function, op->type);
		return ncclInvalidArgument;
	}
	result = take_operator(op);
	if (result != ncclSuccess)
		set_last_error("%s : invalid reduction operation %d", function, op->op);
	return result;
}

ncclResult_t op_enqueue(struct op *op, const char *function)
{
	count_call(function);
	cost_ns(COST_OP_NS);
	ncclResult_t result = op_check(op, function);
	if (result == ncclSuccess && !op->count && op->func != F_SEND && op->func != F_RECV)
		return ncclSuccess; /* the real one drops it, too */
	if (result == ncclSuccess && group.depth)
		result = remember(op);
	else if (result == ncclSuccess)
		result = launch_or_behind(op, 1);
	if (result != ncclSuccess && result != ncclInProgress && group.depth && group.error == ncclSuccess)
		group.error = result;
	return result;
}
