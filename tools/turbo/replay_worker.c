/*
 * replay_worker.c - one trace in one mode, in a process of its own.
 *
 * The trace is read a chunk at a time and the clock runs only while a chunk is carried out: the
 * time is that of the driver calls and of what libturbo puts in their place. How much memory is
 * reserved is looked at between operations, with the clock stopped.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "replay_worker.h"
#include "log.h"
#include "turbo.h"

#define CHUNK_OPS 16384
#define SAMPLE_OPS 1024                    /* reserved memory is looked at at least that often, */
#define SAMPLE_GROWTH(live) ((live) / 256) /* and when the most that was live has grown by that */

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- how much is reserved ---- */

/* The driver's own view of each device. */
static bool look(struct replay_worker *w, bool before)
{
	for (unsigned dev = 0; dev < w->devices; dev++) {
		size_t available, total;
		CUresult r = CUDA_SUCCESS;
		if (dev != w->current) {
			r = w->drv.cuCtxSetCurrent(w->device[dev].ctx);
			w->current = dev;
			w->own_calls++;
		}
		if (r == CUDA_SUCCESS)
			r = w->drv.own_info(&available, &total);
		w->own_calls++;
		if (r != CUDA_SUCCESS)
			return replay_failed(&w->drv, "cuMemGetInfo", r);
		if (before)
			w->device[dev].free_before = available;
		else if (w->device[dev].free_before > available &&
				 w->device[dev].free_before - available > w->device[dev].peak_reserved)
			w->device[dev].peak_reserved = w->device[dev].free_before - available;
	}
	return true;
}

/* A pool counts for itself. Where it does not, what look() saw stays. */
static void ask_pools(struct replay_worker *w)
{
	for (unsigned dev = 0; w->mode->async && dev < w->devices; dev++) {
		cuuint64_t high = 0;
		if (w->drv.cuMemPoolGetAttribute(w->device[dev].pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &high) ==
				CUDA_SUCCESS &&
			high)
			w->device[dev].peak_reserved = high;
	}
}

/* ---- reading and running ---- */

static void *grown(void *array, size_t have, size_t want, size_t size)
{
	char *bigger = realloc(array, want * size);
	if (bigger)
		memset(bigger + have * size, 0, (want - have) * size);
	return bigger;
}

/* Room for every number that the reader has given out. */
static bool make_room(struct replay_worker *w, const struct trace_reader *r)
{
	if (r->blocks > w->blocks) {
		uint32_t want = r->blocks + r->blocks / 2 + 64;
		CUdeviceptr *block = grown(w->block, w->blocks, want, sizeof(*block));
		if (!block)
			return false;
		w->block = block;
		w->blocks = want;
	}
	if (r->streams > w->streams) {
		uint32_t want = r->streams + r->streams / 2 + 16;
		size_t n = w->devices;
		CUstream *stream = grown(w->stream, w->streams * n, want * n, sizeof(*stream));
		if (!stream)
			return false;
		w->stream = stream;
		w->streams = want;
	}
	return true;
}

static bool wants_sample(struct replay_worker *w, const struct trace_reader *r, uint64_t peak_op)
{
	uint64_t op = w->planned_op++;
	if (op == peak_op || op % SAMPLE_OPS == SAMPLE_OPS - 1)
		return true;
	if (r->live <= w->planned_live + SAMPLE_GROWTH(w->planned_live))
		return false;
	w->planned_live = r->live;
	return true;
}

static bool run_chunk(struct replay_worker *w, int n)
{
	uint64_t start = now_ns();
	for (int i = 0; i < n; i++) {
		if (!replay_carry_out(w, &w->op[i])) {
			failure("replay", "at operation %" PRIu64 " of the trace", w->ops + (uint64_t)i);
			return false;
		}
		if (w->sample[i]) {
			w->ns += now_ns() - start;
			if (!look(w, false))
				return false;
			start = now_ns();
		}
	}
	w->ns += now_ns() - start;
	w->ops += (uint64_t)n;
	return true;
}

static int run_trace(struct replay_worker *w, const char *path, uint64_t peak_op)
{
	struct trace_reader r;
	bool ok = trace_reader_open(&r, path);
	int code = 1;
	if (!ok)
		return failure("replay", "%s: %s", path, strerror(errno));
	while (ok && code > 0) {
		int n = 0;
		while (n < CHUNK_OPS && (code = trace_reader_next(&r, &w->op[n])) > 0) {
			w->sample[n] = wants_sample(w, &r, peak_op);
			n++;
		}
		if (code < 0)
			failure("replay", "%s:%" PRIu64 ": %s", path, r.line, r.why);
		else if (!(ok = make_room(w, &r)))
			failure("replay", "no memory for %u block%s and %u stream%s", r.blocks, PLURAL(r.blocks),
					r.streams, PLURAL(r.streams));
		ok = ok && code >= 0 && run_chunk(w, n);
	}
	trace_reader_close(&r);
	return ok ? EXIT_OK : EXIT_FAILED;
}

/* ---- before and after ---- */

