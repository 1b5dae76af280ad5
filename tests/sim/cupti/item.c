/*
 * item.c - what calls submit: kernel, copy, memset and graph records.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define SETTLE_OFF 10 /* the clock is off by the rest of the time to settle, divided by this */

/* The error of a clock that settles. */
static uint64_t settled(uint64_t t)
{
	uint64_t settle = fault(FAULT_SETTLE) * 1000000, first = 0, none = 0;
	if (!t || !settle)
		return t;
	uint64_t now = now_ns();
	first = now;
	if (!__atomic_compare_exchange_n(&cu.first_record_ns, &none, now, false, __ATOMIC_RELAXED,
									 __ATOMIC_RELAXED))
		first = none;
	return t < first + settle ? t - (first + settle - t) / SETTLE_OFF : t;
}

/* From CLOCK_REALTIME to the client's clock, if it has one: on the line through its registration and now. */
static void device_times(uint64_t *start, uint64_t *end)
{
	CUpti_TimestampCallbackFunc clock = __atomic_load_n(&cu.clock, __ATOMIC_ACQUIRE);
	*start = settled(*start);
	*end = settled(*end);
	if (!clock)
		return;
	uint64_t real = __atomic_load_n(&cu.clock_real_ns, __ATOMIC_RELAXED), now = now_ns();
	uint64_t began = __atomic_load_n(&cu.clock_began, __ATOMIC_RELAXED), ticks = clock();
	double rate = now > real ? (double)(ticks - began) / (double)(now - real) : 1;
	if (*start)
		*start = ticks - (uint64_t)((double)(now - *start) * rate);
	if (*end)
		*end = ticks - (uint64_t)((double)(now - *end) * rate);
}

/* ---- what is submitted ---- */

/* Lock held. */
static void item_unref(struct item *item, unsigned generation)
{
	if (--item->refs)
		return;
	if (item->generation == generation) {
		cu.in_flight--;
		item_finish(item);
	}
	free(item);
}

static void item_done(struct sim_trace_item *base, uint64_t start, uint64_t end)
{
	struct item *item = (struct item *)base;
	device_times(&start, &end);
	pthread_mutex_lock(&cu.lock);
	if (!item->start || start < item->start)
		item->start = start;
	if (end > item->end)
		item->end = end;
	item_unref(item, cu.generation);
	pthread_mutex_unlock(&cu.lock);
}

static uint32_t kernel_kind(uint32_t context)
{
	return kind_on(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, context) ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
																   : CUPTI_ACTIVITY_KIND_KERNEL;
}

static bool is_peer_copy(const struct sim_trace_op *op)
{
	return op->copy.from == TRACE_DEVICE && op->copy.to == TRACE_DEVICE &&
		   op->copy.from_device != op->copy.to_device;
}

/* The kind of record that the operation becomes; 0: none, because it is not enabled. Lock held. */
static uint32_t kind_of(const struct sim_trace_op *op)
{
	uint32_t kind = CUPTI_ACTIVITY_KIND_MEMSET;
	if (op->graph && kind_on(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, op->context))
		return CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
	if (op->kind == TRACE_KERNEL)
		kind = kernel_kind(op->context);
	else if (op->kind == TRACE_COPY)
		kind = is_peer_copy(op) ? CUPTI_ACTIVITY_KIND_MEMCPY2 : CUPTI_ACTIVITY_KIND_MEMCPY;
	return kind_on(kind, op->context) ? kind : 0;
}

struct sim_trace_item *item_submitted(struct sim_call *call, const struct sim_trace_op *op)
{
	if (!call->seen)
		return NULL;
	pthread_mutex_lock(&cu.lock);
	uint32_t kind = call->generation == cu.generation ? kind_of(op) : 0;
	struct item *item = NULL;
	if (kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE && call->graph) {
		item = (struct item *)call->graph;
		item->refs++;
	} else if (kind) {
		item = calloc(1, sizeof *item);
		if (!item)
			abort();
		item->base.done = item_done;
		item->op = *op;
		item->correlation = call->correlation;
		item->generation = call->generation;
		item->refs = 2;
		item->whole_graph = kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
		if (item->whole_graph)
			call->graph = &item->base;
		*call->tail = &item->base;
		call->tail = &item->base.next;
		cu.in_flight++;
	}
	pthread_mutex_unlock(&cu.lock);
	return item ? &item->base : NULL;
}

/* ---- records of what was submitted ---- */

static uint64_t node_id(const struct sim_trace_op *op)
{
	return op->graph ? (uint64_t)op->graph << 32 | op->node : 0;
}

static void put_kernel(struct item *item, uint32_t kind)
{
	const struct sim_trace_op *op = &item->op;
	RECORD(CUpti_ActivityKernel10, k);
	k.r.kind = kind;
	k.r.registersPerThread = 32;
	k.r.deviceId = op->device;
	k.r.contextId = op->context;
	k.r.streamId = op->stream;
	k.r.gridX = (int32_t)op->kernel.grid[0];
	k.r.gridY = (int32_t)op->kernel.grid[1];
	k.r.gridZ = (int32_t)op->kernel.grid[2];
	k.r.blockX = (int32_t)op->kernel.block[0];
	k.r.blockY = (int32_t)op->kernel.block[1];
	k.r.blockZ = (int32_t)op->kernel.block[2];
	k.r.dynamicSharedMemory = (int32_t)op->kernel.shared;
	k.r.correlationId = item->correlation;
	k.r.gridId = item->correlation;
	k.r.name = op->kernel.name;
	k.r.graphNodeId = node_id(op);
	k.r.graphId = op->graph;
	k.r.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
	record_put(&k, kind, item->generation, item);
}

