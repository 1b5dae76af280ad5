/*
 * sim_trace.c - tells an attached tracer (the simulated CUPTI) what calls and streams do.
 */
#include <time.h>

#include "sim_copy.h"
#include "sim_kernel.h"

/* Who is told; release-stored by sim_trace_attach, read by every call. */
static const struct sim_tracer *attached;
static unsigned epoch; /* relaxed atomic */

unsigned sim_trace_epoch(void)
{
	return __atomic_load_n(&attached, __ATOMIC_ACQUIRE) ? __atomic_load_n(&epoch, __ATOMIC_RELAXED) : 0;
}

bool sim_trace_whole_graphs(void)
{
	const struct sim_tracer *tracer = __atomic_load_n(&attached, __ATOMIC_ACQUIRE);
	return tracer && tracer->whole_graphs();
}

uint64_t sim_trace_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void begin(struct sim_call *call, const char *symbol, bool runtime)
{
	const struct sim_tracer *tracer = __atomic_load_n(&attached, __ATOMIC_ACQUIRE);
	if (!tracer)
		return;
	*call =
		(struct sim_call){.tracer = tracer, .symbol = symbol, .outer = sim_thread.call, .runtime = runtime};
	sim_thread.call = call;
	tracer->enter(call);
}

void sim_trace_enter(struct sim_call *call, const char *symbol)
{
	begin(call, symbol, false);
}

void sim_leave(struct sim_call *call)
{
	if (!call->tracer)
		return;
	call->tracer->leave(call);
	sim_thread.call = call->outer;
}

void sim_trace_runtime_enter(struct sim_call *call, const char *symbol)
{
	if (!sim_in_child() && !__atomic_load_n(&sim.dead, __ATOMIC_ACQUIRE))
		begin(call, symbol, true);
}

void sim_trace_runtime_leave(struct sim_call *call, int result)
{
	call->result = (CUresult)result;
	sim_leave(call);
}

static uint32_t stream_number(const struct sim_stream *s)
{
	return s->legacy ? SIM_TRACE_LEGACY_STREAM : (uint32_t)s->id + SIM_TRACE_FIRST_STREAM;
}

static enum sim_trace_memory memory_of(uintptr_t addr, uint32_t *device)
{
	const struct sim_range *r = sim_range_find(addr);
	if (!r)
		return TRACE_PAGEABLE;
	if (r->dev)
		*device = (uint32_t)r->dev->ordinal;
	if (r->kind == MEM_MANAGED)
		return TRACE_MANAGED;
	return sim_kind_device(r->kind) ? TRACE_DEVICE : TRACE_PINNED;
}

static void describe_copy(const struct sim_copy *c, struct sim_trace_op *op)
{
	op->kind = TRACE_COPY;
	op->copy.bytes = c->whole ? c->whole : c->width * c->height * c->depth;
	op->copy.from_device = op->copy.to_device = op->device;
	op->copy.from = c->staged ? TRACE_PAGEABLE : memory_of(c->src, &op->copy.from_device);
	op->copy.to = memory_of(c->dst, &op->copy.to_device);
	op->copy.async = c->async;
}

static void describe_set(const struct sim_set *s, struct sim_trace_op *op)
{
	uint32_t device;
	op->kind = TRACE_SET;
	op->set.bytes = s->width * s->unit * s->height;
	op->set.value = s->value;
	op->set.memory = memory_of(s->dst, &device);
	op->set.async = s->async;
}

static void describe_launch(const struct sim_launch *l, struct sim_trace_op *op)
{
	op->kind = TRACE_KERNEL;
	op->kernel.name = sim_kernel_name(l);
	for (int i = 0; i < 3; i++) {
		op->kernel.grid[i] = l->grid[i];
		op->kernel.block[i] = l->block[i];
	}
	op->kernel.shared = l->shared;
}

struct sim_trace_item *sim_trace_submit(const struct sim_stream *s, const struct sim_cmd *cmd)
{
	struct sim_call *call = sim_thread.call;
	if (!call || (cmd->kind == CMD_COPY && cmd->copy.part))
		return NULL;
	struct sim_trace_op op = {
		.device = (uint32_t)s->ctx->dev->ordinal,
		.context = (uint32_t)s->ctx->id,
		.stream = stream_number(s),
		.graph = sim_thread.graph,
		.node = sim_thread.node,
	};
	switch (cmd->kind) {
	case CMD_COPY: describe_copy(&cmd->copy, &op); break;
	case CMD_SET: describe_set(&cmd->set, &op); break;
	case CMD_KERNEL: describe_launch(&cmd->launch, &op); break;
	default: return NULL;
	}
	return call->tracer->submitted(call, &op);
}

void sim_trace_wait(enum sim_trace_wait wait, const struct sim_ctx *ctx, const struct sim_stream *s,
					const struct sim_event *e)
{
	struct sim_call *call = sim_thread.call;
	if (!call)
		return;
	call->wait = wait;
	call->context = (uint32_t)ctx->id;
	call->device = (uint32_t)ctx->dev->ordinal;
	call->stream = s ? stream_number(s) : 0;
	call->event = e ? e->id : 0;
}

void sim_trace_record(const struct sim_stream *s, const struct sim_event *e)
{
	struct sim_call *call = sim_thread.call;
	if (!call)
		return;
	call->recorded = true;
	call->context = (uint32_t)s->ctx->id;
	call->device = (uint32_t)s->ctx->dev->ordinal;
	call->stream = stream_number(s);
	call->event = e->id;
}

/* ---- what the tracer may ask ---- */

static bool started(void)
{
	return __atomic_load_n(&sim.inited, __ATOMIC_ACQUIRE);
}

static CUcontext current(void)
{
	return (CUcontext)sim_current();
}

static bool context(CUcontext handle, uint32_t *id, uint32_t *device)
{
	sim_lock();
	const struct sim_ctx *ctx = handle ? (struct sim_ctx *)handle : sim_current();
	bool valid = sim_ctx_valid(ctx);
	if (valid) {
		*id = (uint32_t)ctx->id;
		*device = (uint32_t)ctx->dev->ordinal;
	}
	sim_unlock();
	return valid;
}

/* Default streams are the current context's: the others' are asked for by nobody. */
static bool stream(CUcontext handle, CUstream which, bool per_thread, uint32_t *id)
{
	struct sim_stream *s;
	uint32_t unused;
	if (handle && !context(handle, &unused, &unused))
		return false;
	sim_lock();
	bool valid = sim_stream_get(which, per_thread, &s) == CUDA_SUCCESS;
	if (valid)
		*id = stream_number(s);
	sim_unlock();
	return valid;
}

const struct sim_trace_driver *sim_trace_attach(const struct sim_tracer *tracer)
{
	static const struct sim_trace_driver driver = {started, sim_in_child, current, context, stream};
	if (tracer && !__atomic_load_n(&attached, __ATOMIC_ACQUIRE))
		__atomic_add_fetch(&epoch, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&attached, tracer, __ATOMIC_RELEASE);
	return &driver;
}
