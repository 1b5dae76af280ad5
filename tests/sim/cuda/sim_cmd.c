/*
 * sim_cmd.c - what a stream executes: one function a kind of command.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim_graph_mem.h"
#include "sim_ipc.h"
#include "sim_kernel.h"
#include "sim_pool.h"

#define POLL_US 20

struct sim_cmd *sim_cmd_new(enum sim_cmd_kind kind)
{
	struct sim_cmd *cmd = calloc(1, sizeof *cmd);
	if (!cmd)
		abort();
	cmd->refs = 1;
	cmd->kind = kind;
	return cmd;
}

/* Lock held. */
static void keep_end(struct sim_cmd *cmd)
{
	for (int i = 0; i < cmd->keep.count; i++)
		sim_cmd_put(cmd->keep.cmds[i]);
	free(cmd->keep.cmds);
	cmd->keep.cmds = NULL;
	cmd->keep.count = 0;
}

/* Lock held. */
void sim_cmd_put(struct sim_cmd *cmd)
{
	if (!cmd || --cmd->refs)
		return;
	if (cmd->kind == CMD_COPY)
		free(cmd->copy.staged);
	if (cmd->kind == CMD_RECORD_EVENT || cmd->kind == CMD_WAIT_EVENT)
		sim_event_put(cmd->event);
	if (cmd->kind == CMD_RECORD_IPC || cmd->kind == CMD_WAIT_IPC)
		sim_ipc_put(cmd->ipc.event);
	if (cmd->kind == CMD_POOL_FREE) { /* also when a fatal error kept it from running */
		sim_pool_freed(cmd->pool_free);
		free(cmd->pool_free);
	}
	if (cmd->kind == CMD_GRAPH_ALLOC)
		sim_graph_mem_end(cmd->free);
	if (cmd->kind == CMD_USER_OBJECT)
		cmd->object.destroy(cmd->object.ptr);
	if (cmd->kind == CMD_GRAPH_KEEP)
		keep_end(cmd);
	free(cmd);
}

/* The speed of the link, when one is set. Before the bytes move: a source that is
 * overwritten too early, or a destination that is read too early, then shows. */
static void transfer_time(size_t bytes)
{
	double us = sim_conf.dma_us;
	if (sim_conf.gbps > 0)
		us += (double)bytes / sim_conf.gbps / 1e3;
	if (us >= 1)
		usleep((useconds_t)us);
}

static bool still_pinned(uintptr_t addr)
{
	sim_lock();
	struct sim_range *r = sim_range_find(addr);
	bool pinned = r && !sim_kind_device(r->kind);
	sim_unlock();
	if (!pinned)
		sim_complain("DMA to host memory at %p that is no longer pinned", (void *)addr);
	return pinned;
}

static CUresult run_copy(const struct sim_copy *c)
{
	transfer_time(c->width * c->height * c->depth);
	if ((c->src_pinned && !still_pinned(c->src)) || (c->dst_pinned && !still_pinned(c->dst)))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	uintptr_t src = c->staged ? (uintptr_t)c->staged : c->src;
	for (size_t z = 0; z < c->depth; z++) {
		for (size_t y = 0; y < c->height; y++) {
			uintptr_t to = c->dst + z * c->dst_slice + y * c->dst_pitch;
			uintptr_t from = src + z * c->src_slice + y * c->src_pitch;
			if (!sim_move(to, from, c->width))
				return CUDA_ERROR_ILLEGAL_ADDRESS;
		}
	}
	return CUDA_SUCCESS;
}

static CUresult run_set(const struct sim_set *s)
{
	unsigned char pattern[4096];
	for (size_t i = 0; i + s->unit <= sizeof pattern; i += s->unit)
		memcpy(pattern + i, &s->value, s->unit); /* little-endian: the low bytes */
	for (size_t y = 0; y < s->height; y++) {
		size_t left = s->width * s->unit;
		for (uintptr_t at = s->dst + y * s->pitch; left;) {
			size_t n = left < sizeof pattern ? left : sizeof pattern;
			if (!sim_move(at, (uintptr_t)pattern, n))
				return CUDA_ERROR_ILLEGAL_ADDRESS;
			at += n;
			left -= n;
		}
	}
	return CUDA_SUCCESS;
}

static CUresult run_host(struct sim_cmd *cmd)
{
	sim_thread.in_host_func = true;
	if (cmd->kind == CMD_HOST)
		cmd->host.fn(cmd->host.user);
	else
		cmd->host.callback(cmd->host.stream, CUDA_SUCCESS, cmd->host.user);
	sim_thread.in_host_func = false;
	return CUDA_SUCCESS;
}

static bool value_met(const struct sim_value *v, uint64_t now)
{
	if (!v->wide)
		now = (uint32_t)now;
	uint64_t want = v->value;
	switch (v->flags & 3) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return v->wide ? (int64_t)(now - want) >= 0 : (int32_t)((uint32_t)now - (uint32_t)want) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ: return now == want;
	case CU_STREAM_WAIT_VALUE_AND: return (now & want) != 0;
	default: return (v->wide ? ~(now | want) : (uint64_t)(uint32_t) ~(now | want)) != 0;
	}
}

