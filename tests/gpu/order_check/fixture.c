/*
 * fixture.c - context, buffers, kernels and checks for the cases.
 */
#include "order.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define CHUNK (16 * MIB)

struct order_fixture fx;
static unsigned char *chunk; /* pinned, so that copies through it are never staged */

/* The driver may load a kernel at its first launch, and wait for the device to do so: not
 * something to meet while another kernel spins. */
static const char *warm_kernels(void)
{
	TRY(launch_fill(fx.a, fx.buf, 0, 0));
	TRY(launch_add(fx.a, fx.buf, 0, 0));
	TRY(launch_copy(fx.a, fx.buf, fx.buf2, 0));
	TRY(launch_spin(fx.a, 0));
	*fx.flag = 1;
	TRY(launch_spin_flag(fx.a));
	TRY(cu.cuCtxSynchronize());
	*fx.flag = 0;
	return NULL;
}

/* What an earlier context owned went with it: an open that fails half-way must not leave its
 * handles and pointers to fixture_close. */
static void forget(void)
{
	fx.ctx = NULL;
	fx.kernels = (struct kernels){0};
	fx.a = fx.b = fx.nb = NULL;
	fx.buf = fx.buf2 = 0;
	fx.flag = NULL;
	fx.flag_dev = 0;
	chunk = NULL;
}

const char *fixture_open(void)
{
	forget();
	TRY(cu.cuDeviceGet(&fx.dev, 0));
	TRY(cu.cuDevicePrimaryCtxRetain(&fx.ctx, fx.dev));
	TRY(cu.cuCtxSetCurrent(fx.ctx));
	STEP(kernels_load(&fx.kernels));
	kernels_current = &fx.kernels;
	TRY(cu.cuStreamCreate(&fx.a, CU_STREAM_DEFAULT));
	TRY(cu.cuStreamCreate(&fx.b, CU_STREAM_DEFAULT));
	TRY(cu.cuStreamCreate(&fx.nb, CU_STREAM_NON_BLOCKING));
	TRY(cu.cuMemAlloc_v2(&fx.buf, BUF_BYTES));
	TRY(cu.cuMemAlloc_v2(&fx.buf2, BUF_BYTES));
	TRY(cu.cuMemHostAlloc((void **)&chunk, CHUNK, 0));
	TRY(cu.cuMemHostAlloc((void **)&fx.flag, 4096, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
	TRY(cu.cuMemHostGetDevicePointer_v2(&fx.flag_dev, fx.flag, 0));
	return warm_kernels();
}

/* After a case, failed or not: a context that a case broke or reset answers with errors, which
 * the next fixture_open meets again if they last. */
void fixture_close(void)
{
	CUstream streams[] = {fx.a, fx.b, fx.nb};
	if (fx.flag)
		__atomic_store_n(fx.flag, 1, __ATOMIC_RELEASE);
	if (!fx.ctx)
		return;
	cu.cuMemFree_v2(fx.buf); /* 0 is nothing to free */
	cu.cuMemFree_v2(fx.buf2);
	for (int i = 0; i < 3; i++)
		if (streams[i])
			cu.cuStreamDestroy_v2(streams[i]);
	if (fx.kernels.module)
		cu.cuModuleUnload(fx.kernels.module);
	if (chunk)
		cu.cuMemFreeHost(chunk);
	if (fx.flag)
		cu.cuMemFreeHost(fx.flag);
	cu.cuDevicePrimaryCtxRelease_v2(fx.dev);
	forget();
}

CUresult launch_spin_flag(CUstream s)
{
	return launch_spin_on(s, fx.flag_dev);
}

const char *device_read(void *to, CUdeviceptr p, size_t n)
{
	TRY(cu.cuCtxSynchronize());
	for (size_t at = 0; at < n; at += CHUNK) {
		size_t part = n - at < CHUNK ? n - at : CHUNK;
		TRY(cu.cuMemcpyDtoH_v2(chunk, p + at, part));
		memcpy((char *)to + at, chunk, part);
	}
	return NULL;
}

const char *device_is_pattern(CUdeviceptr p, size_t n, uint32_t seed)
{
	TRY(cu.cuCtxSynchronize());
	for (size_t at = 0; at < n; at += CHUNK) {
		size_t part = n - at < CHUNK ? n - at : CHUNK;
		TRY(cu.cuMemcpyDtoH_v2(chunk, p + at, part));
		int64_t off = pattern_check_from(chunk, at / 4, part, seed);
		if (off >= 0)
			return case_fail("device byte %zu of %zu is wrong", at + (size_t)off, n);
	}
	return NULL;
}

const char *device_is_word(CUdeviceptr p, size_t n, uint32_t word)
{
	TRY(cu.cuCtxSynchronize());
	for (size_t at = 0; at < n; at += CHUNK) {
		size_t part = n - at < CHUNK ? n - at : CHUNK;
		TRY(cu.cuMemcpyDtoH_v2(chunk, p + at, part));
		for (size_t i = 0; i + 4 <= part; i += 4)
			if (memcmp(chunk + i, &word, 4))
				return case_fail("device byte %zu of %zu is wrong", at + i, n);
	}
	return NULL;
}

const char *device_write_pattern(CUdeviceptr p, size_t n, uint32_t seed)
{
	for (size_t at = 0; at < n; at += CHUNK) {
		size_t part = n - at < CHUNK ? n - at : CHUNK;
		pattern_fill_from(chunk, at / 4, part, seed);
		TRY(cu.cuMemcpyHtoD_v2(p + at, chunk, part));
	}
	TRY(cu.cuCtxSynchronize());
	return NULL;
}

void *pages_new(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

static void *late_main(void *arg)
{
	struct late *l = arg;
	sleep_ms(LATE_MS);
	pattern_fill(l->block, l->bytes, l->seed);
	if (l->raise)
		__atomic_store_n(fx.flag, 1, __ATOMIC_RELEASE);
	return NULL;
}

bool late_start(struct late *l)
{
	pthread_t t;
	if (pthread_create(&t, NULL, late_main, l))
		return false;
	l->thread = (unsigned long)t;
	return true;
}

void late_join(struct late *l)
{
	pthread_join((pthread_t)l->thread, NULL);
}

static void *flag_timer_main(void *arg)
{
	struct flag_timer *t = arg;
	for (unsigned ms = 0; ms < t->ms && !__atomic_load_n(&t->stopped, __ATOMIC_ACQUIRE); ms += 10)
		sleep_ms(10);
	t->fired = !__atomic_load_n(&t->stopped, __ATOMIC_ACQUIRE);
	__atomic_store_n(fx.flag, 1, __ATOMIC_RELEASE);
	return NULL;
}

bool flag_timer_start(struct flag_timer *t, unsigned ms)
{
	pthread_t thread;
	*t = (struct flag_timer){.ms = ms};
	if (pthread_create(&thread, NULL, flag_timer_main, t))
		return false;
	t->thread = (unsigned long)thread;
	return true;
}

bool flag_timer_stop(struct flag_timer *t)
{
	__atomic_store_n(&t->stopped, 1, __ATOMIC_RELEASE);
	pthread_join((pthread_t)t->thread, NULL);
	return t->fired;
}
