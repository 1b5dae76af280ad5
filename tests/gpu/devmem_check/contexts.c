/*
 * contexts.c - frees without a context, with another one, after a reset, after a fault, in a
 * forked child.
 */
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N (4 * MIB)

static const char *free_without_context(void)
{
	CUdeviceptr p, q;
	STEP(tags_begin());
	for (int i = 0; i < 6; i++) {
		TRY(cu.cuMemAlloc_v2(&p, N));
		TRY(tags_use(fx.stream[i], p, N, 3000));
		TRY(cu.cuCtxSetCurrent(NULL));
		CUresult r = cu.cuMemFree_v2(p);
		CUcontext now = NULL;
		cu.cuCtxGetCurrent(&now);
		TRY(cu.cuCtxSetCurrent(fx.ctx));
		case_note_status("free", r);
		case_note("current_afterwards", now ? "some" : "none");
		if (r != CUDA_SUCCESS)
			TRY(cu.cuMemFree_v2(p));
		TRY(cu.cuMemAlloc_v2(&q, N));
		TRY(tags_use(fx.stream[STREAM_NB2], q, N, 2250));
		TRY(cu.cuMemFree_v2(q));
	}
	return tags_end();
}

struct freeing {
	CUdeviceptr p;
	bool with_context;
	CUresult result;
};

static void *free_main(void *arg)
{
	struct freeing *f = arg;
	if (f->with_context)
		cu.cuCtxSetCurrent(fx.ctx);
	f->result = cu.cuMemFree_v2(f->p);
	return NULL;
}

static const char *free_in_other_thread(void)
{
	STEP(tags_begin());
	for (int i = 0; i < 12; i++) {
		struct freeing f = {.with_context = i % 2};
		CUdeviceptr q;
		pthread_t t;
		TRY(cu.cuMemAlloc_v2(&f.p, N));
		TRY(tags_use(fx.stream[i % STREAMS], f.p, N, 3000));
		if (pthread_create(&t, NULL, free_main, &f))
			return case_skip("no thread");
		pthread_join(t, NULL);
		case_note_status(f.with_context ? "with_context" : "without", f.result);
		if (f.result != CUDA_SUCCESS)
			TRY(cu.cuMemFree_v2(f.p));
		TRY(cu.cuMemAlloc_v2(&q, N));
		TRY(tags_use(fx.stream[STREAM_NB2], q, N, 2250));
		TRY(cu.cuMemFree_v2(q));
	}
	return tags_end();
}

struct second {
	CUcontext ctx;
	CUstream stream;
	struct kernels kernels;
	CUdeviceptr seen;
};

static const char *second_open(struct second *s)
{
	TRY(cu.cuCtxCreate_v2(&s->ctx, 0, fx.dev));
	STEP(kernels_load(&s->kernels));
	TRY(cu.cuStreamCreate(&s->stream, CU_STREAM_NON_BLOCKING));
	TRY(cu.cuMemAlloc_v2(&s->seen, 4096));
	kernels_current = &s->kernels;
	TRY(launch_fill(s->stream, s->seen, 0, 0)); /* loads what is loaded late */
	TRY(launch_copy(s->stream, s->seen, s->seen, 0));
	TRY(launch_spin(s->stream, 0));
	TRY(cu.cuCtxSynchronize());
	kernels_current = &fx.kernels;
	TRY(cu.cuCtxSetCurrent(fx.ctx));
	return NULL;
}

/* Uses a block of the second context and frees it while the first is current; a block of the first
 * is then taken. */
static const char *free_from_first(struct second *s, uint32_t value)
{
	CUdeviceptr p, q;
	uint32_t seen = 0;
	TRY(cu.cuCtxSetCurrent(s->ctx));
	TRY(cu.cuMemAlloc_v2(&p, N));
	kernels_current = &s->kernels;
	CUresult r = launch_spin(s->stream, 8);
	r = r ? r : launch_fill(s->stream, p, N / 4, value);
	r = r ? r : launch_spin(s->stream, 8);
	r = r ? r : launch_copy(s->stream, s->seen, p, 4);
	kernels_current = &fx.kernels;
	TRY(cu.cuCtxSetCurrent(fx.ctx));
	TRY(r);
	case_note_status("free", cu.cuMemFree_v2(p));
	CUcontext now = NULL;
	TRY(cu.cuCtxGetCurrent(&now));
	if (now != fx.ctx)
		return case_fail("cuMemFree left another context current");
	TRY(cu.cuMemAlloc_v2(&q, N));
	TRY(tags_use(fx.stream[STREAM_NB], q, N, 6000));
	TRY(cu.cuMemFree_v2(q));
	TRY(cu.cuCtxSetCurrent(s->ctx));
	TRY(cu.cuCtxSynchronize());
	TRY(cu.cuMemcpyDtoH_v2(&seen, s->seen, 4));
	TRY(cu.cuCtxSetCurrent(fx.ctx));
	return seen == value ? NULL : case_fail("the second context reads 0x%x, not its own 0x%x", seen, value);
}

static const char *free_with_other_context(void)
{
	NEED(cuCtxCreate_v2);
	struct second s;
	CUdeviceptr left;
	STEP(tags_begin());
	STEP(second_open(&s));
	for (uint32_t i = 0; i < 5; i++)
		STEP(free_from_first(&s, 0x77000000 + i));
	/* What the context leaves behind goes with it; its address is nobody's afterwards. */
	TRY(cu.cuCtxSetCurrent(s.ctx));
	TRY(cu.cuMemAlloc_v2(&left, 48 * MIB));
	TRY(cu.cuCtxSetCurrent(fx.ctx));
	TRY(cu.cuCtxDestroy_v2(s.ctx));
	case_note_status("of_a_destroyed_context", cu.cuMemFree_v2(left));
	TRY(cu.cuCtxSetCurrent(fx.ctx));
	return tags_end();
}