static CUresult run_wait_value(struct sim_ctx *ctx, const struct sim_value *v)
{
	for (;;) {
		uint64_t now = 0;
		if (!sim_move((uintptr_t)&now, v->addr, v->wide ? 8 : 4))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		if (value_met(v, now) || __atomic_load_n(&ctx->sticky, __ATOMIC_ACQUIRE) != CUDA_SUCCESS) {
			sim_see(v->addr);
			return CUDA_SUCCESS;
		}
		usleep(POLL_US);
	}
}

static bool meets(uintptr_t at, size_t n, uintptr_t base, size_t size)
{
	return n && at < base + size && base < at + n;
}

static size_t span_of(size_t width, size_t height, size_t pitch, size_t depth, size_t slice)
{
	return width && height && depth ? (depth - 1) * slice + (height - 1) * pitch + width : 0;
}

bool sim_cmd_names(const struct sim_cmd *cmd, uintptr_t base, size_t size)
{
	const struct sim_copy *c = &cmd->copy;
	const struct sim_set *s = &cmd->set;
	switch (cmd->kind) {
	case CMD_COPY:
		if (!c->staged &&
			meets(c->src, span_of(c->width, c->height, c->src_pitch, c->depth, c->src_slice), base, size))
			return true;
		return meets(c->dst, span_of(c->width, c->height, c->dst_pitch, c->depth, c->dst_slice), base, size);
	case CMD_SET: return meets(s->dst, span_of(s->width * s->unit, s->height, s->pitch, 1, 0), base, size);
	case CMD_WAIT_VALUE:
	case CMD_WRITE_VALUE: return meets(cmd->value.addr, 4, base, size);
	case CMD_KERNEL: return sim_kernel_names(&cmd->launch, base, size);
	default: return false;
	}
}

/* External event nodes of a graph: they take effect when the graph runs. */
static CUresult run_event(struct sim_ctx *ctx, struct sim_cmd *cmd, struct sim_op *op)
{
	struct sim_ipc *ipc = cmd->event->ipc; /* the command holds the event */
	if (ipc && cmd->kind == CMD_RECORD_EVENT) {
		sim_ipc_complete(ipc, sim_ipc_record(ipc));
		return CUDA_SUCCESS;
	}
	if (ipc) {
		sim_ipc_wait(ipc, sim_ipc_newest(ipc), ctx);
		return CUDA_SUCCESS;
	}
	sim_lock();
	struct sim_event *e = cmd->event;
	if (cmd->kind == CMD_RECORD_EVENT) {
		sim_op_put(e->record);
		e->record = sim_op_get(op);
	} else if (e->record && e->record != op) {
		struct sim_op *on = sim_op_get(e->record);
		sim_op_wait(on);
		sim_op_put(on);
	}
	sim_unlock();
	return CUDA_SUCCESS;
}

static CUresult run_free(uintptr_t addr)
{
	sim_lock();
	struct sim_range *r = sim_range_find(addr);
	if (r)
		sim_release_range(r);
	else
		sim_complain("a stream comes to the free of %p, which was freed", (void *)addr);
	sim_unlock();
	return r ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static CUresult run_keep(struct sim_cmd *cmd)
{
	sim_lock();
	keep_end(cmd); /* the stream may hold cmd for long as its last */
	sim_unlock();
	return CUDA_SUCCESS;
}

static CUresult run_pool_free(struct sim_pool_free *f)
{
	sim_lock();
	sim_pool_freed(f);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_cmd_run(struct sim_ctx *ctx, struct sim_op *op)
{
	struct sim_cmd *cmd = op->cmd;
	switch (cmd->kind) {
	case CMD_NOP:
	case CMD_GRAPH_ALLOC:
	case CMD_USER_OBJECT:
	case CMD_GRAPH_FREE: return CUDA_SUCCESS;
	case CMD_GRAPH_KEEP: return run_keep(cmd);
	case CMD_COPY: return run_copy(&cmd->copy);
	case CMD_SET: return run_set(&cmd->set);
	case CMD_KERNEL: return sim_kernel_run(ctx, &cmd->launch);
	case CMD_HOST:
	case CMD_CALLBACK: return run_host(cmd);
	case CMD_WAIT_VALUE: return run_wait_value(ctx, &cmd->value);
	case CMD_WRITE_VALUE:
		return sim_move(cmd->value.addr, (uintptr_t)&cmd->value.value, cmd->value.wide ? 8 : 4)
				   ? CUDA_SUCCESS
				   : CUDA_ERROR_ILLEGAL_ADDRESS;
	case CMD_FREE: return run_free(cmd->free);
	case CMD_POOL_FREE: return run_pool_free(cmd->pool_free);
	case CMD_RECORD_EVENT:
	case CMD_WAIT_EVENT: return run_event(ctx, cmd, op);
	case CMD_WAIT_IPC: sim_ipc_wait(cmd->ipc.event, cmd->ipc.ticket, ctx); return CUDA_SUCCESS;
	case CMD_RECORD_IPC: return CUDA_SUCCESS; /* whoever runs it says that it is done */
	}
	return CUDA_ERROR_UNKNOWN;
}
