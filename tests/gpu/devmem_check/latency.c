/*
 * latency.c - what libturbo does with kept blocks delays nobody's launches.
 *
 * A real free stops every launch of the process until the device is idle. Machines are shared: a
 * launch may be late because its thread was not running, so a short delay counts only when it is
 * there three times; a long one counts at once.
 */
#include "check.h"

#include <pthread.h>
#include <stdio.h>

#define LATE_NS 1000000u
#define STALL_NS 20000000u
#define BLOCKS 16
#define LAUNCHED_WORDS 256

struct launches {
	CUdeviceptr target; /* LAUNCHED_WORDS words */
	uint64_t longest, n, late;
};

static CUresult launch_timed(struct launches *l, CUstream s)
{
	uint64_t started = now_ns();
	CUresult r = launch_fill(s, l->target, LAUNCHED_WORDS, 1);
	uint64_t took = now_ns() - started;
	l->longest = took > l->longest ? took : l->longest;
	l->late += took > LATE_NS;
	l->n++;
	return r;
}

static size_t block_bytes(void)
{
	size_t n = fx.total / 2048 / MIB * MIB; /* sixteen are less than a hundredth of the device */
	return n > 32 * MIB ? 32 * MIB : n < MIB ? MIB / 2 : n;
}

/* Blocks of several sizes, freed: kept ones are now young. */
static const char *leave_blocks(void)
{
	CUdeviceptr p[BLOCKS];
	for (size_t i = 0; i < BLOCKS; i++)
		TRY(cu.cuMemAlloc_v2(&p[i], block_bytes() >> (i % 4)));
	for (size_t i = 0; i < BLOCKS; i++)
		TRY(cu.cuMemFree_v2(p[i]));
	return NULL;
}

/* A kernel spins on STREAM_NB all the time while this thread launches elsewhere. */
static CUresult launch_beside_spin(struct launches *l, unsigned ms)
{
	CUevent e[4] = {NULL};
	uint64_t until = now_ns() + (uint64_t)ms * 1000000u;
	CUresult r = CUDA_SUCCESS;
	for (int i = 0; i < 4 && !r; i++)
		r = cu.cuEventCreate(&e[i], CU_EVENT_DISABLE_TIMING);
	for (unsigned k = 0; !r && now_ns() < until;) {
		/* Two spins ahead at all times, so that the device is never idle. */
		if (k < 3 || cu.cuEventQuery(e[(k - 2) % 4]) == CUDA_SUCCESS) {
			r = launch_spin(fx.stream[STREAM_NB], 60);
			r = r ? r : cu.cuEventRecord(e[k++ % 4], fx.stream[STREAM_NB]);
		}
		for (int i = 0; i < 8 && !r; i++)
			r = launch_timed(l, fx.stream[STREAM_NB2]);
		if (!r)
			r = cu.cuStreamSynchronize(fx.stream[STREAM_NB2]);
		sleep_ms(1);
	}
	for (int i = 0; i < 4 && e[i]; i++)
		cu.cuEventDestroy_v2(e[i]);
	return r;
}

/* Says what was seen; NULL when it is well, an empty text when it should be tried again. */
static const char *judge(const struct launches *l, int attempt)
{
	case_info("launches", (double)l->n);
	case_info("longest_us", (double)l->longest / 1e3);
	if (!l->late)
		return NULL;
	if (l->longest < STALL_NS && attempt < 2)
		return "";
	return case_fail("%llu of %llu launches took more than 1 ms, the longest %.1f ms",
					 (unsigned long long)l->late, (unsigned long long)l->n, (double)l->longest / 1e6);
}

/* Judges the launches that once() times, up to three times. */
static const char *tried(const char *(*once)(struct launches *l, int attempt))
{
	const char *why = "";
	CUdeviceptr target;
	TRY(cu.cuMemAlloc_v2(&target, 4 * LAUNCHED_WORDS));
	for (int attempt = 0; why && !*why; attempt++) {
		struct launches l = {.target = target};
		STEP(once(&l, attempt));
		TRY(cu.cuCtxSynchronize());
		why = judge(&l, attempt);
	}
	TRY(cu.cuMemFree_v2(target));
	return why;
}

/* Blocks grow older than two seconds while the device is busy. */
static const char *while_busy(struct launches *l, int attempt)
{
	(void)attempt;
	STEP(leave_blocks());
	TRY(launch_beside_spin(l, 3200));
	return NULL;
}

/* Blocks are old already when the device gets busy. */
static const char *before_busy(struct launches *l, int attempt)
{
	STEP(leave_blocks());
	sleep_ms(1950 + 40 * (unsigned)attempt);
	TRY(launch_beside_spin(l, 600));
	return NULL;
}

/* Bursts of launches, and idle moments in which old blocks may go. */
static const char *between_bursts(struct launches *l, int attempt)
{
	(void)attempt;
	STEP(leave_blocks());
	uint64_t until = now_ns() + 3000000000u;
	while (now_ns() < until) {
		for (int i = 0; i < 20; i++)
			TRY(launch_timed(l, fx.stream[i % 2 ? STREAM_NB : STREAM_NB2]));
		TRY(cu.cuStreamSynchronize(fx.stream[STREAM_NB]));
		sleep_ms((unsigned)random_below(&case_random, 40));
	}
	return NULL;
}

static const char *aged_while_busy(void)
{
	return tried(while_busy);
}

static const char *aged_before_busy(void)
{
	return tried(before_busy);
}

static const char *aged_between_bursts(void)
{
	return tried(between_bursts);
}

/* ---- a thread that frees beside one that launches ------------------------------------------- */

static int stop; /* atomic */

static void *launch_main(void *arg)
{
	struct launches *l = arg;
	CUresult r = cu.cuCtxSetCurrent(fx.ctx);
	while (!r && !__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		r = launch_timed(l, fx.stream[STREAM_NB2]);
		r = r ? r : cu.cuStreamSynchronize(fx.stream[STREAM_NB2]);
		sleep_ms(1);
	}
	return r ? (void *)cuda_dl_error(r) : NULL;
}

static const char *free_behind_spins(void)
{
	for (int i = 0; i < 6; i++) {
		CUdeviceptr p;
		TRY(cu.cuMemAlloc_v2(&p, block_bytes() / 2));
		TRY(launch_spin(fx.stream[STREAM_NB], 60));
		TRY(cu.cuMemFree_v2(p));
	}
	return NULL;
}

static const char *beside_launches(struct launches *l, int attempt)
{
	pthread_t t;
	void *error;
	CUdeviceptr p;
	(void)attempt;
	TRY(cu.cuMemAlloc_v2(&p, block_bytes() / 2)); /* the first allocation is the driver's */
	TRY(cu.cuMemFree_v2(p));
	__atomic_store_n(&stop, 0, __ATOMIC_RELEASE);
	if (pthread_create(&t, NULL, launch_main, l))
		return case_skip("no thread");
	const char *failed = free_behind_spins();
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(t, &error);
	STEP(failed);
	if (error)
		return case_fail("launching: %s", (char *)error);
	if (fx.mode == MODE_BARE)
		l->late = 0; /* a promise of libturbo's alone */
	return NULL;
}

/* The driver's own free stops the other thread; a kept block's does not. */
static const char *free_beside_launches(void)
{
	return tried(beside_launches);
}

const struct gpu_case latency_cases[] = {
	{"aged_while_busy", aged_while_busy},
	{"aged_before_busy", aged_before_busy},
	{"aged_between_bursts", aged_between_bursts},
	{"free_beside_launches", free_beside_launches},
	{NULL, NULL},
};
