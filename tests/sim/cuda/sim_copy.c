/*
 * sim_copy.c - linear copies, and when a copy reads and returns.
 *
 * Pageable source: up to 2 MiB are read during the call, before the stream's earlier
 * work; of a larger one the first 2 MiB are, and the rest once that work is done; either
 * way the DMA may still be pending when an asynchronous call returns. Pageable
 * destination: the call waits. Pinned on both sides: the bytes are read when the stream
 * gets there.
 */
#include <stdlib.h>

#include "sim_copy.h"

enum sim_side sim_side_of(uintptr_t addr, size_t n)
{
	struct sim_range *r = sim_range_find(addr);
	if (!r) {
		if (!sim_in_device_space(addr))
			return addr < 4096 ? SIDE_BAD : SIDE_PAGEABLE;
		if (sim_range_was_freed(addr))
			sim_complain("copy touches device memory at %p, which was freed", (void *)addr);
		return SIDE_BAD;
	}
	enum sim_kind kind = r->kind;
	if (kind == MEM_VMM && !r->may_read)
		return SIDE_BAD;
	if (addr + n < addr)
		return SIDE_BAD;
	/* Mapped pieces may follow each other without a gap. */
	for (uintptr_t end = addr + n; end > r->base + sim_range_size(r);) {
		r = kind == MEM_VMM ? sim_range_find(r->base + r->size) : NULL;
		if (!r || r->kind != MEM_VMM || !r->may_read)
			return SIDE_BAD;
	}
	if (kind == MEM_MANAGED)
		return SIDE_MANAGED;
	return sim_kind_device(kind) ? SIDE_DEVICE : SIDE_PINNED;
}

bool sim_synchronous(uintptr_t addr)
{
	struct sim_range *r = sim_range_find(addr);
	return r && r->sync_memops;
}

/* Reads rows of the source into a buffer of the command's own. Lock not held. */
static void *stage(const struct sim_copy *c)
{
	size_t total = c->width * c->height * c->depth;
	unsigned char *buffer = malloc(total), *to = buffer;
	for (size_t z = 0; buffer && z < c->depth; z++) {
		for (size_t y = 0; y < c->height; y++, to += c->width)
			sim_bytes(to, (const void *)(c->src + z * c->src_slice + y * c->src_pitch), c->width);
	}
	return buffer;
}

static CUresult submit_box(struct sim_stream *s, const struct sim_copy *box, struct sim_op **op)
{
	struct sim_cmd *cmd = sim_cmd_new(CMD_COPY);
	cmd->copy = *box;
	return sim_submit(s, cmd, op);
}

/* Stages the source now and queues the copy. */
static CUresult submit_staged(struct sim_stream *s, struct sim_copy box, struct sim_op **op)
{
	sim_unlock();
	box.staged = stage(&box);
	sim_lock();
	if (!box.staged)
		return CUDA_ERROR_OUT_OF_MEMORY;
	box.src_pitch = box.width;
	box.src_slice = box.width * box.height;
	return submit_box(s, &box, op);
}

static CUresult issue_pageable(struct sim_stream *s, const struct sim_copy *box, struct sim_op **op)
{
	size_t total = box->width * box->height * box->depth;
	if (total <= SIM_PAGEABLE_EARLY)
		return submit_staged(s, *box, op);
	struct sim_copy rest = *box;
	if (box->height == 1 && box->depth == 1) {
		struct sim_copy first = *box;
		first.width = SIM_PAGEABLE_EARLY;
		first.part = true;
		rest.whole = total;
		CUresult result = submit_staged(s, first, op);
		if (result != CUDA_SUCCESS)
			return result;
		sim_op_wait(*op);
		sim_op_put(*op);
		*op = NULL;
		rest.src += SIM_PAGEABLE_EARLY;
		rest.dst += SIM_PAGEABLE_EARLY;
		rest.width -= SIM_PAGEABLE_EARLY;
	} else {
		struct sim_op *before;
		CUresult result = sim_submit(s, sim_cmd_new(CMD_NOP), &before);
		if (result != CUDA_SUCCESS)
			return result;
		sim_op_wait(before);
		sim_op_put(before);
	}
	return submit_staged(s, rest, op);
}

