/*
 * async.c - stream-ordered allocation: no block is handed out before its order allows it.
 */
#include "check.h"

#include <pthread.h>
#include <string.h>

#define N (4 * MIB)

static const size_t sizes[] = {512, 8 * KIB, 100 * KIB, MIB, 3 * MIB, 7 * MIB, 24 * MIB};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Free and take again on one stream, without a wait between them. */
static const char *async_same_stream(void)
{
	STEP(tags_begin());
	for (int k = 0; k < STREAMS; k++)
		for (int i = 0; i < 40; i++) {
			CUdeviceptr p;
			size_t bytes = sizes[(size_t)i % SIZES];
			TRY(cu.cuMemAllocAsync(&p, bytes, fx.stream[k]));
			TRY(tags_use(fx.stream[k], p, bytes, i % 4 ? 0 : 300));
			TRY(cu.cuMemFreeAsync(p, fx.stream[k]));
		}
	return tags_end();
}

/* Freed behind a spin on one stream, taken at once on another that knows nothing of it. */
static const char *async_other_stream(void)
{
	STEP(tags_begin());
	for (int from = 0; from < STREAMS; from++)
		for (int to = 0; to < STREAMS; to++) {
			CUdeviceptr p, q;
			TRY(cu.cuMemAllocAsync(&p, N, fx.stream[from]));
			TRY(tags_use(fx.stream[from], p, N, 2000));
			TRY(cu.cuMemFreeAsync(p, fx.stream[from]));
			TRY(cu.cuMemAllocAsync(&q, N, fx.stream[to]));
			TRY(tags_use(fx.stream[to], q, N, 1500));
			TRY(cu.cuMemFreeAsync(q, fx.stream[to]));
		}
	return tags_end();
}

static const char *order(CUstream first, CUstream then, CUevent e)
{
	TRY(cu.cuEventRecord(e, first));
	TRY(cu.cuStreamWaitEvent(then, e, 0));
	return NULL;
}

/* Allocated on one stream, used on the next, freed on a third, events between them; then taken on
 * the stream that the free was ordered before. */
