/*
 * trial_steps.c - the steps of a trial that are not NCCL's.
 */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "trial_rank.h"
#include "util.h"

#define me trial_me

static void *host_at(uint32_t place)
{
	return (void *)(uintptr_t)trial_at(place);
}

/* ---- host functions ---- */

/* One a step: a graph calls it again and again. */
static struct host_call {
	int stream, flag;
	const void *data;
	size_t bytes;
} host_calls[TRIAL_STEPS];

static void host_function(void *user)
{
	const struct host_call *call = user;

	if (call->flag >= 0) {
		__atomic_store_n(&me.page->flag[call->flag], 1, __ATOMIC_SEQ_CST);
		return;
	}
	/* One stream's functions run one after the other. */
	uint64_t h = trial_hash(me.seen_on[call->stream], call->data, call->bytes);
	me.seen_on[call->stream] = h + (uint64_t)(call - host_calls);
}

static bool launch_host(const struct trial_step *s, int flag)
{
	long step = s - me.trial.rank[me.rank].step;
	struct host_call *call = &host_calls[step];

	*call = (struct host_call){s->stream, flag, flag < 0 ? host_at(s->from) : NULL, s->bytes};
	return GOOD(cu.cuLaunchHostFunc(me.stream[s->stream], host_function, call));
}

/* ---- steps ---- */

static void work_us(uint64_t us)
{
	volatile uint64_t sum = 0;

	for (uint64_t end = now_ns() + us * 1000; now_ns() < end;)
		sum = sum + 1;
}

static bool pageable(const struct trial_step *s)
{
	if (s->count) {
		pattern_fill(me.host, s->bytes, s->value);
		return GOOD(cu.cuMemcpyHtoD_v2(trial_at(s->to), me.host, s->bytes));
	}
	if (!GOOD(cu.cuMemcpyDtoH_v2(me.host, trial_at(s->from), s->bytes)))
		return false;
	me.seen = trial_hash(me.seen, me.host, s->bytes);
	return true;
}

static bool device_work(const struct trial_step *s)
{
	CUstream on = me.stream[s->stream];

	switch (s->what) {
	case TRIAL_FILL: return GOOD(launch_fill(on, trial_at(s->to), s->bytes / 4, s->value));
	case TRIAL_ADD: return GOOD(launch_add(on, trial_at(s->to), s->bytes / 4, s->value));
	case TRIAL_COPY: return GOOD(launch_copy(on, trial_at(s->to), trial_at(s->from), s->bytes));
	case TRIAL_MEMSET: return GOOD(cu.cuMemsetD32Async(trial_at(s->to), s->value, s->bytes / 4, on));
	case TRIAL_UPLOAD: return GOOD(cu.cuMemcpyHtoDAsync_v2(trial_at(s->to), host_at(s->from), s->bytes, on));
	case TRIAL_FETCH: return GOOD(cu.cuMemcpyDtoHAsync_v2(host_at(s->to), trial_at(s->from), s->bytes, on));
	case TRIAL_HOST: return launch_host(s, -1);
	case TRIAL_SET_HOST: return launch_host(s, (int)s->value);
	case TRIAL_SPIN: return GOOD(launch_spin_us(on, s->value));
	case TRIAL_SET_KERNEL: return GOOD(launch_fill(on, me.flags + 4 * s->value, 1, 1));
	default: return GOOD(launch_spin_on(on, me.flags + 4 * s->value));
	}
}

static bool stream_anew(const struct trial_step *s)
{
	unsigned flags = s->stream == 3 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;

	return GOOD(cu.cuStreamDestroy_v2(me.stream[s->stream])) &&
		   GOOD(cu.cuStreamCreate(&me.stream[s->stream], flags));
}

static bool poll_stream(const struct trial_step *s, bool until)
{
	for (;;) {
		CUresult r = cu.cuStreamQuery(me.stream[s->stream]);
		if (r == CUDA_SUCCESS || (r == CUDA_ERROR_NOT_READY && !until))
			return true;
		if (r != CUDA_ERROR_NOT_READY)
			return trial_good(r, "cuStreamQuery");
		usleep(100);
	}
}