static bool open_device(struct replay_worker *w, unsigned dev, uint64_t limit)
{
	cuuint64_t keep = UINT64_MAX, zero = 0;
	CUdevice device;
	CUstream warm;
	CUdeviceptr at;
	if (!REPLAY_OK(w, cuDeviceGet, &device, (int)dev) ||
		!REPLAY_OK(w, cuDevicePrimaryCtxRetain, &w->device[dev].ctx, device) ||
		!REPLAY_OK(w, cuCtxSetCurrent, w->device[dev].ctx) ||
		!REPLAY_OK(w, cuEventCreate, &w->device[dev].event, CU_EVENT_DISABLE_TIMING) ||
		!REPLAY_OK(w, cuStreamCreate, &warm, CU_STREAM_NON_BLOCKING) ||
		!REPLAY_OK(w, cuMemAlloc_v2, &at, 512) || !REPLAY_OK(w, cuMemsetD8Async, at, 0, 512, warm) ||
		!REPLAY_OK(w, cuStreamSynchronize, warm) || !REPLAY_OK(w, cuMemFree_v2, at) ||
		!REPLAY_OK(w, cuStreamDestroy_v2, warm))
		return false;
	w->current = dev;
	/* As PyTorch sets it: memory stays in the pool. */
	if (w->mode->async &&
		(!REPLAY_OK(w, cuDeviceGetDefaultMemPool, &w->device[dev].pool, device) ||
		 !REPLAY_OK(w, cuMemPoolSetAttribute, w->device[dev].pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
					&keep) ||
		 !REPLAY_OK(w, cuMemPoolSetAttribute, w->device[dev].pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero)))
		return false;
	return !limit || replay_hold_back(&w->drv, limit);
}

static bool open_driver(struct replay_worker *w, uint64_t limit)
{
	int count = 0;
	if (w->mode->preload && !replay_loaded("libturbo.so")) {
		failure("replay", "libturbo.so was not loaded into the %s worker", w->mode->name);
		return false;
	}
	if (!replay_driver_load(&w->drv) || !REPLAY_OK(w, cuInit, 0) || !REPLAY_OK(w, cuDeviceGetCount, &count))
		return false;
	if (w->devices > (unsigned)count) {
		failure("replay", "the trace names device %u, this machine has %d", w->devices - 1, count);
		return false;
	}
	for (unsigned dev = 0; dev < w->devices; dev++)
		if (!open_device(w, dev, limit))
			return false;
	w->calls = 0;
	return look(w, true);
}

/* Driver calls that libturbo says it made for allocation. */
static uint64_t library_calls(void)
{
	struct stats_file f;
	char path[4096], why[256];
	uint64_t n = 0;
	if (!stats_file_find((uint32_t)getpid(), path, sizeof(path)) ||
		!stats_file_read(path, &f, why, sizeof(why)))
		return 0;
	for (uint32_t i = f.head.calls; i < f.head.cells; i++)
		if (!strncmp(f.cell[i].name, "devmem.", 7) && !strcmp(f.cell[i].unit, "driver calls"))
			n += f.cell[i].value;
	stats_file_free(&f);
	return n;
}

/* A simulated driver has counted every call. A real one has not: bare, what we called; with
 * libturbo, what it says of allocation, and what we called besides. */
static uint64_t driver_calls(struct replay_worker *w, uint64_t sim_before, uint64_t library_before)
{
	if (w->drv.sim_calls)
		return w->drv.sim_calls() - sim_before - w->own_calls;
	if (w->mode->preload)
		return w->calls - w->alloc_calls + library_calls() - library_before;
	return w->calls;
}

/* Blocks that the trace leaves. */
static void free_rest(struct replay_worker *w)
{
	for (uint32_t i = 0; i < w->blocks; i++)
		if (w->block[i]) {
			if (w->mode->async)
				w->drv.cuMemFreeAsync(w->block[i], NULL);
			else
				w->drv.cuMemFree_v2(w->block[i]);
		}
	w->drv.cuCtxSynchronize();
}

static bool hand_over(const struct replay_worker *w, uint64_t calls)
{
	uint64_t live = 0, reserved = 0;
	for (unsigned dev = 0; dev < w->devices; dev++) {
		live += w->device[dev].peak_live;
		reserved += w->device[dev].peak_reserved;
	}
	struct replay_result result = {w->ops, w->ns, reserved, live, calls, w->oom};
	if (write(REPLAY_RESULT_FD, &result, sizeof(result)) == (ssize_t)sizeof(result))
		return true;
	failure("replay", "the result cannot be handed over: %s", strerror(errno));
	return false;
}

/* --worker MODE TRACE LIMIT TOUCH PEAK_OP DEVICES */
int replay_worker(int argc, char **argv)
{
	static struct replay_worker w;
	if (argc != 8 || !(w.mode = replay_mode_find(argv[2])))
		return usage_error("replay", "%s is not for use by hand", REPLAY_WORKER);
	uint64_t limit = strtoull(argv[4], NULL, 10), peak_op = strtoull(argv[6], NULL, 10);
	w.touch = *argv[5] == '1';
	w.devices = (unsigned)strtoul(argv[7], NULL, 10);
	w.op = calloc(CHUNK_OPS, sizeof(*w.op));
	w.sample = calloc(CHUNK_OPS, sizeof(*w.sample));
	if (!w.op || !w.sample)
		return failure("replay", "no memory");
	if (w.devices < 1 || w.devices > TRACE_DEVICES || !open_driver(&w, limit))
		return EXIT_FAILED;

	w.own_calls = 0;
	uint64_t library = w.mode->preload ? library_calls() : 0;
	uint64_t sim = w.drv.sim_calls ? w.drv.sim_calls() : 0;
	if (run_trace(&w, argv[3], peak_op) != EXIT_OK)
		return EXIT_FAILED;
	uint64_t calls = driver_calls(&w, sim, library);
	ask_pools(&w);
	bool ok = hand_over(&w, calls);
	free_rest(&w);
	free(w.op);
	free(w.sample);
	free(w.block);
	free(w.stream);
	return ok ? EXIT_OK : EXIT_FAILED;
}