/* A reset takes every block of the context away, cached ones too. */
static const char *primary_context_reset(void)
{
	NEED(cuDevicePrimaryCtxReset_v2);
	for (int round = 0; round < 3; round++) {
		CUdeviceptr kept, cached, p;
		TRY(cu.cuMemAlloc_v2(&kept, 36 * MIB));
		TRY(cu.cuMemAlloc_v2(&cached, N));
		TRY(cu.cuMemFree_v2(cached));
		TRY(cu.cuMemAllocAsync(&p, N, fx.stream[STREAM_A]));
		TRY(cu.cuMemFreeAsync(p, fx.stream[STREAM_A]));
		TRY(cu.cuCtxSynchronize());
		CUresult r = cu.cuDevicePrimaryCtxReset_v2(fx.dev);
		const char *why = fixture_open();
		TRY(r);
		STEP(why);
		case_note_status("free_of_a_lost_block", cu.cuMemFree_v2(kept));
		STEP(tags_begin());
		for (int i = 0; i < 4; i++) {
			TRY(cu.cuMemAlloc_v2(&p, i % 2 ? N : 36 * MIB));
			TRY(tags_use(fx.stream[i], p, N, 100));
			TRY(cu.cuMemFree_v2(p));
			TRY(cu.cuMemAllocAsync(&p, N, fx.stream[i]));
			TRY(tags_use(fx.stream[i], p, N, 100));
			TRY(cu.cuMemFreeAsync(p, fx.stream[i]));
		}
		STEP(tags_end());
	}
	return NULL;
}

static const char *primary_context_released(void)
{
	for (int round = 0; round < 3; round++) {
		CUdeviceptr p;
		TRY(cu.cuMemAlloc_v2(&p, N));
		TRY(cu.cuMemFree_v2(p));
		TRY(cu.cuMemAllocAsync(&p, N, fx.stream[STREAM_B]));
		TRY(cu.cuMemFreeAsync(p, fx.stream[STREAM_B]));
		fixture_end_context();
		STEP(fixture_open());
	}
	return NULL;
}

/* A forked child gets the driver's own refusal, at once, and takes nothing from its parent. */
static const char *forked_child(void)
{
	CUdeviceptr p, q;
	TRY(cu.cuMemAlloc_v2(&q, N));
	TRY(cu.cuMemAlloc_v2(&p, N));
	TRY(launch_fill(NULL, p, N / 4, 21));
	TRY(cu.cuMemFree_v2(q));
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		alarm(20);
		CUresult a = cu.cuMemAlloc_v2(&q, N), f = cu.cuMemFree_v2(p);
		printf("note forked_child alloc %s\nnote forked_child free %s\n", cuda_dl_error(a), cuda_dl_error(f));
		fflush(stdout);
		_exit(0);
	}
	int status = 0;
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return case_skip("no child");
	if (status)
		return case_fail("the child ends with status 0x%x", status);
	STEP(device_is(p, N / 4, 21));
	TRY(cu.cuMemFree_v2(p));
	return NULL;
}

/* ---- a kernel that faults ----------------------------------------------------------------- */

static CUresult alloc_and_fault(CUdeviceptr *p, CUdeviceptr *q)
{
	struct kernels *k = &fx.kernels;
	CUresult r = cu.cuDevicePrimaryCtxRetain(&fx.ctx, 0);
	r = r ? r : cu.cuCtxSetCurrent(fx.ctx);
	r = r ? r : cu.cuMemAlloc_v2(q, N); /* the second time there is something cached */
	r = r ? r : cu.cuMemFree_v2(*q);
	r = r ? r : cu.cuMemAlloc_v2(p, N);
	r = r ? r : cu.cuMemAlloc_v2(q, N);
	if (r != CUDA_SUCCESS || kernels_load(k))
		return r ? r : CUDA_ERROR_NOT_FOUND;
	kernels_current = k;
	return launch_fill(NULL, 0x1000, 64, 1);
}

int child_fault(void)
{
	CUdeviceptr p, q;
	CUresult r = alloc_and_fault(&p, &q);
	if (r != CUDA_SUCCESS)
		return 1;
	CUresult answers[] = {cu.cuMemFree_v2(p), cu.cuCtxSynchronize(), cu.cuMemFree_v2(q),
						  cu.cuMemAlloc_v2(&q, N)};
	return pipe_write(1, answers, sizeof(answers)) ? 0 : 1;
}

/* cuMemFree is where many programs learn of a kernel's fault. */
static const char *sticky_error(void)
{
	static const char *const keys[] = {"free", "synchronize", "second_free", "alloc"};
	CUresult answers[4] = {0};
	struct child c;
	if (!child_start(&c, "fault", "", false))
		return case_skip("no child");
	bool told = child_read(&c, answers, sizeof(answers), 30000);
	if (child_end(&c) || !told)
		return case_fail("the child did not come to its end");
	for (int i = 0; i < 4; i++)
		if (i > 0 || fx.mode != MODE_DEFERRED) /* a free that does not wait cannot know */
			case_note_status(keys[i], answers[i]);
	if (answers[1] == CUDA_SUCCESS || (fx.mode != MODE_DEFERRED && answers[0] == CUDA_SUCCESS))
		return case_fail("the fault was swallowed");
	return NULL;
}

const struct gpu_case context_cases[] = {
	{"free_without_context", free_without_context},
	{"free_in_other_thread", free_in_other_thread},
	{"free_with_other_context", free_with_other_context},
	{"forked_child", forked_child},
	{"sticky_error", sticky_error},
	{"primary_context_released", primary_context_released},
	{"primary_context_reset", primary_context_reset},
	{NULL, NULL},
};
