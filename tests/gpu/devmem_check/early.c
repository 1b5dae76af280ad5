/*
 * early.c - no block of cuMemAlloc is handed out before the GPU is done with it.
 */
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LIVE 12 /* blocks that the threads hold together */

static const size_t sizes[] = {512,     4 * KIB, 40 * KIB, 512 * KIB, MIB + 512, 2 * MIB,
							   2 * MIB, 3 * MIB, 6 * MIB,  6 * MIB,   20 * MIB};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Blocks in use, freed by whichever thread draws them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUdeviceptr live[LIVE]; /* lock; 0: empty */

struct churn {
	uint64_t random;
	unsigned rounds, max_us;
	CUresult result;
	pthread_t thread;
};

static CUresult churn_once(struct churn *c)
{
	CUdeviceptr p;
	size_t bytes = sizes[random_below(&c->random, SIZES)];
	CUstream s = fx.stream[random_below(&c->random, STREAMS)];
	CUresult r = cu.cuMemAlloc_v2(&p, bytes);
	if (r != CUDA_SUCCESS)
		return r;
	r = tags_use(s, p, bytes, random_below(&c->random, c->max_us));
	size_t place = random_below(&c->random, LIVE);
	pthread_mutex_lock(&lock);
	CUdeviceptr other = live[place];
	live[place] = p;
	pthread_mutex_unlock(&lock);
	if (r == CUDA_SUCCESS && other)
		r = cu.cuMemFree_v2(other); /* its kernels may well be running, or not even have begun */
	return r;
}

static void *churn_main(void *arg)
{
	struct churn *c = arg;
	c->result = cu.cuCtxSetCurrent(fx.ctx);
	for (unsigned i = 0; i < c->rounds && c->result == CUDA_SUCCESS; i++)
		c->result = churn_once(c);
	return NULL;
}

static const char *churn(unsigned threads, unsigned rounds, unsigned max_us)
{
	struct churn c[8];
	STEP(tags_begin());
	for (unsigned i = 0; i < threads; i++) {
		c[i] = (struct churn){.random = random_next(&case_random) | 1, .rounds = rounds, .max_us = max_us};
		if (pthread_create(&c[i].thread, NULL, churn_main, &c[i]))
			return case_skip("no thread");
	}
	CUresult r = CUDA_SUCCESS;
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(c[i].thread, NULL);
		if (r == CUDA_SUCCESS)
			r = c[i].result;
	}
	for (int i = 0; i < LIVE; i++) {
		if (live[i] && r == CUDA_SUCCESS)
			r = cu.cuMemFree_v2(live[i]);
		live[i] = 0;
	}
	TRY(r);
	return tags_end();
}

static const char *early_one_thread(void)
{
	return churn(1, 300, 2000);
}

static const char *early_threads(void)
{
	return churn(6, 80, 2000);
}

/* Freed and taken again at once, by a stream that knows nothing of the first. */
static const char *early_at_once(void)
{
	STEP(tags_begin());
	for (int from = 0; from < STREAMS; from++)
		for (int to = 0; to < STREAMS; to++) {
			CUdeviceptr p, q;
			TRY(cu.cuMemAlloc_v2(&p, 4 * MIB));
			TRY(tags_use(fx.stream[from], p, 4 * MIB, 3000));
			TRY(cu.cuMemFree_v2(p));
			TRY(cu.cuMemAlloc_v2(&q, 4 * MIB));
			TRY(tags_use(fx.stream[to], q, 4 * MIB, 2250));
			TRY(cu.cuMemFree_v2(q));
		}
	return tags_end();
}

/* The block's user is a graph. */
static const char *early_graph(void)
{
	NEED(cuGraphInstantiateWithFlags);
	STEP(tags_begin());
	for (int i = 0; i < 8; i++) {
		CUdeviceptr p, q;
		CUgraph graph;
		CUgraphExec exec;
		CUstream s = fx.stream[i % 2 ? STREAM_NB : STREAM_A];
		TRY(cu.cuMemAlloc_v2(&p, 2 * MIB));
		TRY(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
		CUresult used = tags_use(s, p, 2 * MIB, 4000);
		TRY(cu.cuStreamEndCapture(s, &graph));
		TRY(used);
		TRY(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
		TRY(cu.cuGraphLaunch(exec, s));
		TRY(cu.cuMemFree_v2(p));
		TRY(cu.cuMemAlloc_v2(&q, 2 * MIB));
		TRY(tags_use(fx.stream[STREAM_NB2], q, 2 * MIB, 3000));
		TRY(cu.cuMemFree_v2(q));
		TRY(cu.cuStreamSynchronize(s));
		TRY(cu.cuGraphExecDestroy(exec));
		TRY(cu.cuGraphDestroy(graph));
	}
	return tags_end();
}

/* cuMemFree returns when the context's work is done; `deferred` is for programs that do not
 * count on it, and there it returns at once. */
static const char *free_waits(void)
{
	uint64_t least = UINT64_MAX;
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < STREAMS; i++) {
			CUdeviceptr p;
			TRY(cu.cuMemAlloc_v2(&p, 3 * MIB));
			TRY(launch_spin(fx.stream[i], 25));
			uint64_t started = now_ns();
			TRY(cu.cuMemFree_v2(p));
			uint64_t took = now_ns() - started;
			least = took < least ? took : least;
			CUresult r = cu.cuStreamQuery(fx.stream[i]);
			if (fx.mode != MODE_DEFERRED && r != CUDA_SUCCESS)
				return case_fail("stream %d: %s after cuMemFree", i, cuda_dl_error(r));
			TRY(cu.cuCtxSynchronize());
		}
	case_info("least_us", (double)least / 1e3);
	if (fx.mode == MODE_DEFERRED && least > 5000000)
		return case_fail("cuMemFree never took less than %.1f ms behind a kernel", (double)least / 1e6);
	return NULL;
}

const struct gpu_case early_cases[] = {
	{"early_at_once", early_at_once}, {"early_one_thread", early_one_thread},
	{"early_threads", early_threads}, {"early_graph", early_graph},
	{"free_waits", free_waits},       {NULL, NULL},
};
