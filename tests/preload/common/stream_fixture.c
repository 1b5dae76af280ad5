#include "stream_fixture.h"

#include <dlfcn.h>
#include <stdio.h>

uint64_t (*sim_total)(void);
uint64_t (*sim_bytes)(int device);
static uint64_t served_before;

void stream_open(void)
{
	copy_open();
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	*(void **)&sim_total = dlsym(lib, "sim_calls_total");
	*(void **)&sim_bytes = dlsym(lib, "sim_live_bytes");
}

int stream_begin(void **state)
{
	served_before = counter("devmem.stream.served");
	return copy_begin(state);
}

int stream_end(void **state)
{
	if (fx.preloaded && counter("devmem.stream.served") == served_before) {
		print_error("the heap served nothing\n");
		return -1;
	}
	return copy_end(state);
}

int stream_end_any(void **state)
{
	return copy_end(state);
}

CUdeviceptr alloc_on(CUstream s, size_t bytes)
{
	CUdeviceptr p = 0;
	OK(cu.cuMemAllocAsync(&p, bytes, s));
	assert_int_not_equal(p, 0);
	assert_int_equal(p % 256, 0);
	return p;
}

void free_on(CUstream s, CUdeviceptr p)
{
	OK(cu.cuMemFreeAsync(p, s));
}

CUstream stream_new(void)
{
	CUstream s = NULL;
	OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	return s;
}

void flag_raise(void)
{
	__atomic_store_n(fx.flag, 1, __ATOMIC_RELEASE);
}

void flag_reset(void)
{
	OK(cu.cuCtxSynchronize());
	__atomic_store_n(fx.flag, 0, __ATOMIC_RELEASE);
}

cuuint64_t pool_number(CUmemoryPool pool, CUmemPool_attribute which)
{
	cuuint64_t n = ~0ull;
	OK(cu.cuMemPoolGetAttribute(pool, which, &n));
	return n;
}

CUmemoryPool default_pool(int device)
{
	CUmemoryPool pool = NULL;
	OK(cu.cuDeviceGetDefaultMemPool(&pool, device));
	return pool;
}
