/*
 * sim_event.c - events. An event stands for the operation of its newest record; a wait
 * takes that operation, so that recording again does not move an earlier wait.
 */
#include <stdlib.h>

#include "sim_cost.h"
#include "sim_ipc.h"
#include "sim_pool.h"

#define QUARANTINE 4096 /* destroyed events kept, so that stale handles are recognised */

static struct sim_event *quarantine[QUARANTINE];
static unsigned quarantine_next;

/* Live events, for a context's end. */
static struct sim_event *live;

/* Lock held. */
void sim_event_put(struct sim_event *e)
{
	if (--e->refs)
		return;
	sim_capture_forget_event(e);
	sim_op_put(e->record);
	e->record = NULL;
	sim_ipc_put(e->ipc);
	e->ipc = NULL;
	free(quarantine[quarantine_next]);
	quarantine[quarantine_next] = e;
	quarantine_next = (quarantine_next + 1) % QUARANTINE;
}

static void unlink_live(struct sim_event *e)
{
	*e->link = e->next;
	if (e->next)
		e->next->link = e->link;
	e->magic = 0;
	if (e->ipc)
		sim_ipc_close(e->ipc);
	sim.events--;
	sim_event_put(e);
}

void sim_event_ctx_gone(struct sim_ctx *ctx)
{
	for (struct sim_event *e = live, *next; e; e = next) {
		next = e->next;
		if (e->ctx == ctx)
			unlink_live(e);
	}
}

CUresult sim_event_get(CUevent handle, struct sim_event **out)
{
	*out = (struct sim_event *)handle;
	if (!handle)
		return CUDA_ERROR_INVALID_HANDLE;
	if ((*out)->magic != SIM_MAGIC_EVENT) {
		sim_complain("use of an event that is destroyed or never was");
		return CUDA_ERROR_INVALID_HANDLE;
	}
	return CUDA_SUCCESS;
}

