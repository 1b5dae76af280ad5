#include "pinned_fixture.h"

uint64_t pinned_real_allocs(void)
{
	return sim.calls ? sim.calls("cuMemHostAlloc") + sim.calls("cuMemAllocHost_v2") : 0;
}

uint64_t pinned_real_frees(void)
{
	return sim.calls ? sim.calls("cuMemFreeHost") : 0;
}

uint64_t pinned_hits(void)
{
	return counter("pinned.hits");
}

uint64_t pinned_kept(void)
{
	return counter("pinned.bytes");
}

unsigned char *pinned_new(size_t bytes, unsigned flags)
{
	void *p = NULL;
	OK(cu.cuMemHostAlloc(&p, bytes, flags));
	assert_non_null(p);
	return p;
}

void pinned_free(void *p)
{
	OK(cu.cuMemFreeHost(p));
}

struct pinned_said pinned_ask(const void *p)
{
	static const CUpointer_attribute what[8] = {
		CU_POINTER_ATTRIBUTE_CONTEXT,      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_MAPPED,       CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,   CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
	};
	CUdeviceptr at = (CUdeviceptr)(uintptr_t)p, base = 0;
	struct pinned_said s;
	memset(&s, 0, sizeof(s)); /* compared whole */
	CUpointer_attribute asked[8];
	void *values[8];
	size_t size;
	for (int i = 0; i < 8; i++) {
		uint64_t value = 0;
		s.single[i] = cu.cuPointerGetAttribute(&value, what[i], at);
		asked[i] = what[i];
		values[i] = &s.values[i];
	}
	s.attributes = cu.cuPointerGetAttributes(8, asked, values, at);
	for (int i = 0; i < 8; i++)
		if (s.values[i] == at) {
			s.values[i] = 1;
			s.self |= what[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER;
		}
	s.range = cu.cuMemGetAddressRange_v2(&base, &size, at);
	s.flags = cu.cuMemHostGetFlags(&s.flag_bits, (void *)(uintptr_t)at);
	s.device = cu.cuMemHostGetDevicePointer_v2(&base, (void *)(uintptr_t)at, 0);
	return s;
}

static void *freeing(void *arg)
{
	struct pinned_freeing *f = arg;
	f->result = f->ctx ? cu.cuCtxSetCurrent(f->ctx) : CUDA_SUCCESS;
	if (f->result == CUDA_SUCCESS)
		f->result = cu.cuMemFreeHost(f->p);
	f->done = 1;
	return NULL;
}

void pinned_freeing_begin(struct pinned_freeing *f, CUcontext ctx, void *p)
{
	*f = (struct pinned_freeing){.ctx = ctx, .p = p};
	assert_int_equal(pthread_create(&f->thread, NULL, freeing, f), 0);
}

CUresult pinned_freeing_end(struct pinned_freeing *f)
{
	pthread_join(f->thread, NULL);
	return f->result;
}
