/*
 * captures.c - allocating and freeing while a stream captures, in this or in another thread.
 *
 * What the driver answers is its own business: the cases note it. Where it succeeds the bytes
 * are checked, at the capture and at each replay.
 */
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define N (4 * MIB)
#define WORDS (N / 4)

static const struct {
	const char *name;
	CUstreamCaptureMode mode;
} modes[] = {
	{"global", CU_STREAM_CAPTURE_MODE_GLOBAL},
	{"thread_local", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
	{"relaxed", CU_STREAM_CAPTURE_MODE_RELAXED},
};
#define MODES (sizeof(modes) / sizeof(modes[0]))

static void note(size_t m, const char *what, CUresult r)
{
	char key[64];
	snprintf(key, sizeof(key), "%s.%s", modes[m].name, what);
	case_note_status(key, r);
}

/* Leaves a block of N bytes for the cache, if there is one. */
static const char *warm(void)
{
	CUdeviceptr p;
	TRY(cu.cuMemAlloc_v2(&p, N));
	TRY(cu.cuMemFree_v2(p));
	return NULL;
}

static const char *replay(CUgraph graph, CUstream s, int times)
{
	CUgraphExec exec;
	TRY(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < times; i++)
		TRY(cu.cuGraphLaunch(exec, s));
	TRY(cu.cuStreamSynchronize(s));
	TRY(cu.cuGraphExecDestroy(exec));
	return NULL;
}

static const char *alloc_in_capture(void)
{
	NEED(cuGraphInstantiateWithFlags);
	CUstream a = fx.stream[STREAM_A];
	for (size_t m = 0; m < MODES; m++) {
		CUdeviceptr p = 0;
		CUgraph graph = NULL;
		STEP(warm());
		TRY(cu.cuStreamBeginCapture_v2(a, modes[m].mode));
		CUresult allocated = cu.cuMemAlloc_v2(&p, N);
		CUresult filled = allocated ? CUDA_SUCCESS : launch_fill(a, p, WORDS, 5 + (uint32_t)m);
		CUresult ended = cu.cuStreamEndCapture(a, &graph);
		note(m, "alloc", allocated);
		note(m, "end", ended);
		const char *why = NULL;
		if (!allocated && !filled && !ended && !(why = replay(graph, a, 2)))
			why = device_is(p, WORDS, 5 + (uint32_t)m);
		if (graph)
			cu.cuGraphDestroy(graph);
		STEP(why);
		if (!allocated)
			TRY(cu.cuMemFree_v2(p));
	}
	return warm();
}

/* The freed block's kernels still run; in a relaxed capture the next user gets a block at once. */
static const char *free_in_capture(void)
{
	CUstream a = fx.stream[STREAM_A];
	for (size_t m = 0; m < MODES; m++) {
		CUdeviceptr p, q = 0;
		CUgraph graph = NULL;
		STEP(tags_begin());
		STEP(warm());
		TRY(cu.cuMemAlloc_v2(&p, N));
		TRY(tags_use(fx.stream[STREAM_NB], p, N, 5000));
		TRY(cu.cuStreamBeginCapture_v2(a, modes[m].mode));
		CUresult freed = cu.cuMemFree_v2(p);
		CUresult taken = cu.cuMemAlloc_v2(&q, N);
		CUresult used = taken ? CUDA_SUCCESS : tags_use(fx.stream[STREAM_NB2], q, N, 3750);
		CUresult ended = cu.cuStreamEndCapture(a, &graph);
		note(m, "free", freed);
		note(m, "alloc", taken);
		note(m, "end", ended);
		if (graph)
			cu.cuGraphDestroy(graph);
		TRY(used);
		STEP(tags_end());
		if (freed)
			TRY(cu.cuMemFree_v2(p));
		if (!taken)
			TRY(cu.cuMemFree_v2(q));
	}
	return warm();
}

/* ---- a capture in another thread --------------------------------------------------------- */

struct other {
	CUstreamCaptureMode mode;
	pthread_barrier_t barrier; /* capture open; the main thread is done */
	CUdeviceptr block;
	CUresult begun, launched, ended;
	CUgraph graph;
};

static void *other_main(void *arg)
{
	struct other *o = arg;
	CUstream s = fx.stream[STREAM_B];
	cu.cuCtxSetCurrent(fx.ctx);
	o->begun = cu.cuStreamBeginCapture_v2(s, o->mode);
	o->launched = launch_fill(s, o->block, WORDS, 31);
	pthread_barrier_wait(&o->barrier);
	pthread_barrier_wait(&o->barrier);
	o->ended = cu.cuStreamEndCapture(s, &o->graph);
	return NULL;
}

/* Frees and allocations of every kind while it is open. */
static const char *beside_capture(size_t m, CUdeviceptr p)
{
	CUdeviceptr q = 0, r = 0;
	CUstream nb2 = fx.stream[STREAM_NB2];
	CUresult freed = cu.cuMemFree_v2(p);
	CUresult taken = cu.cuMemAlloc_v2(&q, N);
	CUresult used = taken ? CUDA_SUCCESS : tags_use(nb2, q, N, 3750);
	CUresult again = taken ? CUDA_SUCCESS : cu.cuMemFree_v2(q);
	CUresult async = cu.cuMemAllocAsync(&r, N, nb2);
	if (!async && !used)
		used = tags_use(nb2, r, N, 200);
	CUresult async_free = async ? CUDA_SUCCESS : cu.cuMemFreeAsync(r, nb2);
	note(m, "free", freed);
	note(m, "alloc", taken);
	note(m, "free_again", again);
	note(m, "alloc_async", async);
	note(m, "free_async", async_free);
	TRY(used);
	if (freed)
		note(m, "free_refused_then", cu.cuMemFree_v2(p));
	return NULL;
}

static const char *capture_in_other_thread(void)
{
	NEED(cuGraphInstantiateWithFlags);
	for (size_t m = 0; m < MODES; m++) {
		struct other o = {.mode = modes[m].mode};
		CUdeviceptr p;
		pthread_t t;
		STEP(tags_begin());
		STEP(warm());
		TRY(cu.cuMemAlloc_v2(&o.block, N));
		TRY(cu.cuMemAlloc_v2(&p, N));
		TRY(tags_use(fx.stream[STREAM_NB], p, N, 5000));
		pthread_barrier_init(&o.barrier, NULL, 2);
		if (pthread_create(&t, NULL, other_main, &o))
			return case_skip("no thread");
		pthread_barrier_wait(&o.barrier);
		const char *why = beside_capture(m, p);
		pthread_barrier_wait(&o.barrier);
		pthread_join(t, NULL);
		pthread_barrier_destroy(&o.barrier);
		note(m, "begin", o.begun);
		note(m, "launch", o.launched);
		note(m, "end", o.ended);
		if (!why && !o.ended && !(why = replay(o.graph, fx.stream[STREAM_B], 2)))
			why = device_is(o.block, WORDS, 31);
		if (o.graph)
			cu.cuGraphDestroy(o.graph);
		STEP(why);
		TRY(cu.cuMemFree_v2(o.block));
		STEP(tags_end());
	}
	return warm();
}

/* ---- allocations that are graph nodes ------------------------------------------------------ */

static const char *note_nodes(CUgraph graph)
{
	CUgraphNode nodes[64];
	size_t n = 64, kinds[2] = {0};
	TRY(cu.cuGraphGetNodes(graph, nodes, &n));
	for (size_t i = 0; i < n && i < 64; i++) {
		CUgraphNodeType type;
		TRY(cu.cuGraphNodeGetType(nodes[i], &type));
		kinds[0] += type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
		kinds[1] += type == CU_GRAPH_NODE_TYPE_MEM_FREE;
	}
	case_note_number("alloc_nodes", (long long)kinds[0]);
	case_note_number("free_nodes", (long long)kinds[1]);
	return NULL;
}

static const char *capture_alloc_async(bool freed_inside)
{
	NEED(cuGraphGetNodes);
	NEED(cuGraphInstantiateWithFlags);
	CUstream a = fx.stream[STREAM_A];
	for (size_t m = 0; m < MODES; m++) {
		CUdeviceptr p = 0, out;
		CUgraph graph = NULL;
		CUgraphExec exec;
		TRY(cu.cuMemAlloc_v2(&out, N));
		TRY(cu.cuMemAllocAsync(&p, N, a)); /* warm: what is freed here must not be handed out below */
		TRY(cu.cuMemFreeAsync(p, a));
		TRY(cu.cuStreamBeginCapture_v2(a, modes[m].mode));
		CUresult r = cu.cuMemAllocAsync(&p, N, a);
		note(m, "alloc", r);
		r = r ? r : launch_fill(a, p, WORDS, 40);
		r = r ? r : launch_add(a, p, WORDS, 2);
		r = r ? r : launch_copy(a, out, p, N);
		if (!r && freed_inside) {
			r = cu.cuMemFreeAsync(p, a);
			note(m, "free", r);
		}
		CUresult ended = cu.cuStreamEndCapture(a, &graph);
		note(m, "end", ended);
		TRY(r);
		TRY(ended);
		STEP(note_nodes(graph));
		TRY(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
		for (int i = 0; i < 3; i++) {
			TRY(cu.cuMemsetD8_v2(out, 0, N));
			TRY(cu.cuGraphLaunch(exec, a));
			if (!freed_inside) { /* its memory is the program's until it frees it */
				TRY(launch_add(a, p, WORDS, 1));
				STEP(device_is(p, WORDS, 43));
				note(m, "free_outside", cu.cuMemFreeAsync(p, a));
			}
			TRY(cu.cuStreamSynchronize(a));
			STEP(device_is(out, WORDS, 42));
		}
		TRY(cu.cuGraphExecDestroy(exec));
		TRY(cu.cuGraphDestroy(graph));
		TRY(cu.cuMemFree_v2(out));
	}
	return NULL;
}

static const char *graph_owns_block(void)
{
	return capture_alloc_async(true);
}

static const char *graph_hands_block_out(void)
{
	return capture_alloc_async(false);
}

/* A block from before the capture, freed inside. */
static const char *free_async_in_capture(void)
{
	CUstream a = fx.stream[STREAM_A];
	for (size_t m = 0; m < MODES; m++) {
		CUdeviceptr p;
		CUgraph graph = NULL;
		TRY(cu.cuMemAllocAsync(&p, N, a));
		TRY(cu.cuStreamSynchronize(a));
		TRY(cu.cuStreamBeginCapture_v2(a, modes[m].mode));
		CUresult freed = cu.cuMemFreeAsync(p, a);
		CUresult ended = cu.cuStreamEndCapture(a, &graph);
		note(m, "free", freed);
		note(m, "end", ended);
		if (graph)
			cu.cuGraphDestroy(graph);
		if (freed || ended)
			TRY(cu.cuMemFreeAsync(p, a));
		TRY(cu.cuStreamSynchronize(a));
	}
	return NULL;
}

/* While one stream captures, another of the same thread allocates, uses and frees. */
static const char *other_stream_of_capturing_thread(void)
{
	CUstream a = fx.stream[STREAM_A], nb = fx.stream[STREAM_NB];
	for (size_t m = 0; m < MODES; m++) {
		CUdeviceptr p = 0;
		CUgraph graph = NULL;
		STEP(tags_begin());
		TRY(cu.cuMemAllocAsync(&p, N, nb));
		TRY(tags_use(nb, p, N, 500));
		TRY(cu.cuStreamBeginCapture_v2(a, modes[m].mode));
		CUresult freed = cu.cuMemFreeAsync(p, nb);
		CUresult taken = cu.cuMemAllocAsync(&p, N, nb);
		CUresult used = taken ? CUDA_SUCCESS : tags_use(nb, p, N, 500);
		CUresult ended = cu.cuStreamEndCapture(a, &graph);
		note(m, "free", freed);
		note(m, "alloc", taken);
		note(m, "end", ended);
		if (graph)
			cu.cuGraphDestroy(graph);
		TRY(used);
		if (freed || !taken)
			TRY(cu.cuMemFreeAsync(p, nb));
		STEP(tags_end());
	}
	return NULL;
}

const struct gpu_case capture_cases[] = {
	{"alloc_in_capture", alloc_in_capture},
	{"free_in_capture", free_in_capture},
	{"capture_in_other_thread", capture_in_other_thread},
	{"graph_owns_block", graph_owns_block},
	{"graph_hands_block_out", graph_hands_block_out},
	{"free_async_in_capture", free_async_in_capture},
	{"other_stream_of_capturing_thread", other_stream_of_capturing_thread},
	{NULL, NULL},
};
