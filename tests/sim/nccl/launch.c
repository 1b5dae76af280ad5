/*
 * launch.c - groups of operations become kernels: for each communicator one with the collectives, then one
 * with the sends and receives. Each waits for the communicator's last one, whatever stream that was on.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define FNV_BASE 0xcbf29ce484222325ull
#define FNV_PRIME 0x100000001b3ull

static uint64_t hash(uint64_t h, uint64_t value)
{
	for (int i = 0; i < 8; i++)
		h = (h ^ ((value >> (i * 8)) & 0xff)) * FNV_PRIME;
	return h;
}

static bool is_p2p(const struct op *op)
{
	return op->func == F_SEND || op->func == F_RECV;
}

static void describe(struct desc *d, const struct op *op)
{
	d->hash = hash(d->hash, op->func);
	d->hash = hash(d->hash, op->count);
	d->hash = hash(d->hash, op->type);
	d->hash = hash(d->hash, op->op);
	d->hash = hash(d->hash, (uint64_t)op->root);
	if (d->known < DESC_OPS)
		d->op[d->known++] = (struct desc_op){op->func, op->type, op->op, op->root, op->count};
	d->ops++;
}

/* NULL: there are none. */
static struct launch *collect(const struct op *ops, int count, struct comm *c, bool p2p)
{
	struct launch *l = NULL;
	int n = 0;
	for (int i = 0; i < count; i++)
		n += ops[i].comm == c && is_p2p(&ops[i]) == p2p;
	if (n)
		l = calloc(1, sizeof(*l) + (size_t)n * sizeof(struct op));
	if (!l)
		return NULL;
	l->comm = c;
	l->desc.hash = FNV_BASE;
	for (int i = 0; i < count; i++) {
		if (ops[i].comm != c || is_p2p(&ops[i]) != p2p)
			continue;
		l->op[l->count++] = ops[i];
		describe(&l->desc, &ops[i]);
	}
	return l;
}

/* ---- captures ---- */

struct capture {
	bool on;
	cuuint64_t id;
	CUgraph graph;
};

static ncclResult_t capture_of(CUstream stream, struct capture *out)
{
	CUstreamCaptureStatus status;
	*out = (struct capture){false, 0, NULL};
	if (dr.cuStreamGetCaptureInfo_v2(stream, &status, &out->id, &out->graph, NULL, NULL) != CUDA_SUCCESS)
		return ncclUnhandledCudaError;
	out->on = status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return status == CU_STREAM_CAPTURE_STATUS_INVALIDATED ? ncclUnhandledCudaError : ncclSuccess;
}

static void graph_let_go(void *launch)
{
	struct launch *l = launch;
	__atomic_sub_fetch(&l->comm->persistent, 1, __ATOMIC_SEQ_CST);
	free(l);
}

static bool graph_holds(const struct capture *capture, struct launch *l)
{
	CUuserObject object;
	if (dr.cuUserObjectCreate(&object, l, graph_let_go, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC))
		return false;
	l->persistent = true;
	__atomic_add_fetch(&l->comm->persistent, 1, __ATOMIC_SEQ_CST);
	return dr.cuGraphRetainUserObject(capture->graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE) == CUDA_SUCCESS;
}

/* ---- one kernel ---- */

/* Other streams of the group: the kernel runs on the first, in order with all. */
static bool join_streams(const struct launch *l, bool before)
{
	bool ok = true;
	for (int i = 1; i < l->count; i++) {
		bool seen = false;
		for (int j = 0; j < i; j++)
			seen = seen || l->op[j].stream == l->op[i].stream;
		if (seen)
			continue;
		CUstream from = before ? l->op[i].stream : l->op[0].stream;
		CUstream to = before ? l->op[0].stream : l->op[i].stream;
		CUevent e;
		ok = ok && !dr.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING);
		if (ok) {
			ok = !dr.cuEventRecord(e, from) && !dr.cuStreamWaitEvent(to, e, 0);
			dr.cuEventDestroy_v2(e);
		}
	}
	return ok;
}

static bool wait_for_last(struct comm *c, CUstream stream, const struct capture *capture)
{
	if (!c->order && (dr.cuEventCreate(&c->order, CU_EVENT_DISABLE_TIMING) ||
					  dr.cuEventCreate(&c->capture_order, CU_EVENT_DISABLE_TIMING)))
		return false;
	if (capture->on)
		return c->capture != capture->id || !dr.cuStreamWaitEvent(stream, c->capture_order, 0);
	return !c->launched || !dr.cuStreamWaitEvent(stream, c->order, 0);
}

static bool record_last(struct comm *c, CUstream stream, const struct capture *capture)
{
	if (capture->on) {
		c->capture = capture->id;
		return !dr.cuEventRecord(c->capture_order, stream);
	}
	c->launched = true;
	return !dr.cuEventRecord(c->order, stream);
}

static bool submit(struct launch *l)
{
	uint64_t body = (uint64_t)(uintptr_t)run_launch, user = (uint64_t)(uintptr_t)l;
	void *params[] = {&body, &user};
	CUlaunchConfig config = {
		.gridDimX = 2,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 512,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = l->op[0].stream,
	};
	return !dr.cuLaunchKernelEx(&config, kernel_of(l->comm, l->op[0].func), params, NULL);
}

static void note(struct comm *c, const struct launch *l)
{
	c->ops += (uint64_t)l->count;
	for (int i = 0; i < l->count; i++) {
		struct desc one = {.hash = c->order_since};
		describe(&one, &l->op[i]);
		c->order_since = one.hash;
	}
	if (is_p2p(&l->op[0]))
		return;
	c->partition[c->launches++ % PARTITIONS] = (uint32_t)l->count;
	c->signature = hash(hash(c->signature, l->desc.hash), (uint64_t)l->count);
}

