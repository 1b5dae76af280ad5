/* ENV: TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=8 SIM_JITTER_US=50 BARE */
/*
 * Many threads copy at once, on one device and on two, and no copy waits for what another
 * thread does: the ring holds 8 MiB, so each test asks for far more than that.
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS 8

/* What a thread does, and what it found wrong (cmocka's asserts are for the main thread). */
struct task {
	pthread_t thread;
	void (*run)(struct task *);
	unsigned number;
	CUcontext ctx;
	char wrong[120];
};

#define TRY(t, call)                                                                      \
	do {                                                                                  \
		CUresult r_ = (call);                                                             \
		if (r_ != CUDA_SUCCESS) {                                                         \
			snprintf((t)->wrong, sizeof((t)->wrong), "%s: %s", #call, cuda_dl_error(r_)); \
			return;                                                                       \
		}                                                                                 \
	} while (0)
#define EXPECT(t, condition)                                                               \
	do {                                                                                   \
		if (!(condition)) {                                                                \
			snprintf((t)->wrong, sizeof((t)->wrong), "line %d: %s", __LINE__, #condition); \
			return;                                                                        \
		}                                                                                  \
	} while (0)

static void *task_main(void *arg)
{
	struct task *t = arg;
	if (cu.cuCtxSetCurrent(t->ctx) != CUDA_SUCCESS)
		snprintf(t->wrong, sizeof(t->wrong), "context");
	else
		t->run(t);
	return NULL;
}

static void task_start(struct task *t, void (*run)(struct task *), unsigned number, CUcontext ctx)
{
	*t = (struct task){.run = run, .number = number, .ctx = ctx};
	assert_int_equal(pthread_create(&t->thread, NULL, task_main, t), 0);
}

static void task_join(struct task *t)
{
	pthread_join(t->thread, NULL);
	if (t->wrong[0])
		fail_msg("thread %u: %s", t->number, t->wrong);
}

static void wait_for(_Atomic int *flag)
{
	while (!*flag)
		usleep(200);
}

/* ---- at once ---- */

/* Copies of all sizes in and out through a stream of the thread's own. */
static void copies(struct task *t)
{
	const size_t room = 7 * MIB;
	uint64_t random = t->number + 1;
	CUstream s = NULL;
	CUdeviceptr d;
	if (t->number % 4)
		TRY(t, cu.cuStreamCreate(&s, t->number % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
	bool ptsz = t->number % 4 == 0;
	TRY(t, cu.cuMemAlloc_v2(&d, room));
	unsigned char *h = malloc(room + 64);
	for (uint32_t i = 0; i < 25; i++) {
		size_t n = 60 * KIB + random_below(&random, i % 3 ? 3 * MIB : room - 60 * KIB);
		size_t off = random_below(&random, 64);
		pattern_fill(h + off, n, t->number * 100 + i);
		TRY(t, ptsz ? cu.cuMemcpyHtoDAsync_v2_ptsz(d, h + off, n, s)
					: cu.cuMemcpyHtoDAsync_v2(d, h + off, n, s));
		memset(h + off, 0, n);
		TRY(t, ptsz ? cu.cuMemcpyDtoHAsync_v2_ptsz(h + off, d, n, s)
					: cu.cuMemcpyDtoHAsync_v2(h + off, d, n, s));
		EXPECT(t, pattern_check(h + off, n, t->number * 100 + i) == -1);
	}
	free(h);
	TRY(t, cu.cuMemFree_v2(d));
	if (s)
		TRY(t, cu.cuStreamDestroy_v2(s));
}

static void many_threads_on_one_device(void **state)
{
	(void)state;
	struct task t[THREADS];
	for (unsigned i = 0; i < THREADS; i++)
		task_start(&t[i], copies, i, fx.ctx);
	for (unsigned i = 0; i < THREADS; i++)
		task_join(&t[i]);
}

static void two_devices(void **state)
{
	(void)state;
	if (fx.devices < 2)
		copy_skip("needs two devices");
	CUcontext second;
	OK(cu.cuDevicePrimaryCtxRetain(&second, 1));
	struct task t[THREADS];
	for (unsigned i = 0; i < THREADS; i++)
		task_start(&t[i], copies, i, i % 2 ? second : fx.ctx);
	for (unsigned i = 0; i < THREADS; i++)
		task_join(&t[i]);
	/* One thread that goes back and forth. */
	CUdeviceptr d[2];
	unsigned char *h = pages_new(5 * MIB, 0);
	CUcontext ctx[2] = {fx.ctx, second};
	for (unsigned i = 0; i < 2; i++) {
		OK(cu.cuCtxSetCurrent(ctx[i]));
		d[i] = device_new(5 * MIB);
	}
	for (uint32_t i = 0; i < 10; i++) {
		OK(cu.cuCtxSetCurrent(ctx[i % 2]));
		pattern_fill(h, 5 * MIB, i);
		OK(cu.cuMemcpyHtoD_v2(d[i % 2], h, 5 * MIB));
		memset(h, 0, 5 * MIB);
		OK(cu.cuMemcpyDtoH_v2(h, d[i % 2], 5 * MIB));
		HOST_IS(h, 5 * MIB, i);
	}
	for (unsigned i = 0; i < 2; i++) {
		OK(cu.cuCtxSetCurrent(ctx[i]));
		OK(cu.cuMemFree_v2(d[i]));
	}
	pages_free(h, 5 * MIB);
	OK(cu.cuCtxSetCurrent(fx.ctx));
	OK(cu.cuDevicePrimaryCtxRelease_v2(1));
}

/* A stream of another device's context: a copy on it is allowed and does as it does bare. */
static void a_stream_of_another_context(void **state)
{
	(void)state;
	const size_t n = EARLY_BYTES;
	if (fx.devices < 2)
		copy_skip("needs two devices");
	CUcontext second;
	CUstream s;
	OK(cu.cuDevicePrimaryCtxRetain(&second, 1));
	OK(cu.cuCtxSetCurrent(second));
	OK(cu.cuStreamCreate(&s, CU_STREAM_DEFAULT));
	OK(cu.cuCtxSetCurrent(fx.ctx));
	CUdeviceptr d = device_new(4 * MIB);
	unsigned char *h = pages_new(4 * MIB, 0);
	unsigned wrong = 0;
	uint64_t staged = copy_staged(), fallback = counter("copy.fallback");
	for (uint32_t i = 0; i < 60; i++) {
		size_t bytes = i % 3 ? n : 4 * MIB;
		pattern_fill(h, bytes, i);
		CUresult r = cu.cuMemcpyHtoDAsync_v2(d, h, bytes, s);
		memset(h, 0, bytes);
		OK(cu.cuStreamSynchronize(s));
		wrong += r == CUDA_SUCCESS && device_differs(d, bytes, i) != -1;
	}
	assert_int_equal(wrong, 0);
	/* It is not for the ring, and costs it nothing: the next copy is staged. */
	assert_int_equal(copy_staged(), staged);
	assert_int_equal(counter("copy.fallback"), fallback);
	for (unsigned i = 0; i < 4; i++)
		OK(cu.cuMemcpyHtoD_v2(d, h, 4 * MIB));
	if (fx.preloaded)
		assert_int_equal(copy_staged() - staged, 4);
	pages_free(h, 4 * MIB);
	device_free(d);
	OK(cu.cuStreamDestroy_v2(s));
	OK(cu.cuDevicePrimaryCtxRelease_v2(1));
}

/* ---- no deadlock ---- */

static _Atomic int go, held;

/* A copy behind a wait-value that the main thread releases. */
static void copy_behind_a_wait(struct task *t)
{
	const size_t n = t->number % 2 ? 9 * MIB : EARLY_BYTES;
	CUstream s;
	CUdeviceptr d;
	unsigned char *h = pages_new(n, t->number);
	TRY(t, cu.cuMemAlloc_v2(&d, n));
	TRY(t, cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	TRY(t, cu.cuStreamWaitValue32_v2(s, fx.flag_dev, 1, CU_STREAM_WAIT_VALUE_EQ));
	held++;
	/* Sizes up to 2 MiB return at once and keep their slots until the stream goes on. */
	for (unsigned i = 0; i < (n == EARLY_BYTES ? 4 : 1); i++)
		TRY(t, cu.cuMemcpyHtoDAsync_v2(d, h, n, s));
	memset(h, 0, n);
	TRY(t, cu.cuMemcpyDtoHAsync_v2(h, d, n, s));
	EXPECT(t, pattern_check(h, n, t->number) == -1);
	TRY(t, cu.cuStreamDestroy_v2(s));
	TRY(t, cu.cuMemFree_v2(d));
	pages_free(h, n);
}

/* The wait is released only after copies of more than the ring holds have completed. */
static void copies_finish_while_others_wait(void **state)
{
	(void)state;
	const size_t n = 5 * MIB;
	struct task waiting[4];
	CUdeviceptr d = device_new(n);
	unsigned char *h = pages_new(n, 0);
	held = 0;
	for (unsigned i = 0; i < 4; i++)
		task_start(&waiting[i], copy_behind_a_wait, i, fx.ctx);
	while (held < 4)
		usleep(1000);
	usleep(20000);
	for (uint32_t i = 0; i < 12; i++) {
		pattern_fill(h, n, i);
		OK(cu.cuMemcpyHtoD_v2(d, h, n));
		memset(h, 0, n);
		OK(cu.cuMemcpyDtoH_v2(h, d, n));
		HOST_IS(h, n, i);
	}
	__atomic_store_n(fx.flag, 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < 4; i++)
		task_join(&waiting[i]);
	pages_free(h, n);
	device_free(d);
}

/* A page of the copy in the main thread; its fault means: the copy is in the middle. */
static unsigned char *trap_page;
static CUstream shared_stream;

static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	if ((unsigned char *)info->si_addr < trap_page || (unsigned char *)info->si_addr >= trap_page + 4096)
		_exit(3);
	held = 1;
	while (!go)
		usleep(200);
	mprotect(trap_page, 4096, PROT_READ | PROT_WRITE);
}

/* Puts a wait-value onto the stream in the middle of the other thread's copy, and ends it when
 * that thread's call has returned. */
static _Atomic int returned;
static void wait_in_the_middle(struct task *t)
{
	wait_for(&held);
	TRY(t, cu.cuStreamWaitValue32_v2(shared_stream, fx.flag_dev, 1, CU_STREAM_WAIT_VALUE_EQ));
	go = 1;
	wait_for(&returned);
	__atomic_store_n(fx.flag, 1, __ATOMIC_RELEASE);
}

static void a_wait_put_on_the_stream_in_the_middle_of_a_copy(void **state)
{
	(void)state;
	const size_t n = 30 * MIB;
	CUdeviceptr d = device_new(n);
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
	assert_int_equal(sigaction(SIGSEGV, &action, &old), 0);
	for (unsigned i = 0; i < 4; i++) {
		struct task t;
		unsigned char *h = pages_new(n, i);
		if (i >= 2)
			device_write(d, n, i);
		__atomic_store_n(fx.flag, 0, __ATOMIC_RELEASE);
		held = go = returned = 0;
		trap_page = h + (i % 2 ? 3 * MIB : 16 * MIB);
		mprotect(trap_page, 4096, PROT_NONE);
		OK(cu.cuStreamCreate(&shared_stream, CU_STREAM_NON_BLOCKING));
		task_start(&t, wait_in_the_middle, i, fx.ctx);
		CUresult r = i < 2 ? cu.cuMemcpyHtoDAsync_v2(d, h, n, shared_stream)
						   : cu.cuMemcpyDtoHAsync_v2(h, d, n, shared_stream);
		returned = 1;
		task_join(&t);
		OK(r);
		OK(cu.cuStreamSynchronize(shared_stream));
		if (i < 2)
			DEVICE_IS(d, n, i);
		else
			HOST_IS(h, n, i);
		OK(cu.cuStreamDestroy_v2(shared_stream));
		pages_free(h, n);
	}
	sigaction(SIGSEGV, &old, NULL);
	device_free(d);
}

/* Copies on blocked streams may take every slot; others then go through the driver. */
static void a_full_ring_passes_copies_through(void **state)
{
	(void)state;
	const size_t n = EARLY_BYTES;
	CUstream s;
	CUdeviceptr d = device_new(16 * n);
	unsigned char *h = pages_new(n, 0);
	uint64_t staged = copy_staged(), busy = counter("copy.pass.busy");
	OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cu.cuStreamWaitValue32_v2(s, fx.flag_dev, 1, CU_STREAM_WAIT_VALUE_EQ));
	for (uint32_t i = 0; i < 16; i++) {
		pattern_fill(h, n, i);
		OK(cu.cuMemcpyHtoDAsync_v2(d + i * n, h, n, s));
	}
	memset(h, 0, n);
	if (fx.preloaded) {
		assert_in_range(copy_staged() - staged, 1, 15);
		assert_int_equal(copy_staged() - staged + counter("copy.pass.busy") - busy, 16);
	}
	__atomic_store_n(fx.flag, 1, __ATOMIC_RELEASE);
	OK(cu.cuStreamSynchronize(s));
	for (uint32_t i = 0; i < 16; i++)
		DEVICE_IS(d + i * n, n, i);
	/* And the slots are there again. */
	staged = copy_staged();
	OK(cu.cuMemcpyHtoD_v2(d, h, n));
	if (fx.preloaded)
		assert_int_equal(copy_staged() - staged, 1);
	OK(cu.cuStreamDestroy_v2(s));
	pages_free(h, n);
	device_free(d);
}

int main(void)
{
	copy_limit();
	copy_open();
	const struct CMUnitTest tests[] = {
		STAGED(many_threads_on_one_device),
		STAGED(two_devices),
		STAGED(a_stream_of_another_context),
		STAGED(copies_finish_while_others_wait),
		STAGED(a_wait_put_on_the_stream_in_the_middle_of_a_copy),
		STAGED(a_full_ring_passes_copies_through),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
