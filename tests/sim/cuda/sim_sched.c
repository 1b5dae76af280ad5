/*
 * sim_sched.c - operations and the threads that run them.
 *
 * Every stream has a thread of its own (started by its first operation) that takes
 * operations from its queue in order, waits for the ones they depend on, and runs
 * them. Order between streams exists only as such dependencies: events, and the
 * legacy default stream's implicit ones.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "sim_ipc.h"

#define TIMER_SLACK_NS 1000

uint64_t sim_now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sim_op_put(struct sim_op *op)
{
	if (!op || --op->refs)
		return;
	for (int i = 0; i < op->dep_count; i++)
		sim_op_put(op->deps[i]);
	free(op->deps);
	sim_cmd_put(op->cmd);
	free(op);
}

struct sim_waiter { /* a thread's own: it waits for one operation at a time */
	pthread_cond_t wake;
	struct sim_waiter *next;
};

void sim_op_wait(struct sim_op *op)
{
	static __thread struct sim_waiter me = {.wake = PTHREAD_COND_INITIALIZER};
	if (op->done)
		return;
	me.next = op->waiters;
	op->waiters = &me;
	while (!op->done)
		pthread_cond_wait(&me.wake, &sim.lock);
}

static bool op_depend(struct sim_op *op, struct sim_op *on)
{
	if (!on || on->done)
		return true;
	if (op->dep_count == op->dep_room) {
		int room = op->dep_room ? op->dep_room * 2 : 4;
		struct sim_op **deps = realloc(op->deps, (size_t)room * sizeof *deps);
		if (!deps)
			return false;
		op->deps = deps;
		op->dep_room = room;
	}
	op->deps[op->dep_count++] = sim_op_get(on);
	return true;
}

/* Injected delay before an operation, from the seed. */
static void jitter(void)
{
	if (!sim_conf.jitter_us)
		return;
	uint64_t x = __atomic_add_fetch(&sim.jitter_state, 0x9e3779b97f4a7c15u, __ATOMIC_RELAXED);
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	usleep((useconds_t)((x ^ (x >> 31)) % (sim_conf.jitter_us + 1)));
}

static void stream_run_head(struct sim_stream *s)
{
	struct sim_op *op = s->head;
	for (int i = 0; i < op->dep_count; i++) {
		sim_op_wait(op->deps[i]);
		sim_op_put(op->deps[i]);
		op->deps[i] = NULL;
	}
	op->dep_count = 0;
	sim_unlock();
	jitter();
	CUresult result = CUDA_SUCCESS;
	uint64_t start = op->trace ? sim_trace_now() : 0;
	bool run = false;
	/* After a fatal error nothing more runs; the host sees the queue drain. */
	if (__atomic_load_n(&s->ctx->sticky, __ATOMIC_ACQUIRE) == CUDA_SUCCESS) {
		result = sim_cmd_run(s->ctx, op);
		run = true;
	}
	if (op->trace)
		op->trace->done(op->trace, run ? start : 0, run ? sim_trace_now() : 0);
	if (result != CUDA_SUCCESS)
		sim_ctx_stick(s->ctx, result);
	if (op->cmd->kind == CMD_RECORD_IPC) /* other processes see the queue drain too */
		sim_ipc_complete(op->cmd->ipc.event, op->cmd->ipc.ticket);
	sim_lock();
	s->head = op->next;
	if (!s->head)
		s->tail = NULL;
	op->next = NULL;
	op->done_ns = sim_now_ns();
	op->done = true;
	for (struct sim_waiter *w = op->waiters, *next; w; w = next) {
		next = w->next;
		pthread_cond_signal(&w->wake);
	}
	op->waiters = NULL;
	sim_op_put(op);
}

/* The stream leaves its context's list; the structure stays (stale handles). */
static void stream_unlink(struct sim_stream *s)
{
	for (struct sim_stream **p = &s->ctx->streams; *p; p = &(*p)->next) {
		if (*p == s) {
			*p = s->next;
			break;
		}
	}
	sim_op_put(s->last);
	s->last = NULL;
	s->next = sim.dead_streams;
	sim.dead_streams = s;
}