static uint8_t memory_kind(enum sim_trace_memory m)
{
	static const uint8_t kinds[] = {
		[TRACE_PAGEABLE] = CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE,
		[TRACE_PINNED] = CUPTI_ACTIVITY_MEMORY_KIND_PINNED,
		[TRACE_DEVICE] = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
		[TRACE_MANAGED] = CUPTI_ACTIVITY_MEMORY_KIND_MANAGED,
	};
	return kinds[m];
}

static uint8_t copy_kind(enum sim_trace_memory from, enum sim_trace_memory to)
{
	bool from_host = from == TRACE_PAGEABLE || from == TRACE_PINNED;
	bool to_host = to == TRACE_PAGEABLE || to == TRACE_PINNED;
	if (from_host)
		return to_host ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOH : CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
	return to_host ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOH : CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
}

static void put_copy(struct item *item)
{
	const struct sim_trace_op *op = &item->op;
	RECORD(CUpti_ActivityMemcpy6, c);
	c.r.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
	c.r.copyKind = copy_kind(op->copy.from, op->copy.to);
	c.r.srcKind = memory_kind(op->copy.from);
	c.r.dstKind = memory_kind(op->copy.to);
	c.r.flags = op->copy.async ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : 0;
	c.r.bytes = op->copy.bytes;
	c.r.deviceId = op->device;
	c.r.contextId = op->context;
	c.r.streamId = op->stream;
	c.r.correlationId = item->correlation;
	c.r.graphNodeId = node_id(op);
	c.r.graphId = op->graph;
	c.r.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
	c.r.copyCount = conf.toolkit >= 120800; /* beyond the end of the older layout */
	record_put(&c, CUPTI_ACTIVITY_KIND_MEMCPY, item->generation, item);
}

static void put_peer_copy(struct item *item)
{
	const struct sim_trace_op *op = &item->op;
	RECORD(CUpti_ActivityMemcpyPtoP4, c);
	c.r.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
	c.r.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
	c.r.srcKind = c.r.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
	c.r.flags = op->copy.async ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : 0;
	c.r.bytes = op->copy.bytes;
	c.r.deviceId = op->device;
	c.r.contextId = op->context;
	c.r.streamId = op->stream;
	c.r.srcDeviceId = op->copy.from_device;
	c.r.srcContextId = c.r.dstContextId = op->context;
	c.r.dstDeviceId = op->copy.to_device;
	c.r.correlationId = item->correlation;
	c.r.graphNodeId = node_id(op);
	c.r.graphId = op->graph;
	record_put(&c, CUPTI_ACTIVITY_KIND_MEMCPY2, item->generation, item);
}

static void put_set(struct item *item)
{
	const struct sim_trace_op *op = &item->op;
	RECORD(CUpti_ActivityMemset4, s);
	s.r.kind = CUPTI_ACTIVITY_KIND_MEMSET;
	s.r.value = op->set.value;
	s.r.bytes = op->set.bytes;
	s.r.deviceId = op->device;
	s.r.contextId = op->context;
	s.r.streamId = op->stream;
	s.r.correlationId = item->correlation;
	s.r.flags = op->set.async ? CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC : 0;
	s.r.memoryKind = memory_kind(op->set.memory);
	s.r.graphNodeId = node_id(op);
	s.r.graphId = op->graph;
	record_put(&s, CUPTI_ACTIVITY_KIND_MEMSET, item->generation, item);
}

static void put_graph(struct item *item)
{
	RECORD(CUpti_ActivityGraphTrace2, g);
	g.r.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
	g.r.correlationId = item->correlation;
	g.r.deviceId = g.r.endDeviceId = item->op.device;
	g.r.graphId = item->op.graph;
	g.r.contextId = g.r.endContextId = item->op.context;
	g.r.streamId = item->op.stream;
	record_put(&g, CUPTI_ACTIVITY_KIND_GRAPH_TRACE, item->generation, item);
}

static void put_item(struct item *item)
{
	if (item->whole_graph)
		put_graph(item);
	else if (item->op.kind == TRACE_KERNEL)
		put_kernel(item, kernel_kind(item->op.context));
	else if (item->op.kind == TRACE_SET)
		put_set(item);
	else if (is_peer_copy(&item->op))
		put_peer_copy(item);
	else
		put_copy(item);
}

void items_put(struct sim_call *call)
{
	for (struct sim_trace_item *i = call->items, *next; i; i = next) {
		struct item *item = (struct item *)i;
		next = i->next;
		put_item(item);
		pthread_mutex_lock(&cu.lock);
		item_unref(item, cu.generation);
		pthread_mutex_unlock(&cu.lock);
	}
	call->items = NULL;
}