/* Takes over l. Lock held, the context current. */
static ncclResult_t launch_locked(struct comm *c, struct launch *l)
{
	struct capture capture;
	ncclResult_t result = capture_of(l->op[0].stream, &capture);
	if (result != ncclSuccess) {
		free(l);
		return result;
	}
	CUstream stream = l->op[0].stream;
	struct launch *own = l; /* until a graph or the kernel owns it */
	bool ok = join_streams(l, true) && wait_for_last(c, stream, &capture);
	if (ok && capture.on) {
		ok = graph_holds(&capture, l);
		own = l->persistent ? NULL : l;
	}
	if (ok) {
		note(c, l);
		profiler_launch(c, l);
		/* A copy of what is needed afterwards: the kernel may have run and freed l. */
		struct launch *streams = malloc(sizeof(*l) + (size_t)l->count * sizeof(struct op));
		if (!streams)
			abort();
		memcpy(streams, l, sizeof(*l) + (size_t)l->count * sizeof(struct op));
		ok = submit(l);
		own = ok ? NULL : own;
		ok = ok && record_last(c, stream, &capture) && join_streams(streams, false);
		profiler_launched(c, streams);
		free(streams);
	}
	free(own);
	return ok ? ncclSuccess : ncclUnhandledCudaError;
}

/* ---- SIM_NCCL_CONNECT: the first call of a function meets the others on the host ---- */

static void connect_ranks(struct comm *c, const struct launch *l)
{
	if (!fault(c, FAULT_CONNECT) || is_p2p(&l->op[0]) || c->connected & 1u << l->op[0].func)
		return;
	c->connected |= 1u << l->op[0].func;
	uint64_t number = ++c->connects;
	__atomic_store_n(&c->shared->rank[c->rank].connected, number, __ATOMIC_SEQ_CST);
	bell_ring(&c->shared->bell);
	for (;;) {
		uint32_t seen = bell_look(&c->shared->bell);
		bool all = true;
		for (int i = 0; i < c->ranks; i++)
			all = all && __atomic_load_n(&c->shared->rank[i].connected, __ATOMIC_SEQ_CST) >= number;
		if (all || comm_has_stopped(c))
			return;
		bell_wait(&c->shared->bell, seen, LOOK_NS);
	}
}

/* A communicator of one rank has no kernel. */
static ncclResult_t copy_alone(const struct launch *l)
{
	for (int i = 0; i < l->count; i++) {
		const struct op *op = &l->op[i];
		if (op->send != op->recv && dr.cuMemcpyDtoDAsync_v2((CUdeviceptr)op->recv, (CUdeviceptr)op->send,
															op->count * type_size(op->type), op->stream))
			return ncclUnhandledCudaError;
	}
	return ncclSuccess;
}

static ncclResult_t launch_part(const struct op *ops, int count, struct comm *c, bool p2p)
{
	struct launch *l = collect(ops, count, c, p2p);
	if (!l)
		return ncclSuccess;
	CUcontext before = NULL;
	sleep_us(draw(fault(c, FAULT_ISSUE_US)));
	cost_ns(COST_LAUNCH_NS);
	dr.cuCtxGetCurrent(&before);
	if (before != c->ctx)
		dr.cuCtxSetCurrent(c->ctx);
	connect_ranks(c, l);
	bool alone = c->ranks == 1 && !p2p && l->op[0].op != ncclNumOps;
	pthread_mutex_lock(&c->lock);
	ncclResult_t result;
	if (alone) {
		note(c, l);
		result = copy_alone(l);
		free(l);
	} else {
		result = launch_locked(c, l);
	}
	uint64_t limit = fault(c, FAULT_ERROR);
	bool fails = limit && c->ops >= limit;
	pthread_mutex_unlock(&c->lock);
	if (fails)
		comm_fail(c, (ncclResult_t)fault(c, FAULT_ERROR_CODE), "injected error");
	if (before != c->ctx)
		dr.cuCtxSetCurrent(before);
	return result;
}

/* To oneself, as often sent as received within the group. */
static bool self_balanced(const struct op *ops, int count, const struct comm *c)
{
	int open = 0;
	for (int i = 0; i < count; i++)
		if (ops[i].comm == c && is_p2p(&ops[i]) && ops[i].root == c->rank)
			open += ops[i].func == F_SEND ? 1 : -1;
	return !open;
}

static ncclResult_t check_captures(const struct op *ops, int count)
{
	struct capture first, next;
	ncclResult_t result = capture_of(ops[0].stream, &first);
	for (int i = 1; i < count && result == ncclSuccess; i++) {
		if (ops[i].stream == ops[i - 1].stream)
			continue;
		result = capture_of(ops[i].stream, &next);
		if (result == ncclSuccess && (next.on != first.on || (next.on && next.id != first.id))) {
			set_last_error(
				"Streams given to a communicator within a NCCL group must either be all uncaptured "
				"or all captured by the same graph.");
			result = ncclInvalidUsage;
		}
	}
	return result;
}

ncclResult_t launch_all(struct op *ops, int count)
{
	ncclResult_t result = check_captures(ops, count);
	for (int i = 0; i < count && result == ncclSuccess; i++) {
		struct comm *c = ops[i].comm;
		bool seen = false;
		for (int j = 0; j < i; j++)
			seen = seen || ops[j].comm == c;
		if (seen)
			continue;
		if (!self_balanced(ops, count, c)) {
			set_last_error("Trying to sendTask to self without a matching recvTask");
			return ncclInvalidUsage;
		}
		result = launch_part(ops, count, c, false);
		if (result == ncclSuccess)
			result = launch_part(ops, count, c, true);
	}
	return result;
}
