/*
 * simtest.c - what the simulator's tests share.
 */
#include "simtest.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/gpu/kernels_ptx.h"

#define GATE_MS 60

CUcontext st_ctx;
CUfunction st_fill32, st_add32, st_spin_flag, st_spin_us, st_copy, st_checksum64;
static CUmodule module;

void simtest_only_sim(void)
{
	if (dlsym(RTLD_DEFAULT, "sim_calls"))
		return;
	puts("needs the simulated driver");
	exit(77);
}

int simtest_setup(void **state)
{
	(void)state;
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&st_ctx, 0) || cuCtxSetCurrent(st_ctx) ||
		cuModuleLoadData(&module, kernels_ptx))
		return -1;
	const struct {
		const char *name;
		CUfunction *f;
	} kernels[] = {
		{"fill32", &st_fill32},   {"add32", &st_add32}, {"spin_flag", &st_spin_flag},
		{"spin_us", &st_spin_us}, {"copy", &st_copy},   {"checksum64", &st_checksum64},
	};
	for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
		if (cuModuleGetFunction(kernels[i].f, module, kernels[i].name))
			return -1;
	return 0;
}

int simtest_teardown(void **state)
{
	(void)state;
	return cuModuleUnload(module) || cuDevicePrimaryCtxRelease_v2(0) ? -1 : 0;
}

CUdeviceptr st_device(size_t n)
{
	CUdeviceptr p = 0;
	ok(cuMemAlloc_v2(&p, n));
	return p;
}

void *st_pinned(size_t n)
{
	void *p = NULL;
	ok(cuMemHostAlloc(&p, n, 0));
	memset(p, 0, n);
	return p;
}

CUstream st_stream(unsigned flags)
{
	CUstream s = NULL;
	ok(cuStreamCreate(&s, flags));
	return s;
}

CUevent st_event(void)
{
	CUevent e = NULL;
	ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	return e;
}

unsigned st_byte(CUdeviceptr at)
{
	unsigned char byte = 0;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	ok(cuMemcpyDtoHAsync_v2(&byte, at, 1, s));
	ok(cuStreamSynchronize(s));
	ok(cuStreamDestroy_v2(s));
	return byte;
}

void st_launch(CUfunction f, CUstream s, void **args)
{
	ok(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s, args, NULL));
}

void st_fill(CUdeviceptr p, size_t words, uint32_t value, CUstream s)
{
	uint64_t n = words;
	void *args[] = {&p, &n, &value};
	st_launch(st_fill32, s, args);
}

void st_add(CUdeviceptr p, size_t words, uint32_t value, CUstream s)
{
	uint64_t n = words;
	void *args[] = {&p, &n, &value};
	st_launch(st_add32, s, args);
}

void st_gate_close(struct st_gate *g, CUstream s)
{
	g->flag = st_pinned(64);
	CUdeviceptr p = (CUdeviceptr)g->flag;
	void *args[] = {&p};
	ok(cuLaunchKernel(st_spin_flag, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
}

void st_gate_open(struct st_gate *g)
{
	__atomic_store_n(g->flag, 1, __ATOMIC_SEQ_CST);
}

/* Waits for the device, as cuMemFreeHost does: open the gate first. */
void st_gate_free(struct st_gate *g)
{
	ok(cuMemFreeHost((void *)g->flag));
}

static void *open_later(void *arg)
{
	usleep(GATE_MS * 1000);
	st_gate_open(arg);
	return NULL;
}

bool st_waits(struct st_gate *g, CUresult (*call)(void *), void *arg, CUresult *result)
{
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, open_later, g), 0);
	*result = call(arg);
	bool opened = __atomic_load_n(g->flag, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	return opened;
}