static const char *async_ordered_by_events(void)
{
	CUevent e;
	STEP(tags_begin());
	TRY(cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	for (int i = 0; i < 40; i++) {
		CUstream s[3];
		CUdeviceptr p, q;
		size_t bytes = sizes[(size_t)i % SIZES];
		for (int k = 0; k < 3; k++)
			s[k] = fx.stream[random_below(&case_random, STREAMS)];
		TRY(cu.cuMemAllocAsync(&p, bytes, s[0]));
		STEP(order(s[0], s[1], e));
		TRY(tags_use(s[1], p, bytes, 400));
		STEP(order(s[1], s[2], e));
		TRY(tags_use(s[2], p, bytes, 200));
		TRY(cu.cuMemFreeAsync(p, s[2]));
		STEP(order(s[2], s[0], e));
		TRY(cu.cuMemAllocAsync(&q, bytes, s[0]));
		TRY(tags_use(s[0], q, bytes, 0));
		TRY(cu.cuMemFreeAsync(q, s[0]));
	}
	TRY(cu.cuEventDestroy_v2(e));
	return tags_end();
}

/* ---- threads ------------------------------------------------------------------------------ */

struct worker {
	uint64_t random;
	CUresult result;
	pthread_t thread;
};

static CUresult worker_round(struct worker *w, CUstream own)
{
	CUdeviceptr p[4];
	size_t bytes[4];
	CUstream s = random_below(&w->random, 3) ? own : fx.stream[random_below(&w->random, STREAMS)];
	CUresult r = CUDA_SUCCESS;
	int n = 1 + (int)random_below(&w->random, 4);
	for (int i = 0; i < n && !r; i++) {
		bytes[i] = sizes[random_below(&w->random, SIZES)];
		r = cu.cuMemAllocAsync(&p[i], bytes[i], s);
		r = r ? r : tags_use(s, p[i], bytes[i], random_below(&w->random, 4) ? 0 : 300);
	}
	for (int i = 0; i < n && !r; i++)
		r = cu.cuMemFreeAsync(p[i], s);
	return r;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	CUstream own;
	w->result = cu.cuCtxSetCurrent(fx.ctx);
	if (!w->result)
		w->result = cu.cuStreamCreate(&own, CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < 60 && !w->result; i++)
		w->result = worker_round(w, own);
	/* Destroyed while its work and its frees are pending. */
	if (!w->result)
		w->result = cu.cuStreamDestroy_v2(own);
	return NULL;
}

static const char *async_threads(void)
{
	struct worker w[6];
	CUresult r = CUDA_SUCCESS;
	STEP(tags_begin());
	for (int i = 0; i < 6; i++) {
		w[i] = (struct worker){.random = random_next(&case_random) | 1};
		if (pthread_create(&w[i].thread, NULL, worker_main, &w[i]))
			return case_skip("no thread");
	}
	for (int i = 0; i < 6; i++) {
		pthread_join(w[i].thread, NULL);
		r = r ? r : w[i].result;
	}
	TRY(r);
	return tags_end();
}

/* The stream goes while a block of it is in use, another pending, a third free. */
static const char *async_stream_destroyed(void)
{
	STEP(tags_begin());
	for (int i = 0; i < 12; i++) {
		CUstream s;
		CUdeviceptr p, q, later;
		TRY(cu.cuStreamCreate(&s, i % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
		TRY(cu.cuMemAllocAsync(&later, N, s));
		TRY(cu.cuMemAllocAsync(&p, N, s));
		TRY(tags_use(s, later, N, 0));
		TRY(tags_use(s, p, N, 3000));
		TRY(cu.cuMemFreeAsync(p, s));
		TRY(cu.cuStreamDestroy_v2(s));
		TRY(cu.cuMemAllocAsync(&q, N, fx.stream[STREAM_NB]));
		TRY(tags_use(fx.stream[STREAM_NB], q, N, 2250));
		TRY(cu.cuMemFreeAsync(q, fx.stream[STREAM_NB]));
		TRY(cu.cuCtxSynchronize()); /* then `later` may be used and freed anywhere */
		TRY(tags_use(fx.stream[STREAM_NB2], later, N, 0));
		TRY(cu.cuMemFreeAsync(later, fx.stream[STREAM_NB2]));
	}
	return tags_end();
}

/* cuMemFree takes stream-ordered blocks too; nothing promises that it waits, so the program does. */
static const char *async_by_mem_free(void)
{
	STEP(tags_begin());
	for (int i = 0; i < 20; i++) {
		CUdeviceptr p, q;
		CUstream s = fx.stream[i % STREAMS];
		size_t bytes = sizes[(size_t)i % SIZES];
		TRY(cu.cuMemAllocAsync(&p, bytes, s));
		TRY(tags_use(s, p, bytes, 500));
		TRY(cu.cuStreamSynchronize(s));
		TRY(cu.cuMemFree_v2(p));
		TRY(cu.cuMemAllocAsync(&q, bytes, fx.stream[STREAM_NB]));
		TRY(tags_use(fx.stream[STREAM_NB], q, bytes, 0));
		TRY(cu.cuMemFreeAsync(q, fx.stream[STREAM_NB]));
	}
	return tags_end();
}

/* The functions of the per-thread default stream. */
static const char *async_per_thread_functions(void)
{
	NEED(cuMemAllocAsync_ptsz);
	NEED(cuMemFreeAsync_ptsz);
	STEP(tags_begin());
	for (int i = 0; i < 20; i++) {
		CUdeviceptr p, q;
		TRY(cu.cuMemAllocAsync_ptsz(&p, N, NULL));
		TRY(tags_use(CU_STREAM_PER_THREAD, p, N, 1000));
		TRY(cu.cuMemFreeAsync_ptsz(p, NULL));
		TRY(cu.cuMemAllocAsync(&q, N, fx.stream[STREAM_NB]));
		TRY(tags_use(fx.stream[STREAM_NB], q, N, 750));
		TRY(cu.cuMemFreeAsync(q, fx.stream[STREAM_NB]));
	}
	return tags_end();
}

const struct gpu_case async_cases[] = {
	{"async_same_stream", async_same_stream},
	{"async_other_stream", async_other_stream},
	{"async_ordered_by_events", async_ordered_by_events},
	{"async_threads", async_threads},
	{"async_stream_destroyed", async_stream_destroyed},
	{"async_by_mem_free", async_by_mem_free},
	{"async_per_thread_functions", async_per_thread_functions},
	{NULL, NULL},
};
