/*
 * life.c - contexts that come and go, and forked children.
 */
#include "order.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N (12 * MIB)

/* One checked copy in the current context, through its own device block and legacy stream. */
static const char *copy_here(uint32_t seed)
{
	CUdeviceptr block;
	unsigned char *p = malloc(N);
	if (!p)
		return case_skip("no memory");
	TRY(cu.cuMemAlloc_v2(&block, N));
	pattern_fill(p, N, seed);
	TRY(cu.cuMemcpyHtoDAsync_v2(block, p, N, NULL));
	memset(p, 0xA5, N);
	TRY(cu.cuMemcpyDtoHAsync_v2(p, block, N, NULL));
	int64_t off = pattern_check(p, N, seed);
	free(p);
	TRY(cu.cuMemFree_v2(block));
	return off < 0 ? NULL : case_fail("byte %lld is wrong", (long long)off);
}

static const char *two_contexts(void)
{
	NEED(cuCtxCreate_v2);
	for (uint32_t round = 0; round < 3; round++) {
		CUcontext second;
		TRY(cu.cuCtxCreate_v2(&second, 0, fx.dev));
		for (uint32_t i = 0; i < 4; i++) {
			TRY(cu.cuCtxSetCurrent(i % 2 ? fx.ctx : second));
			STEP(copy_here(round * 10 + i));
		}
		TRY(cu.cuCtxSetCurrent(second));
		TRY(cu.cuCtxDestroy_v2(second));
		TRY(cu.cuCtxSetCurrent(fx.ctx));
		STEP(copy_here(round * 10 + 9));
	}
	return NULL;
}

static void *copy_in_thread(void *arg)
{
	CUcontext ctx = arg;
	cu.cuCtxSetCurrent(ctx);
	const char *why = copy_here(77);
	return why ? strdup(why) : NULL;
}

/* Two threads, each in a context of its own on the same device, at the same time. */
static const char *contexts_in_threads(void)
{
	NEED(cuCtxCreate_v2);
	CUcontext second;
	TRY(cu.cuCtxCreate_v2(&second, 0, fx.dev));
	TRY(cu.cuCtxSetCurrent(fx.ctx));
	char *why = NULL;
	for (int i = 0; i < 6 && !why; i++) {
		pthread_t t[2];
		if (pthread_create(&t[0], NULL, copy_in_thread, fx.ctx) ||
			pthread_create(&t[1], NULL, copy_in_thread, second))
			return case_skip("no thread");
		for (int k = 0; k < 2; k++) {
			void *result;
			pthread_join(t[k], &result);
			if (result)
				why = result;
		}
	}
	TRY(cu.cuCtxDestroy_v2(second));
	TRY(cu.cuCtxSetCurrent(fx.ctx));
	const char *text = why ? case_fail("%s", why) : NULL;
	free(why);
	return text;
}

/* A reset takes every handle of the context away; the next copies start afresh. */
static const char *primary_context_reset(void)
{
	NEED(cuDevicePrimaryCtxReset_v2);
	for (uint32_t round = 0; round < 3; round++) {
		STEP(copy_here(round));
		TRY(cu.cuCtxSynchronize());
		CUresult r = cu.cuDevicePrimaryCtxReset_v2(fx.dev);
		const char *why = fixture_open();
		TRY(r);
		STEP(why);
		STEP(copy_here(100 + round));
	}
	return NULL;
}

/* The last release ends the context, as a reset does. */
static const char *primary_context_released(void)
{
	for (uint32_t round = 0; round < 3; round++) {
		STEP(copy_here(round));
		fixture_close();
		STEP(fixture_open());
	}
	return copy_here(50);
}

static int child_copies(unsigned char *p)
{
	alarm(20);
	CUresult r = cu.cuMemcpyHtoD_v2(fx.buf, p, N);
	CUresult q = cu.cuMemcpyDtoHAsync_v2(p, fx.buf, N, NULL);
	return r == CUDA_SUCCESS || q == CUDA_SUCCESS ? 100 : (int)r % 100;
}

/* A forked child gets the driver's own refusal, at once, and the parent is not disturbed. */
static const char *forked_child(void)
{
	unsigned char *p = malloc(N);
	if (!p)
		return case_skip("no memory");
	for (uint32_t i = 0; i < 3; i++) {
		STEP(copy_here(i));
		fflush(stdout);
		pid_t pid = fork();
		if (pid == 0)
			_exit(child_copies(p));
		int status = 0;
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			return case_skip("no child");
		if (!WIFEXITED(status))
			return case_fail("the child ends by signal %d", WTERMSIG(status));
		char text[32];
		snprintf(text, sizeof(text), "%d", WEXITSTATUS(status));
		case_note("child_answer", text);
		STEP(copy_here(10 + i));
	}
	free(p);
	return NULL;
}

/* Children forked while other threads copy: they only leave, through exit handlers. */
static volatile int churning; /* set by main, read by the copying thread; a late look costs one copy */

static void *churn_main(void *arg)
{
	const char *why = NULL;
	cu.cuCtxSetCurrent(arg);
	for (uint32_t i = 0; churning && !why; i++)
		why = copy_here(i);
	return why ? strdup(why) : NULL;
}

static const char *fork_while_copying(void)
{
	pthread_t t;
	void *result;
	churning = 1;
	if (pthread_create(&t, NULL, churn_main, fx.ctx))
		return case_skip("no thread");
	const char *why = NULL;
	for (int i = 0; i < 12 && !why; i++) {
		sleep_ms(5);
		pid_t pid = fork();
		if (pid == 0) {
			alarm(20);
			free(malloc(MIB));
			_exit(0);
		}
		int status = 0;
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			why = case_skip("no child");
		else if (status)
			why = case_fail("a child ends with status %d", status);
	}
	churning = 0;
	pthread_join(t, &result);
	if (!why && result)
		why = case_fail("%s", (char *)result);
	free(result);
	return why;
}

const struct gpu_case life_cases[] = {
	{"forked_child", forked_child},
	{"fork_while_copying", fork_while_copying},
	{"two_contexts", two_contexts},
	{"contexts_in_threads", contexts_in_threads},
	{"primary_context_released", primary_context_released},
	{"primary_context_reset", primary_context_reset},
	{NULL, NULL},
};
