/*
 * many.c - many threads, and many random copies against a model.
 */
#include "order.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- threads ------------------------------------------------------------------------------ */

#define THREADS 8
#define ROUNDS 24
#define THREAD_BYTES (12 * MIB)

struct worker {
	pthread_t thread;
	uint64_t random;
	uint32_t index;
	char why[512];
};

/* Up and down through this thread's own stream and device block, every byte checked. */
static const char *worker_run(struct worker *w)
{
	CUstream s;
	CUdeviceptr block;
	TRY(cu.cuCtxSetCurrent(fx.ctx));
	TRY(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	TRY(cu.cuMemAlloc_v2(&block, THREAD_BYTES));
	for (uint32_t i = 0; i < ROUNDS; i++) {
		size_t n = 1 + random_below(&w->random, THREAD_BYTES - 64);
		size_t shift = random_below(&w->random, 64);
		uint32_t seed = w->index * 1000 + i;
		unsigned char *p = malloc(n + shift);
		if (!p)
			return case_skip("no memory");
		pattern_fill(p + shift, n, seed);
		TRY(cu.cuMemcpyHtoDAsync_v2(block, p + shift, n, s));
		memset(p, 0xA5, n + shift);
		TRY(cu.cuMemcpyDtoHAsync_v2(p + shift, block, n, s));
		int64_t off = pattern_check(p + shift, n, seed);
		free(p);
		if (off >= 0)
			return case_fail("thread %u, copy %u: byte %lld of %zu", w->index, i, (long long)off, n);
	}
	TRY(cu.cuMemFree_v2(block));
	TRY(cu.cuStreamDestroy_v2(s));
	return NULL;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	const char *why = worker_run(w);
	if (why)
		snprintf(w->why, sizeof(w->why), "%s", why);
	return NULL;
}

static const char *many_threads(void)
{
	static struct worker workers[THREADS];
	memset(workers, 0, sizeof(workers));
	uint64_t started = now_ns();
	for (uint32_t i = 0; i < THREADS; i++) {
		workers[i].index = i;
		workers[i].random = random_next(&case_random) | 1;
		if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]))
			return case_skip("no thread");
	}
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	case_info("ms", (double)(now_ns() - started) / 1e6);
	for (uint32_t i = 0; i < THREADS; i++)
		if (workers[i].why[0])
			return case_fail("%s", workers[i].why);
	return NULL;
}

/* Threads that only come, copy and go: nothing of theirs may be kept or missed. */
static void *short_main(void *arg)
{
	struct worker *w = arg;
	unsigned char *p = malloc(3 * MIB);
	CUdeviceptr at = fx.buf + w->index * 4 * MIB;
	if (!p)
		return NULL;
	pattern_fill(p, 3 * MIB, w->index);
	cu.cuCtxSetCurrent(fx.ctx);
	CUresult r = cu.cuMemcpyHtoD_v2(at, p, 3 * MIB);
	if (r != CUDA_SUCCESS)
		snprintf(w->why, sizeof(w->why), "%s", cuda_dl_error(r));
	free(p);
	return NULL;
}

static const char *short_lived_threads(void)
{
	for (uint32_t round = 0; round < 40; round++) {
		struct worker w[4] = {{.index = 0}};
		for (uint32_t i = 0; i < 4; i++) {
			w[i].index = i;
			if (pthread_create(&w[i].thread, NULL, short_main, &w[i]))
				return case_skip("no thread");
		}
		for (uint32_t i = 0; i < 4; i++)
			pthread_join(w[i].thread, NULL);
		for (uint32_t i = 0; i < 4; i++) {
			if (w[i].why[0])
				return case_fail("%s", w[i].why);
			STEP(device_is_pattern(fx.buf + i * 4 * MIB, 3 * MIB, i));
		}
	}
	return NULL;
}

/* A thread whose copy waits behind a slow kernel does not hold up another thread's copies. */
static void *blocked_main(void *arg)
{
	struct worker *w = arg;
	unsigned char *p = malloc(32 * MIB);
	if (!p)
		return NULL;
	pattern_fill(p, 32 * MIB, 5);
	cu.cuCtxSetCurrent(fx.ctx);
	CUresult r = cu.cuMemcpyHtoDAsync_v2(fx.buf, p, 32 * MIB, fx.nb);
	if (r != CUDA_SUCCESS)
		snprintf(w->why, sizeof(w->why), "%s", cuda_dl_error(r));
	__atomic_store_n(&w->index, 1, __ATOMIC_RELEASE);
	free(p);
	return NULL;
}