static bool order(const struct trial_step *s)
{
	CUstream on = me.stream[s->stream];

	switch (s->what) {
	case TRIAL_RECORD: return watch_record(s->event, on, s);
	case TRIAL_WAIT: return GOOD(cu.cuStreamWaitEvent(on, watch_event(s->event), 0));
	case TRIAL_EVENT_SYNC: return watch_ask(s->event, true, false);
	case TRIAL_EVENT_POLL: return watch_ask(s->event, false, true);
	case TRIAL_EVENT_ASK: return watch_ask(s->event, false, false);
	case TRIAL_STREAM_SYNC: return GOOD(cu.cuStreamSynchronize(on));
	case TRIAL_STREAM_POLL:
	case TRIAL_STREAM_ASK: return poll_stream(s, s->what == TRIAL_STREAM_POLL);
	case TRIAL_CTX_SYNC: return GOOD(cu.cuCtxSynchronize());
	case TRIAL_EVENT_ANEW: return watch_anew(s->event, s->value);
	default: return stream_anew(s);
	}
}

static bool die(const struct trial_step *s)
{
	if (!s->value)
		exit(0);
	raise((int)s->value);
	return true;
}

static bool host_side(const struct trial_step *s)
{
	switch (s->what) {
	case TRIAL_PUT: pattern_fill(host_at(s->to), s->bytes, s->value); break;
	case TRIAL_LOOK: me.seen = trial_hash(me.seen, host_at(s->from), s->bytes); break;
	case TRIAL_PAGEABLE: return pageable(s);
	case TRIAL_SET: __atomic_store_n(&me.page->flag[s->value], 1, __ATOMIC_SEQ_CST); break;
	case TRIAL_HEED:
		/* At first as who wants to go on at the same time as the others. */
		for (int looks = 0; !__atomic_load_n(&me.page->flag[s->value], __ATOMIC_SEQ_CST); looks++)
			if (looks < 1000)
				sched_yield();
			else
				usleep(100);
		break;
	case TRIAL_SLEEP: usleep(s->value); break;
	case TRIAL_WORK: work_us(s->value); break;
	case TRIAL_DIE: return die(s);
	case TRIAL_ALLOC: return GOOD(cu.cuMemAlloc_v2(&me.buffer[s->event], TRIAL_BUFFER_UNITS * TRIAL_UNIT));
	case TRIAL_FREE:
		if (!GOOD(cu.cuMemFree_v2(me.buffer[s->event])))
			return false;
		me.buffer[s->event] = 0;
		break;
	default: watch_forget(s->value); break;
	}
	return true;
}

static CUstream capturing; /* valid while is_capturing */
static bool is_capturing;

static bool drop_graph(int g)
{
	CUgraphExec exec = me.exec[g];
	CUgraph graph = me.graph[g];

	me.exec[g] = NULL;
	me.graph[g] = NULL;
	return (!exec || GOOD(cu.cuGraphExecDestroy(exec))) && (!graph || GOOD(cu.cuGraphDestroy(graph)));
}

void trial_drop_all(void)
{
	CUgraph half = NULL;

	if (is_capturing && cu.cuStreamEndCapture(capturing, &half) == CUDA_SUCCESS && half)
		cu.cuGraphDestroy(half);
	is_capturing = false;
	for (int g = 0; g < TRIAL_GRAPHS; g++)
		drop_graph(g);
}

static bool graph(const struct trial_step *s)
{
	static const CUstreamCaptureMode modes[] = {
		CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED};
	CUstream on = me.stream[s->stream];
	int g = s->event;

	switch (s->what) {
	case TRIAL_CAPTURE:
		capturing = on;
		is_capturing = GOOD(cu.cuStreamBeginCapture_v2(on, modes[s->value]));
		return is_capturing;
	case TRIAL_CAPTURED:
		is_capturing = false;
		return GOOD(cu.cuStreamEndCapture(on, &me.graph[g])) &&
			   GOOD(cu.cuGraphInstantiateWithFlags(&me.exec[g], me.graph[g], 0));
	case TRIAL_REPLAY: return GOOD(cu.cuGraphLaunch(me.exec[g], on));
	default: return drop_graph(g);
	}
}

bool trial_take(const struct trial_step *s)
{
	if (s->what == TRIAL_CALL || s->what == TRIAL_GROUP || s->what == TRIAL_END)
		return trial_call(s);
	if (s->what < TRIAL_RECORD)
		return device_work(s);
	if (s->what < TRIAL_PUT)
		return order(s);
	if (s->what < TRIAL_CAPTURE || s->what == TRIAL_UNWATCH)
		return host_side(s);
	return s->what < TRIAL_SPLIT ? graph(s) : trial_call(s);
}