CUresult sim_copy_issue(struct sim_stream *s, const struct sim_copy *box, enum sim_side src,
						enum sim_side dst, bool sync)
{
	struct sim_copy c = *box;
	struct sim_op *op = NULL;
	c.src_pinned = src == SIDE_PINNED;
	c.dst_pinned = dst == SIDE_PINNED;
	c.async = !sync;
	struct sim_ctx *ctx = s->ctx;
	CUresult result = __atomic_load_n(&ctx->sticky, __ATOMIC_ACQUIRE);
	if (result != CUDA_SUCCESS)
		return result;
	if (s->capture) { /* the node keeps the address and reads it at each replay */
		c.pageable = src == SIDE_PAGEABLE || dst == SIDE_PAGEABLE;
		return submit_box(s, &c, NULL);
	}
	if (src == SIDE_PAGEABLE)
		result = issue_pageable(s, &c, &op);
	else
		result = submit_box(s, &c, &op);
	/* Synchronous calls between device memory do not wait on the host. */
	bool device_only =
		src == SIDE_DEVICE && dst == SIDE_DEVICE && !sim_synchronous(c.src) && !sim_synchronous(c.dst);
	bool host_only =
		sim_side_host(src) && sim_side_host(dst) && (src == SIDE_PAGEABLE || dst == SIDE_PAGEABLE);
	if (result == CUDA_SUCCESS && (dst == SIDE_PAGEABLE || host_only || (sync && !device_only))) {
		sim_op_wait(op);
		result = __atomic_load_n(&ctx->sticky, __ATOMIC_ACQUIRE);
	}
	sim_op_put(op);
	return result;
}

/* ---- linear copies ---- */

enum direction { H2D, D2H, D2D, ANY };

static bool direction_allows(enum direction dir, enum sim_side src, enum sim_side dst)
{
	if (src == SIDE_BAD || dst == SIDE_BAD)
		return false;
	/* With unified addressing a host pointer may name device memory. A device pointer may
	 * name pinned and managed memory, but not pageable memory. */
	if (src == SIDE_PAGEABLE && (dir == D2H || dir == D2D))
		return false;
	return dst != SIDE_PAGEABLE || (dir != H2D && dir != D2D);
}

static CUresult linear(struct sim_stream *s, enum direction dir, uintptr_t dst, uintptr_t src, size_t n,
					   bool sync)
{
	if (!n)
		return CUDA_SUCCESS;
	enum sim_side from = sim_side_of(src, n), to = sim_side_of(dst, n);
	if (!direction_allows(dir, from, to))
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_copy box = {.dst = dst, .src = src, .width = n, .height = 1, .depth = 1};
	return sim_copy_issue(s, &box, from, to, sync);
}

static CUresult copy(bool per_thread, enum direction dir, uintptr_t dst, uintptr_t src, size_t n,
					 CUstream stream, bool sync)
{
	struct sim_stream *s;
	sim_lock();
	CUresult result = sim_stream_get(stream, per_thread, &s);
	if (result == CUDA_SUCCESS)
		result = linear(s, dir, dst, src, n, sync);
	sim_unlock();
	return result;
}

#define SYNC S_CTX /* not prohibited by a capture elsewhere: only by the legacy stream's rules */

SIM_TWIN(cuMemcpyHtoD_v2, _ptds, SYNC, (CUdeviceptr d, const void *s, size_t n), copy, H2D, d, (uintptr_t)s,
		 n, NULL, true)
SIM_TWIN(cuMemcpyDtoH_v2, _ptds, SYNC, (void *d, CUdeviceptr s, size_t n), copy, D2H, (uintptr_t)d, s, n,
		 NULL, true)
SIM_TWIN(cuMemcpyDtoD_v2, _ptds, SYNC, (CUdeviceptr d, CUdeviceptr s, size_t n), copy, D2D, d, s, n, NULL,
		 true)
SIM_TWIN(cuMemcpy, _ptds, SYNC, (CUdeviceptr d, CUdeviceptr s, size_t n), copy, ANY, d, s, n, NULL, true)
SIM_TWIN(cuMemcpyHtoDAsync_v2, _ptsz, S_DEV, (CUdeviceptr d, const void *s, size_t n, CUstream st), copy, H2D,
		 d, (uintptr_t)s, n, st, false)
SIM_TWIN(cuMemcpyDtoHAsync_v2, _ptsz, S_DEV, (void *d, CUdeviceptr s, size_t n, CUstream st), copy, D2H,
		 (uintptr_t)d, s, n, st, false)
SIM_TWIN(cuMemcpyDtoDAsync_v2, _ptsz, S_DEV, (CUdeviceptr d, CUdeviceptr s, size_t n, CUstream st), copy, D2D,
		 d, s, n, st, false)
SIM_TWIN(cuMemcpyAsync, _ptsz, S_DEV, (CUdeviceptr d, CUdeviceptr s, size_t n, CUstream st), copy, ANY, d, s,
		 n, st, false)

static CUresult peer(bool per_thread, CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n,
					 CUstream st, bool sync)
{
	if (!sim_ctx_valid((struct sim_ctx *)dc) || !sim_ctx_valid((struct sim_ctx *)sc))
		return CUDA_ERROR_INVALID_CONTEXT;
	return copy(per_thread, D2D, d, s, n, st, sync);
}
SIM_TWIN(cuMemcpyPeer, _ptds, SYNC, (CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n),
		 peer, d, dc, s, sc, n, NULL, true)
SIM_TWIN(cuMemcpyPeerAsync, _ptsz, S_DEV,
		 (CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n, CUstream st), peer, d, dc, s,
		 sc, n, st, false)