static const char *blocked_copy_blocks_nobody(void)
{
	struct worker w = {.index = 0};
	struct flag_timer timer;
	unsigned char *p = malloc(8 * MIB);
	if (!p)
		return case_skip("no memory");
	TRY(launch_spin_flag(fx.nb));
	if (!flag_timer_start(&timer, 3000))
		return case_skip("no thread");
	if (pthread_create(&w.thread, NULL, blocked_main, &w))
		return case_skip("no thread");
	sleep_ms(40);
	uint64_t worst = 0;
	CUresult r = CUDA_SUCCESS;
	for (uint32_t i = 0; i < 5 && r == CUDA_SUCCESS; i++) {
		uint64_t started = now_ns();
		pattern_fill(p, 8 * MIB, i);
		r = launch_fill(fx.a, fx.buf2, 1024, i);
		if (r == CUDA_SUCCESS)
			r = cu.cuMemcpyHtoDAsync_v2(fx.buf2, p, 8 * MIB, fx.a);
		if (r == CUDA_SUCCESS)
			r = cu.cuStreamSynchronize(fx.a);
		if (now_ns() - started > worst)
			worst = now_ns() - started;
	}
	bool still_blocked = !__atomic_load_n(&w.index, __ATOMIC_ACQUIRE);
	bool held_up = flag_timer_stop(&timer);
	pthread_join(w.thread, NULL);
	free(p);
	case_info("worst_ms", (double)worst / 1e6);
	TRY(r);
	if (w.why[0])
		return case_fail("%s", w.why);
	if (held_up)
		return case_fail("copies of another thread waited for the blocked one");
	if (!still_blocked)
		return case_fail("the blocked copy returned before its turn");
	STEP(device_is_pattern(fx.buf2, 8 * MIB, 4));
	return device_is_pattern(fx.buf, 32 * MIB, 5);
}

/* ---- random copies against a model ---------------------------------------------------------- */

#define MODEL_BYTES (32 * MIB)
#define STEPS 3000

/* Sizes spread over the powers of two up to 8 MiB, so that every path is taken. */
static size_t random_size(void)
{
	size_t top = (size_t)1 << (2 + random_below(&case_random, 22));
	return 1 + random_below(&case_random, top);
}

static CUresult random_h2d(CUdeviceptr dst, const void *src, size_t n, CUstream s)
{
	switch (random_below(&case_random, 3)) {
	case 0: return cu.cuMemcpyHtoDAsync_v2(dst, src, n, s);
	case 1: return cu.cuMemcpyAsync(dst, (CUdeviceptr)(uintptr_t)src, n, s);
	default: return cu.cuMemcpyHtoD_v2(dst, src, n);
	}
}

static const char *random_step(uint32_t i, unsigned char *model, unsigned char *host, CUstream s)
{
	size_t n = random_size();
	size_t at = random_below(&case_random, MODEL_BYTES - n);
	size_t shift = random_below(&case_random, 128);
	switch (random_below(&case_random, 3)) {
	case 0:
		pattern_fill(host + shift, n, i);
		TRY(random_h2d(fx.buf + at, host + shift, n, s));
		memcpy(model + at, host + shift, n);
		memset(host + shift, 0xA5, n);
		return NULL;
	case 1: {
		size_t word = at / 4, words = n / 4;
		TRY(launch_add(s, fx.buf + word * 4, words, i));
		for (size_t k = 0; k < words; k++)
			((uint32_t *)(void *)model)[word + k] += i;
		return NULL;
	}
	default:
		memset(host + shift, 0xA5, n);
		TRY(cu.cuMemcpyDtoHAsync_v2(host + shift, fx.buf + at, n, s));
		if (memcmp(host + shift, model + at, n))
			return case_fail("step %u: %zu bytes at %zu differ from the model", i, n, at);
		return NULL;
	}
}

static const char *random_copies(void)
{
	unsigned char *model = malloc(MODEL_BYTES), *host = malloc(8 * MIB + 256);
	CUstream streams[] = {fx.a, fx.b, fx.nb, NULL, CU_STREAM_PER_THREAD};
	const char *why = NULL;
	CUstream last = fx.a;
	CUevent e;
	if (!model || !host)
		return case_skip("no memory");
	TRY(cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	memset(model, 0, MODEL_BYTES);
	TRY(cu.cuMemsetD8_v2(fx.buf, 0, MODEL_BYTES));
	TRY(cu.cuCtxSynchronize());
	for (uint32_t i = 1; i <= STEPS && !why; i++) {
		CUstream s = random_below(&case_random, 4) ? last : streams[random_below(&case_random, 5)];
		/* The synchronous form runs on the legacy stream, which fx.nb is not ordered with. */
		TRY(cu.cuEventRecord(e, last));
		TRY(cu.cuStreamWaitEvent(s, e, 0));
		TRY(cu.cuStreamWaitEvent(NULL, e, 0));
		why = random_step(i, model, host, s);
		TRY(cu.cuEventRecord(e, NULL));
		TRY(cu.cuStreamWaitEvent(s, e, 0));
		last = s;
	}
	if (!why)
		why = device_read(host, fx.buf, 0);
	for (size_t at = 0; !why && at < MODEL_BYTES; at += 8 * MIB) {
		why = device_read(host, fx.buf + at, 8 * MIB);
		if (!why && memcmp(host, model + at, 8 * MIB))
			why = case_fail("the device differs from the model at the end, near %zu", at);
	}
	TRY(cu.cuEventDestroy_v2(e));
	free(model);
	free(host);
	return why;
}

const struct gpu_case many_cases[] = {
	{"many_threads", many_threads},
	{"short_lived_threads", short_lived_threads},
	{"blocked_copy_blocks_nobody", blocked_copy_blocks_nobody},
	{"random_copies", random_copies},
	{NULL, NULL},
};
