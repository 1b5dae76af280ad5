/*
 * capture.c - stream captures in this and in other threads.
 *
 * What the driver answers to a copy during a capture is its own business: the cases note it, and
 * bare and preloaded must note the same. Where it succeeds, the bytes are checked.
 */
#include "order.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N (12 * MIB)

static const struct {
	const char *name;
	CUstreamCaptureMode mode;
} modes[] = {
	{"global", CU_STREAM_CAPTURE_MODE_GLOBAL},
	{"thread_local", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
	{"relaxed", CU_STREAM_CAPTURE_MODE_RELAXED},
};
#define MODES (sizeof(modes) / sizeof(modes[0]))

static void note(const char *mode, const char *what, CUresult r)
{
	char key[64];
	snprintf(key, sizeof(key), "%s.%s", mode, what);
	case_note_status(key, r);
}

/* Replays `graph` with a source that was rewritten after the capture: a copy node keeps the
 * address, not the bytes. */
static const char *replay_reads_anew(CUgraph graph, unsigned char *p, uint32_t seed)
{
	CUgraphExec exec;
	TRY(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	pattern_fill(p, N, seed);
	TRY(cu.cuGraphLaunch(exec, fx.a));
	TRY(cu.cuStreamSynchronize(fx.a));
	STEP(device_is_pattern(fx.buf, N, seed));
	TRY(cu.cuGraphExecDestroy(exec));
	return NULL;
}

static const char *copy_in_capture(unsigned char *p, size_t m)
{
	CUgraph graph = NULL;
	pattern_fill(p, N, 1);
	TRY(cu.cuStreamBeginCapture_v2(fx.a, modes[m].mode));
	CUresult copied = cu.cuMemcpyHtoDAsync_v2(fx.buf, p, N, fx.a);
	CUresult ended = cu.cuStreamEndCapture(fx.a, &graph);
	note(modes[m].name, "copy", copied);
	note(modes[m].name, "end", ended);
	const char *why = NULL;
	if (copied == CUDA_SUCCESS && ended == CUDA_SUCCESS)
		why = replay_reads_anew(graph, p, 70 + (uint32_t)m);
	if (graph)
		cu.cuGraphDestroy(graph);
	return why;
}

static const char *capture_of_copies(void)
{
	NEED(cuGraphInstantiateWithFlags);
	unsigned char *p = malloc(N);
	if (!p)
		return case_skip("no memory");
	const char *why = NULL;
	for (size_t m = 0; m < MODES && !why; m++)
		why = copy_in_capture(p, m);
	if (!why) { /* and afterwards copies are as they were */
		pattern_fill(p, N, 80);
		CUresult r = cu.cuMemcpyHtoDAsync_v2(fx.buf, p, N, fx.a);
		memset(p, 0xA5, N);
		why = r ? case_fail("%s", cuda_dl_error(r)) : device_is_pattern(fx.buf, N, 80);
	}
	free(p);
	return why;
}

/* A stream that joined a capture by an event captures too, without a begin of its own. */
static const char *capture_joined_stream(void)
{
	NEED(cuGraphInstantiateWithFlags);
	CUevent fork_event, join_event;
	CUgraph graph = NULL;
	unsigned char *p = malloc(N);
	if (!p)
		return case_skip("no memory");
	pattern_fill(p, N, 1);
	TRY(cu.cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
	TRY(cu.cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
	TRY(cu.cuStreamBeginCapture_v2(fx.a, CU_STREAM_CAPTURE_MODE_RELAXED));
	TRY(launch_fill(fx.a, fx.buf, 16, 1));
	TRY(cu.cuEventRecord(fork_event, fx.a));
	TRY(cu.cuStreamWaitEvent(fx.b, fork_event, 0));
	CUresult copied = cu.cuMemcpyHtoDAsync_v2(fx.buf, p, N, fx.b);
	CUresult joined = cu.cuEventRecord(join_event, fx.b);
	if (joined == CUDA_SUCCESS)
		joined = cu.cuStreamWaitEvent(fx.a, join_event, 0);
	CUresult ended = cu.cuStreamEndCapture(fx.a, &graph);
	case_note_status("copy", copied);
	case_note_status("join", joined);
	case_note_status("end", ended);
	const char *why = NULL;
	if (copied == CUDA_SUCCESS && joined == CUDA_SUCCESS && ended == CUDA_SUCCESS)
		why = replay_reads_anew(graph, p, 90);
	if (graph)
		cu.cuGraphDestroy(graph);
	cu.cuEventDestroy_v2(fork_event);
	cu.cuEventDestroy_v2(join_event);
	free(p);
	return why;
}

/* ---- a capture in another thread --------------------------------------------------------- */

struct other {
	CUstreamCaptureMode mode;
	pthread_barrier_t barrier; /* capture open; copies done */
	CUresult begun, launched, ended;
	CUgraph graph;
};

static void *other_main(void *arg)
{
	struct other *o = arg;
	cu.cuCtxSetCurrent(fx.ctx);
	o->begun = cu.cuStreamBeginCapture_v2(fx.nb, o->mode);
	o->launched = launch_fill(fx.nb, fx.buf2, 16, 1);
	pthread_barrier_wait(&o->barrier);
	pthread_barrier_wait(&o->barrier);
	o->ended = cu.cuStreamEndCapture(fx.nb, &o->graph);
	return NULL;
}

enum form { H2D_ASYNC, H2D_SYNC, D2H_ASYNC, D2H_SYNC, FORMS };
static const char *const form_names[] = {"h2d_async", "h2d_sync", "d2h_async", "d2h_sync"};

static CUresult copy_form(enum form f, unsigned char *p)
{
	switch (f) {
	case H2D_ASYNC: return cu.cuMemcpyHtoDAsync_v2(fx.buf, p, N, fx.a);
	case H2D_SYNC: return cu.cuMemcpyHtoD_v2(fx.buf, p, N);
	case D2H_ASYNC: return cu.cuMemcpyDtoHAsync_v2(p, fx.buf, N, fx.a);
	default: return cu.cuMemcpyDtoH_v2(p, fx.buf, N);
	}
}

static const char *copy_beside_capture(size_t m, enum form f, unsigned char *p)
{
	struct other o = {.mode = modes[m].mode};
	pthread_t t;
	char what[48];
	const uint32_t seed = 200 + (uint32_t)m * FORMS + f;
	bool h2d = f == H2D_ASYNC || f == H2D_SYNC;
	if (h2d)
		pattern_fill(p, N, seed);
	else
		STEP(device_write_pattern(fx.buf, N, seed));
	pthread_barrier_init(&o.barrier, NULL, 2);
	if (pthread_create(&t, NULL, other_main, &o))
		return case_skip("no thread");
	pthread_barrier_wait(&o.barrier);
	CUresult r = copy_form(f, p);
	if (h2d)
		memset(p, 0xA5, N);
	int64_t off = r == CUDA_SUCCESS && !h2d ? pattern_check(p, N, seed) : -1;
	pthread_barrier_wait(&o.barrier);
	pthread_join(t, NULL);
	pthread_barrier_destroy(&o.barrier);
	snprintf(what, sizeof(what), "%s.copy", form_names[f]);
	note(modes[m].name, what, r);
	snprintf(what, sizeof(what), "%s.end", form_names[f]);
	note(modes[m].name, what, o.ended);
	if (o.graph)
		cu.cuGraphDestroy(o.graph);
	if (off >= 0)
		return case_fail("%s beside a %s capture: host byte %lld", form_names[f], modes[m].name,
						 (long long)off);
	if (r == CUDA_SUCCESS && h2d)
		return device_is_pattern(fx.buf, N, seed);
	return NULL;
}

static const char *capture_in_other_thread(void)
{
	unsigned char *p = malloc(N);
	if (!p)
		return case_skip("no memory");
	const char *why = NULL;
	for (size_t m = 0; m < MODES && !why; m++)
		for (enum form f = 0; f < FORMS && !why; f++)
			why = copy_beside_capture(m, f, p);
	free(p);
	return why;
}

const struct gpu_case capture_cases[] = {
	{"capture_of_copies", capture_of_copies},
	{"capture_joined_stream", capture_joined_stream},
	{"capture_in_other_thread", capture_in_other_thread},
	{NULL, NULL},
};
