/* LINK: cuda ENV: TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=8 BARE */
/*
 * Every copy entry point, in every ABI, reached by direct linking, by dlsym and by
 * cuGetProcAddress: the same bytes, and the ring takes each of them.
 */
#define __CUDA_API_VERSION_INTERNAL
#include "common/copy_fixture.h"
#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>

typedef CUresult h2d_fn(CUdeviceptr, const void *, size_t);
typedef CUresult d2h_fn(void *, CUdeviceptr, size_t);
typedef CUresult any_fn(CUdeviceptr, CUdeviceptr, size_t);
typedef CUresult h2d_async_fn(CUdeviceptr, const void *, size_t, CUstream);
typedef CUresult d2h_async_fn(void *, CUdeviceptr, size_t, CUstream);
typedef CUresult any_async_fn(CUdeviceptr, CUdeviceptr, size_t, CUstream);

enum form { H2D, D2H, ANY, H2D_ASYNC, D2H_ASYNC, ANY_ASYNC };

static const struct entry {
	enum form form;
	const char *symbol; /* exact name */
	const char *name;   /* what cuGetProcAddress is asked for */
	int version;
	cuuint64_t flags;
	void *linked;
} entries[] = {
#define LEGACY CU_GET_PROC_ADDRESS_LEGACY_STREAM
#define PER_THREAD CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
	{H2D, "cuMemcpyHtoD_v2", "cuMemcpyHtoD", 3020, LEGACY, (void *)cuMemcpyHtoD_v2},
	{H2D, "cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD", 7000, PER_THREAD, (void *)cuMemcpyHtoD_v2_ptds},
	{D2H, "cuMemcpyDtoH_v2", "cuMemcpyDtoH", 3020, LEGACY, (void *)cuMemcpyDtoH_v2},
	{D2H, "cuMemcpyDtoH_v2_ptds", "cuMemcpyDtoH", 7000, PER_THREAD, (void *)cuMemcpyDtoH_v2_ptds},
	{ANY, "cuMemcpy", "cuMemcpy", 4000, LEGACY, (void *)cuMemcpy},
	{ANY, "cuMemcpy_ptds", "cuMemcpy", 7000, PER_THREAD, (void *)cuMemcpy_ptds},
	{H2D_ASYNC, "cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync", 3020, LEGACY, (void *)cuMemcpyHtoDAsync_v2},
	{H2D_ASYNC, "cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync", 7000, PER_THREAD,
	 (void *)cuMemcpyHtoDAsync_v2_ptsz},
	{D2H_ASYNC, "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync", 3020, LEGACY, (void *)cuMemcpyDtoHAsync_v2},
	{D2H_ASYNC, "cuMemcpyDtoHAsync_v2_ptsz", "cuMemcpyDtoHAsync", 7000, PER_THREAD,
	 (void *)cuMemcpyDtoHAsync_v2_ptsz},
	{ANY_ASYNC, "cuMemcpyAsync", "cuMemcpyAsync", 4000, LEGACY, (void *)cuMemcpyAsync},
	{ANY_ASYNC, "cuMemcpyAsync_ptsz", "cuMemcpyAsync", 7000, PER_THREAD, (void *)cuMemcpyAsync_ptsz},
};
#define ENTRIES (sizeof(entries) / sizeof(entries[0]))

static CUstream stream;

static CUresult to_device(const struct entry *e, void *fn, CUdeviceptr d, const void *h, size_t n)
{
	switch (e->form) {
	case H2D: return ((h2d_fn *)fn)(d, h, n);
	case ANY: return ((any_fn *)fn)(d, (CUdeviceptr)h, n);
	case H2D_ASYNC: return ((h2d_async_fn *)fn)(d, h, n, stream);
	default: return ((any_async_fn *)fn)(d, (CUdeviceptr)h, n, stream);
	}
}

static CUresult from_device(const struct entry *e, void *fn, void *h, CUdeviceptr d, size_t n)
{
	switch (e->form) {
	case D2H: return ((d2h_fn *)fn)(h, d, n);
	case ANY: return ((any_fn *)fn)((CUdeviceptr)h, d, n);
	case D2H_ASYNC: return ((d2h_async_fn *)fn)(h, d, n, stream);
	default: return ((any_async_fn *)fn)((CUdeviceptr)h, d, n, stream);
	}
}