CUresult sim_event_new(unsigned flags, struct sim_ipc *ipc, CUevent *out)
{
	struct sim_event *e = calloc(1, sizeof *e);
	if (!e) {
		sim_lock();
		sim_ipc_put(ipc);
		sim_unlock();
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	e->magic = SIM_MAGIC_EVENT;
	e->refs = 1;
	e->flags = flags;
	e->ctx = sim_current();
	e->ipc = ipc;
	sim_lock();
	e->id = ++sim.next_event;
	e->next = live;
	e->link = &live;
	if (live)
		live->link = &e->next;
	live = e;
	sim.events++;
	sim_unlock();
	*out = (CUevent)e;
	return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
	SIM_ENTER(cuEventCreate, S_CTX);
	const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
	if (!out || flags & ~known)
		return CUDA_ERROR_INVALID_VALUE;
	if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_ipc *ipc = flags & CU_EVENT_INTERPROCESS ? sim_ipc_new() : NULL;
	if ((flags & CU_EVENT_INTERPROCESS) && !ipc)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return sim_event_new(flags, ipc, out);
}

static CUresult destroy(CUevent handle)
{
	struct sim_event *e;
	sim_lock();
	CUresult result = sim_event_get(handle, &e);
	if (result == CUDA_SUCCESS) {
		result = __atomic_load_n(&e->ctx->sticky, __ATOMIC_ACQUIRE);
		unlink_live(e);
	}
	sim_unlock();
	return result;
}
SIM_FN(cuEventDestroy, S_DEV, (CUevent e), destroy(e))
SIM_FN(cuEventDestroy_v2, S_DEV, (CUevent e), destroy(e))

/* ---- recording ---- */

bool sim_event_recorded(const struct sim_event *e)
{
	return e->ipc ? sim_ipc_newest(e->ipc) != 0 : e->record != NULL;
}

/* What a record of e puts on a stream. */
static struct sim_cmd *record_cmd(const struct sim_event *e)
{
	return e->ipc ? sim_ipc_cmd(CMD_RECORD_IPC, e->ipc, 0) : sim_cmd_new(CMD_NOP);
}

/* op is in the queue. It has not run: the lock is held since. Takes over the reference. */
static void recorded(struct sim_event *e, struct sim_op *op)
{
	if (e->ipc) {
		if (op)
			op->cmd->ipc.ticket = sim_ipc_record(e->ipc);
		sim_op_put(op);
		return;
	}
	sim_op_put(e->record);
	e->record = op;
}

static CUresult record_on(struct sim_event *e, struct sim_stream *s, unsigned flags)
{
	if (s->ctx != e->ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	if (s->capture) {
		if (flags & CU_EVENT_RECORD_EXTERNAL) {
			struct sim_cmd *cmd = sim_cmd_new(CMD_RECORD_EVENT);
			cmd->event = e;
			e->refs++;
			return sim_submit(s, cmd, NULL);
		}
		return sim_capture_record(s, e);
	}
	struct sim_op *op;
	CUresult result = sim_submit(s, record_cmd(e), &op);
	if (result != CUDA_SUCCESS)
		return result;
	sim_capture_forget_event(e);
	recorded(e, op);
	return CUDA_SUCCESS;
}

static CUresult record(bool per_thread, CUevent event, CUstream stream, unsigned flags)
{
	struct sim_event *e;
	struct sim_stream *s;
	if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	sim_cost(COST_RECORD, 0, 1);
	sim_lock();
	CUresult result = sim_event_get(event, &e);
	if (result == CUDA_SUCCESS)
		result = sim_stream_get(stream, per_thread, &s);
	if (result == CUDA_SUCCESS)
		result = __atomic_load_n(&s->ctx->sticky, __ATOMIC_ACQUIRE);
	if (result == CUDA_SUCCESS) {
		sim_trace_record(s, e);
		result = record_on(e, s, flags);
	}
	sim_unlock();
	return result;
}
SIM_TWIN(cuEventRecord, _ptsz, S_HOST, (CUevent e, CUstream s), record, e, s, 0)
SIM_TWIN(cuEventRecordWithFlags, _ptsz, S_HOST, (CUevent e, CUstream s, unsigned flags), record, e, s, flags)

/* Done once everything submitted so far to any stream of the context is. */
CUresult cuCtxRecordEvent(CUcontext handle, CUevent event)
{
	SIM_ENTER(cuCtxRecordEvent, S_DEV);
	struct sim_ctx *ctx = handle ? (struct sim_ctx *)handle : sim_current();
	struct sim_event *e;
	if (!sim_ctx_valid(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_lock();
	CUresult result = sim_event_get(event, &e);
	if (result == CUDA_SUCCESS && e->ctx != ctx)
		result = CUDA_ERROR_INVALID_HANDLE;
	if (result == CUDA_SUCCESS && sim_capture_in_ctx(ctx))
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	struct sim_op *op = NULL;
	if (result == CUDA_SUCCESS)
		result = sim_ctx_join(ctx, record_cmd(e), &op);
	if (result == CUDA_SUCCESS)
		recorded(e, op);
	sim_unlock();
	return result;
}

/* ---- waiting ---- */

CUresult sim_event_stream_waits(struct sim_event *e, struct sim_stream *s, unsigned flags)
{
	if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (s->capture && (flags & CU_EVENT_WAIT_EXTERNAL)) {
		struct sim_cmd *cmd = sim_cmd_new(CMD_WAIT_EVENT);
		cmd->event = e;
		e->refs++;
		return sim_submit(s, cmd, NULL);
	}
	if (e->capture || s->capture)
		return sim_capture_wait_event(s, e);
	if (e->ipc) {
		uint64_t ticket = sim_ipc_newest(e->ipc);
		if (!ticket || sim_ipc_is_done(e->ipc, ticket))
			return CUDA_SUCCESS;
		return sim_submit(s, sim_ipc_cmd(CMD_WAIT_IPC, e->ipc, ticket), NULL);
	}
	if (!e->record || e->record->done)
		return CUDA_SUCCESS;
	return sim_submit_after(s, sim_cmd_new(CMD_NOP), &e->record, 1, NULL);
}

/* The barrier is the event's newest record of now; recording again does not move it. */
static CUresult ctx_waits(struct sim_ctx *ctx, struct sim_event *e)
{
	if (e->capture)
		return sim_capture_event_used(e);
	if (sim_capture_in_ctx(ctx))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!e->ipc) {
		bool pending = e->record && !e->record->done;
		return !pending || sim_ctx_bar(ctx, e->record) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	uint64_t ticket = sim_ipc_newest(e->ipc);
	if (!ticket || sim_ipc_is_done(e->ipc, ticket))
		return CUDA_SUCCESS;
	if (!sim_ctx_hidden(ctx, &ctx->waiter))
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct sim_op *op;
	CUresult result = sim_submit(ctx->waiter, sim_ipc_cmd(CMD_WAIT_IPC, e->ipc, ticket), &op);
	if (result != CUDA_SUCCESS)
		return result;
	bool barred = sim_ctx_bar(ctx, op);
	sim_op_put(op);
	return barred ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuCtxWaitEvent(CUcontext handle, CUevent event)
{
	SIM_ENTER(cuCtxWaitEvent, S_DEV);
	struct sim_ctx *ctx = handle ? (struct sim_ctx *)handle : sim_current();
	struct sim_event *e;
	if (!sim_ctx_valid(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_lock();
	CUresult result = sim_event_get(event, &e);
	if (result == CUDA_SUCCESS)
		result = __atomic_load_n(&ctx->sticky, __ATOMIC_ACQUIRE);
	if (result == CUDA_SUCCESS)
		result = ctx_waits(ctx, e);
	sim_unlock();
	return result;
}

static CUresult ready(struct sim_event *e, bool wait)
{
	if (e->capture)
		return sim_capture_event_used(e);
	uint64_t ticket = e->ipc ? sim_ipc_newest(e->ipc) : 0;
	bool pending = ticket ? !sim_ipc_is_done(e->ipc, ticket) : e->record && !e->record->done;
	if (pending && !wait)
		return __atomic_load_n(&e->ctx->sticky, __ATOMIC_ACQUIRE) ?: CUDA_ERROR_NOT_READY;
	if (pending && ticket) {
		sim_unlock();
		sim_ipc_wait(e->ipc, ticket, e->ctx);
		sim_lock();
	} else if (pending) {
		struct sim_op *op = sim_op_get(e->record);
		sim_op_wait(op);
		sim_op_put(op);
	}
	return __atomic_load_n(&e->ctx->sticky, __ATOMIC_ACQUIRE);
}

static CUresult finished(CUevent event, bool wait)
{
	struct sim_event *e;
	sim_cost(COST_QUERY, 0, 1);
	sim_lock();
	CUresult result = sim_event_get(event, &e);
	if (result == CUDA_SUCCESS) {
		e->refs++; /* it may be destroyed while we wait */
		if (wait)
			sim_trace_wait(TRACE_EVENT, e->ctx, NULL, e);
		result = ready(e, wait);
		if (wait && result == CUDA_SUCCESS)
			sim_pool_host_waited(e->ctx->dev);
		sim_event_put(e);
	}
	sim_unlock();
	return result;
}
SIM_FN(cuEventQuery, S_HOST | S_UNSAFE, (CUevent e), finished(e, false))
SIM_FN(cuEventSynchronize, S_DEV | S_UNSAFE, (CUevent e), finished(e, true))

static CUresult elapsed(float *ms, CUevent start, CUevent end)
{
	struct sim_event *a, *b;
	if (!ms)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	CUresult result = sim_event_get(start, &a);
	if (result == CUDA_SUCCESS)
		result = sim_event_get(end, &b);
	if (result == CUDA_SUCCESS &&
		(!a->record || !b->record || (a->flags | b->flags) & CU_EVENT_DISABLE_TIMING))
		result = CUDA_ERROR_INVALID_HANDLE;
	if (result == CUDA_SUCCESS && (!a->record->done || !b->record->done))
		result = CUDA_ERROR_NOT_READY;
	if (result == CUDA_SUCCESS)
		*ms = (float)((double)(int64_t)(b->record->done_ns - a->record->done_ns) / 1e6);
	sim_unlock();
	return result;
}
SIM_FN(cuEventElapsedTime, S_DEV, (float *ms, CUevent start, CUevent end), elapsed(ms, start, end))
SIM_FN(cuEventElapsedTime_v2, S_DEV, (float *ms, CUevent start, CUevent end), elapsed(ms, start, end))