static void *stream_main(void *arg)
{
	struct sim_stream *s = arg;
	prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS); /* short delays are to be short */
	sim_lock();
	for (;;) {
		while (!s->head && !s->dying)
			pthread_cond_wait(&s->wake, &sim.lock);
		if (!s->head)
			break;
		stream_run_head(s);
	}
	stream_unlink(s);
	sim_unlock();
	return NULL;
}

static bool stream_start(struct sim_stream *s)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	sigfillset(&all);
	/* The driver fills pageable memory on the caller's thread, where the program's own fault
	 * handlers work; here the stream's thread does, so they must work there. */
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	s->has_thread = pthread_create(&thread, &attr, stream_main, s) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return s->has_thread;
}

void sim_stream_destroy(struct sim_stream *s)
{
	sim_capture_stream_gone(s);
	s->magic = 0;
	s->dying = true;
	if (!s->legacy && !s->per_thread && !s->hidden)
		sim.streams--;
	if (s->has_thread)
		pthread_cond_signal(&s->wake);
	else
		stream_unlink(s);
}

/* What the rules of the legacy default stream add. */
static bool implicit_deps(struct sim_stream *s, struct sim_op *op)
{
	bool ok = true;
	if (s->legacy) {
		for (struct sim_stream *other = s->ctx->streams; other; other = other->next)
			if (other->blocking && other != s)
				ok = op_depend(op, other->last) && ok;
	} else if (s->blocking) {
		ok = op_depend(op, s->ctx->legacy->last);
	}
	return ok;
}

bool sim_ctx_bar(struct sim_ctx *ctx, struct sim_op *op)
{
	struct sim_op **list = realloc(ctx->barriers, (size_t)(ctx->barrier_count + 1) * sizeof(*list));
	if (!list)
		return false;
	ctx->barriers = list;
	list[ctx->barrier_count++] = sim_op_get(op);
	return true;
}

/* What cuCtxWaitEvent adds; barriers that are behind us go. Hidden streams carry what a wait
 * of theirs must not hold up. */
static bool barrier_deps(struct sim_stream *s, struct sim_op *op)
{
	struct sim_ctx *ctx = s->ctx;
	bool ok = true;
	int kept = 0;
	for (int i = 0; i < ctx->barrier_count; i++) {
		struct sim_op *barrier = ctx->barriers[i];
		if (barrier->done) {
			sim_op_put(barrier);
			continue;
		}
		ok = (s->hidden || op_depend(op, barrier)) && ok;
		ctx->barriers[kept++] = barrier;
	}
	ctx->barrier_count = kept;
	return ok;
}

static void wait_out_stall(struct sim_device *dev)
{
	uint64_t begin = sim_now_ns();
	while (dev->stall)
		pthread_cond_wait(&sim.stall_ended, &sim.lock);
	uint64_t delay = sim_now_ns() - begin;
	if (delay > sim.launch_delay_ns)
		sim.launch_delay_ns = delay;
}