/* One copy of n bytes each way that the form has; the host block is overwritten on return. */
static void copy_both_ways(const struct entry *e, void *fn, size_t n)
{
	static uint32_t seed = 1;
	CUdeviceptr d = device_new(n);
	uint64_t in = counter("copy.h2d.staged"), out = counter("copy.d2h.staged"), calls = counter(e->symbol);
	unsigned ways = 0;
	if (e->form != D2H && e->form != D2H_ASYNC) {
		unsigned char *h = pages_new(n, ++seed);
		OK(to_device(e, fn, d, h, n));
		memset(h, 0xee, n);
		DEVICE_IS(d, n, seed);
		pages_free(h, n);
		assert_int_equal(counter("copy.h2d.staged") - in, fx.preloaded ? 1 : 0);
		ways++;
	}
	if (e->form != H2D && e->form != H2D_ASYNC) {
		unsigned char *h = pages_new(n, 0);
		device_write(d, n, ++seed);
		OK(from_device(e, fn, h, d, n));
		HOST_IS(h, n, seed);
		pages_free(h, n);
		assert_int_equal(counter("copy.d2h.staged") - out, fx.preloaded ? 1 : 0);
		ways++;
	}
	/* The fixture's own pinned copies may be calls of the same symbol. */
	if (fx.preloaded)
		assert_true(counter(e->symbol) - calls >= ways);
	device_free(d);
}

/* Around the size limit, the driver's early bytes, one slot, and several rounds of slots. */
static void all_sizes(const struct entry *e, void *fn)
{
	static const size_t sizes[] = {64 * KIB, MIB + 5, EARLY_BYTES, EARLY_BYTES + 1, 20 * MIB + 12};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		copy_both_ways(e, fn, sizes[i]);
}

static void linked_directly(void **state)
{
	(void)state;
	for (size_t i = 0; i < ENTRIES; i++)
		all_sizes(&entries[i], entries[i].linked);
}

static void by_dlsym(void **state)
{
	(void)state;
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	assert_non_null(lib);
	for (size_t i = 0; i < ENTRIES; i++) {
		void *fn = dlsym(lib, entries[i].symbol), *any = dlsym(RTLD_DEFAULT, entries[i].symbol);
		assert_non_null(fn);
		assert_ptr_equal(fn, any);
		all_sizes(&entries[i], fn);
	}
	dlclose(lib);
}

static void by_get_proc_address(void **state)
{
	(void)state;
	for (size_t i = 0; i < ENTRIES; i++) {
		void *fn = NULL;
		CUdriverProcAddressQueryResult found;
		OK(cuGetProcAddress_v2(entries[i].name, &fn, entries[i].version, entries[i].flags, &found));
		assert_non_null(fn);
		copy_both_ways(&entries[i], fn, 3 * MIB);
		fn = NULL;
		OK(cu.cuGetProcAddress_v2(entries[i].name, &fn, 13000, entries[i].flags, NULL));
		assert_non_null(fn);
		copy_both_ways(&entries[i], fn, 3 * MIB);
	}
}

/* Below the limit nothing is staged, and the bytes are right as well. */
static void small_copies_pass(void **state)
{
	(void)state;
	static const size_t sizes[] = {1, 4, 4096, 64 * KIB - 1};
	for (size_t i = 0; i < ENTRIES; i++)
		for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
			const struct entry *e = &entries[i];
			CUdeviceptr d = device_new(sizes[k]);
			unsigned char *h = pages_new(sizes[k], 7);
			if (e->form == D2H || e->form == D2H_ASYNC) {
				device_write(d, sizes[k], 8);
				OK(from_device(e, e->linked, h, d, sizes[k]));
				HOST_IS(h, sizes[k], 8);
			} else {
				OK(to_device(e, e->linked, d, h, sizes[k]));
				memset(h, 0, sizes[k]);
				DEVICE_IS(d, sizes[k], 7);
			}
			pages_free(h, sizes[k]);
			device_free(d);
		}
}

/* CU_STREAM_LEGACY, CU_STREAM_PER_THREAD and 0 as explicit handles, in both ABIs. */
static void special_stream_handles(void **state)
{
	(void)state;
	const CUstream handles[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
	for (size_t i = 0; i < ENTRIES; i++) {
		if (entries[i].form < H2D_ASYNC)
			continue;
		for (size_t k = 0; k < 3; k++) {
			CUstream own = stream;
			stream = handles[k];
			copy_both_ways(&entries[i], entries[i].linked, MIB);
			copy_both_ways(&entries[i], entries[i].linked, 9 * MIB);
			stream = own;
		}
	}
}

int main(void)
{
	copy_open();
	if (cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
		return 1;
	const struct CMUnitTest tests[] = {
		STAGED(linked_directly),        STAGED(by_dlsym),
		STAGED(by_get_proc_address),    PASSED(small_copies_pass),
		STAGED(special_stream_handles),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
