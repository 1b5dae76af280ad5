/* replay_ops.c - the operations of a trace, as driver calls. */
#include "replay_worker.h"

#define TOUCH_BYTES 65536

static bool enter(struct replay_worker *w, unsigned device)
{
	if (device == w->current)
		return true;
	w->current = device;
	return REPLAY_OK(w, cuCtxSetCurrent, w->device[device].ctx);
}

static CUstream *stream_of(struct replay_worker *w, uint32_t number, unsigned device)
{
	return &w->stream[(size_t)number * w->devices + device];
}

/* The context is current. */
static bool stream_make(struct replay_worker *w, CUstream *s)
{
	return *s || REPLAY_OK(w, cuStreamCreate, s, CU_STREAM_NON_BLOCKING);
}

static bool do_alloc(struct replay_worker *w, const struct trace_op *op)
{
	CUstream *s = stream_of(w, op->stream, op->device);
	CUdeviceptr at = 0;
	CUresult r;
	if (!enter(w, op->device) || !stream_make(w, s))
		return false;
	r = w->mode->async ? w->drv.cuMemAllocAsync(&at, op->bytes, *s) : w->drv.cuMemAlloc_v2(&at, op->bytes);
	w->calls++;
	w->alloc_calls++;
	w->block[op->block] = r == CUDA_SUCCESS ? at : 0;
	if (r == CUDA_ERROR_OUT_OF_MEMORY) {
		w->oom++;
		return true;
	}
	if (r != CUDA_SUCCESS)
		return replay_answer(w, w->mode->async ? "cuMemAllocAsync" : "cuMemAlloc_v2", r);
	w->device[op->device].live += op->bytes;
	if (w->device[op->device].live > w->device[op->device].peak_live)
		w->device[op->device].peak_live = w->device[op->device].live;
	return !w->touch ||
		   REPLAY_OK(w, cuMemsetD8Async, at, 0x5a, op->bytes < TOUCH_BYTES ? op->bytes : TOUCH_BYTES, *s);
}

static bool do_free(struct replay_worker *w, const struct trace_op *op)
{
	CUdeviceptr at = w->block[op->block];
	if (!at) /* there was no memory for it */
		return true;
	CUstream *s = stream_of(w, op->stream, op->device);
	w->block[op->block] = 0;
	w->device[op->device].live -= op->bytes;
	w->alloc_calls++;
	if (!enter(w, op->device))
		return false;
	if (!w->mode->async)
		return REPLAY_OK(w, cuMemFree_v2, at);
	return stream_make(w, s) && REPLAY_OK(w, cuMemFreeAsync, at, *s);
}

static bool do_wait(struct replay_worker *w, const struct trace_op *op)
{
	for (unsigned dev = 0; op->other != TRACE_NONE && dev < w->devices; dev++) {
		CUstream *first = stream_of(w, op->stream, dev), *second = stream_of(w, op->other, dev);
		if (!*second)
			continue;
		if (!enter(w, dev) || !stream_make(w, first) ||
			!REPLAY_OK(w, cuEventRecord, w->device[dev].event, *second) ||
			!REPLAY_OK(w, cuStreamWaitEvent, *first, w->device[dev].event, 0))
			return false;
	}
	return true;
}

static bool do_sync(struct replay_worker *w, const struct trace_op *op)
{
	for (unsigned dev = 0; op->stream != TRACE_NONE && dev < w->devices; dev++) {
		CUstream *s = stream_of(w, op->stream, dev);
		if (*s && (!enter(w, dev) || !REPLAY_OK(w, cuStreamSynchronize, *s)))
			return false;
	}
	return true;
}

static bool do_destroy(struct replay_worker *w, const struct trace_op *op)
{
	for (unsigned dev = 0; op->stream != TRACE_NONE && dev < w->devices; dev++) {
		CUstream *s = stream_of(w, op->stream, dev), old = *s;
		*s = NULL;
		if (old && (!enter(w, dev) || !REPLAY_OK(w, cuStreamDestroy_v2, old)))
			return false;
	}
	return true;
}

bool replay_carry_out(struct replay_worker *w, const struct trace_op *op)
{
	switch (op->kind) {
	case 'a': return do_alloc(w, op);
	case 'f': return do_free(w, op);
	case 'w': return do_wait(w, op);
	case 's': return do_sync(w, op);
	default: return do_destroy(w, op);
	}
}