CUresult sim_submit_after(struct sim_stream *s, struct sim_cmd *cmd, struct sim_op **deps, int count,
						  struct sim_op **out)
{
	if (out)
		*out = NULL;
	/* A free or unregister in another thread holds launches back, as the real one does. */
	if (s->ctx->dev->stall)
		wait_out_stall(s->ctx->dev);
	CUresult sticky = __atomic_load_n(&s->ctx->sticky, __ATOMIC_ACQUIRE);
	if (sticky != CUDA_SUCCESS) {
		sim_cmd_put(cmd);
		return sticky;
	}
	if (s->capture)
		return sim_capture_add(s, cmd);
	if (s->legacy && sim_capture_implicit(s->ctx)) {
		sim_cmd_put(cmd);
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	struct sim_op *op = calloc(1, sizeof *op);
	if (!op) {
		sim_cmd_put(cmd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	op->refs = 2; /* the queue, and stream->last */
	op->cmd = cmd;
	op->stream = s;
	op->seq = ++s->seq;
	bool ok = implicit_deps(s, op) && barrier_deps(s, op) && (s->has_thread || stream_start(s));
	for (int i = 0; i < count; i++)
		ok = op_depend(op, deps[i]) && ok;
	if (!ok) {
		op->refs = 1;
		sim_op_put(op);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (s->tail)
		s->tail->next = op;
	else
		s->head = op;
	s->tail = op;
	sim_op_put(s->last);
	s->last = op;
	op->trace = sim_trace_submit(s, cmd);
	pthread_cond_signal(&s->wake);
	if (out)
		*out = sim_op_get(op);
	return CUDA_SUCCESS;
}

CUresult sim_submit(struct sim_stream *s, struct sim_cmd *cmd, struct sim_op **out)
{
	return sim_submit_after(s, cmd, NULL, 0, out);
}

/* ---- waiting for streams, contexts, devices ---- */

static bool covers(const struct sim_stream *waited, const struct sim_stream *s)
{
	return s == waited || (waited->legacy && s->blocking);
}

bool sim_stream_idle(struct sim_stream *s)
{
	for (struct sim_stream *other = s->ctx->streams; other; other = other->next)
		if (covers(s, other) && other->last && !other->last->done)
			return false;
	return true;
}

/* Waits for the newest operations, as of now, of ctx's streams (those that a wait on
 * `only` covers, when it is given). True when there was something to wait for. */
static bool drain(struct sim_ctx *ctx, struct sim_stream *only)
{
	struct sim_op *joint = calloc(1, sizeof *joint); /* holds the list; never queued */
	if (!joint)
		abort();
	joint->refs = 1;
	for (struct sim_stream *s = ctx->streams; s; s = s->next)
		if ((!only || covers(only, s)) && !op_depend(joint, s->last))
			abort();
	for (int i = 0; i < joint->dep_count; i++)
		sim_op_wait(joint->deps[i]);
	bool waited = joint->dep_count > 0;
	sim_op_put(joint);
	return waited;
}

void sim_stream_drain(struct sim_stream *s)
{
	drain(s->ctx, s);
}

CUresult sim_ctx_drain(struct sim_ctx *ctx)
{
	drain(ctx, NULL);
	return __atomic_load_n(&ctx->sticky, __ATOMIC_ACQUIRE);
}

struct sim_stream *sim_ctx_hidden(struct sim_ctx *ctx, struct sim_stream **at)
{
	if (!*at) {
		*at = sim_stream_new(ctx, CU_STREAM_NON_BLOCKING);
		if (*at)
			(*at)->hidden = true;
	}
	return *at;
}

CUresult sim_ctx_join(struct sim_ctx *ctx, struct sim_cmd *cmd, struct sim_op **out)
{
	int count = 0;
	sim_ctx_hidden(ctx, &ctx->joint);
	for (struct sim_stream *s = ctx->streams; s; s = s->next)
		count++;
	struct sim_op **deps = ctx->joint ? calloc((size_t)count, sizeof *deps) : NULL;
	if (!deps) {
		sim_cmd_put(cmd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	int n = 0;
	for (struct sim_stream *s = ctx->streams; s; s = s->next)
		if (s->last)
			deps[n++] = sim_op_get(s->last);
	CUresult result = sim_submit_after(ctx->joint, cmd, deps, n, out);
	for (int i = 0; i < n; i++)
		sim_op_put(deps[i]);
	free(deps);
	return result;
}

bool sim_device_drain(struct sim_device *dev)
{
	bool waited = false;
	for (struct sim_ctx *ctx = sim.contexts; ctx; ctx = ctx->next)
		if (ctx->dev == dev)
			waited = drain(ctx, NULL) || waited;
	return waited;
}

void sim_device_stop_and_drain(struct sim_device *dev)
{
	dev->stall++;
	sim.free_waits += sim_device_drain(dev);
	dev->stall--;
	pthread_cond_broadcast(&sim.stall_ended);
}

bool sim_pending_use(uintptr_t base, size_t size)
{
	for (struct sim_ctx *ctx = sim.contexts; ctx; ctx = ctx->next)
		for (struct sim_stream *s = ctx->streams; s; s = s->next)
			for (struct sim_op *op = s->head; op; op = op->next)
				if (sim_cmd_names(op->cmd, base, size))
					return true;
	return false;
}
