#include "copy_fixture.h"

#include <dlfcn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/gpu/kernels_ptx.h"

#define CHUNK (4 * MIB)

struct copy_fixture fx;
struct copy_sim sim;

static void die(const char *what)
{
	fprintf(stderr, "set-up failed: %s\n", what);
	exit(1);
}

void copy_ok(CUresult r, const char *call, const char *file, int line)
{
	if (r != CUDA_SUCCESS) {
		print_error("%s: %s\n", call, cuda_dl_error(r));
		_fail(file, line);
	}
}

static void open_sim(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	if (!lib)
		die("libcuda.so.1 is not loaded");
	const struct {
		const char *name;
		void *slot;
	} functions[] = {
		{"sim_fail_set", &sim.fail_set},
		{"sim_fail_clear", &sim.fail_clear},
		{"sim_calls", &sim.calls},
		{"sim_calls_in_child", &sim.calls_in_child},
		{"sim_live_events", &sim.live_events},
		{"sim_live_streams", &sim.live_streams},
		{"sim_live_allocs", &sim.live_allocs},
		{"sim_host_registrations", &sim.host_registrations},
		{"sim_errors", &sim.errors},
	};
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		*(void **)functions[i].slot = dlsym(lib, functions[i].name);
}

static CUfunction kernel(CUmodule module, const char *name)
{
	CUfunction f = NULL;
	if (cu.cuModuleGetFunction(&f, module, name) != CUDA_SUCCESS)
		die(name);
	return f;
}

void copy_open(void)
{
	setenv("CUDA_MODULE_LOADING", "EAGER", 0);
	const char *why = cuda_dl_open();
	if (why) {
		printf("%s\n", why);
		exit(77);
	}
	open_sim();
	const char *san = getenv("SAN");
	fx.san = san && *san;
	fx.tsan = san && !strcmp(san, "thread");
	fx.preloaded = counters_preloaded();
	if (fx.preloaded && !counters_open())
		die("libturbo.so is preloaded and has no stats file");
	CUmodule module;
	if (cu.cuDeviceGetCount(&fx.devices) || cu.cuDevicePrimaryCtxRetain(&fx.ctx, 0) ||
		cu.cuCtxSetCurrent(fx.ctx))
		die("context");
	if (cu.cuModuleLoadData(&module, kernels_ptx))
		die("module");
	fx.fill32 = kernel(module, "fill32");
	fx.add32 = kernel(module, "add32");
	fx.copy = kernel(module, "copy");
	fx.spin_us = kernel(module, "spin_us");
	fx.spin_flag = kernel(module, "spin_flag");
	if (cu.cuMemHostAlloc((void **)&fx.flag, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) ||
		cu.cuMemHostGetDevicePointer_v2(&fx.flag_dev, fx.flag, 0))
		die("mapped word");
	*fx.flag = 0;
}

void copy_limit(void)
{
	const char *san = getenv("SAN"); /* tests/run.sh sets it and has a limit of its own */
	alarm(san && *san ? 450 : 110);
}

/* ---- begin and end of a test ---- */

static uint64_t staged_before, errors_before, mismatch_before;
static bool skipped;

uint64_t copy_staged(void)
{
	return counter("copy.h2d.staged") + counter("copy.d2h.staged");
}

int copy_begin(void **state)
{
	(void)state;
	skipped = false;
	*fx.flag = 0;
	staged_before = copy_staged();
	mismatch_before = counter("copy.mismatch");
	errors_before = sim.errors ? sim.errors() : 0;
	return 0;
}

void copy_skip(const char *why)
{
	print_message("%s\n", why);
	skipped = true;
	skip();
}

int copy_end(void **state)
{
	(void)state;
	if (cu.cuCtxSynchronize() != CUDA_SUCCESS) {
		print_error("the context ended with an error\n");
		return -1;
	}
	if (sim.errors && sim.errors() != errors_before) {
		print_error("the simulator saw mistakes\n");
		return -1;
	}
	if (counter("copy.mismatch") != mismatch_before) {
		print_error("TURBO_VERIFY saw a difference\n");
		return -1;
	}
	return 0;
}

int copy_end_staged(void **state)
{
	if (fx.preloaded && !skipped && copy_staged() == staged_before) {
		print_error("nothing was staged\n");
		return -1;
	}
	return copy_end(state);
}

int copy_end_passed(void **state)
{
	if (copy_staged() != staged_before) {
		print_error("a copy was staged\n");
		return -1;
	}
	return copy_end(state);
}

/* ---- kernels ---- */

static CUresult launch(CUfunction f, CUstream s, bool ptsz, bool single, void **args)
{
	unsigned blocks = single ? 1 : 64, threads = single ? 1 : 256;
	if (ptsz)
		return cu.cuLaunchKernel_ptsz(f, blocks, 1, 1, threads, 1, 1, 0, s, args, NULL);
	return cu.cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, s, args, NULL);
}

CUresult launch_fill(CUstream s, CUdeviceptr p, size_t words, uint32_t value)
{
	return launch(fx.fill32, s, false, false, (void *[]){&p, &words, &value});
}

CUresult launch_fill_ptsz(CUstream s, CUdeviceptr p, size_t words, uint32_t value)
{
	return launch(fx.fill32, s, true, false, (void *[]){&p, &words, &value});
}

CUresult launch_add(CUstream s, CUdeviceptr p, size_t words, uint32_t value)
{
	return launch(fx.add32, s, false, false, (void *[]){&p, &words, &value});
}

CUresult launch_copy(CUstream s, CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
	return launch(fx.copy, s, false, false, (void *[]){&dst, &src, &bytes});
}

CUresult launch_copy_ptsz(CUstream s, CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
	return launch(fx.copy, s, true, false, (void *[]){&dst, &src, &bytes});
}

CUresult launch_spin(CUstream s, unsigned ms)
{
	uint64_t us = (uint64_t)ms * 1000;
	return launch(fx.spin_us, s, false, true, (void *[]){&us});
}

CUresult launch_spin_flag(CUstream s)
{
	return launch(fx.spin_flag, s, false, true, (void *[]){&fx.flag_dev});
}

/* ---- memory ---- */

unsigned char *pages_new(size_t bytes, uint32_t seed)
{
	unsigned char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		die("no memory");
	pattern_fill(p, bytes, seed);
	return p;
}

void pages_free(void *p, size_t bytes)
{
	munmap(p, bytes);
}

CUdeviceptr device_new(size_t bytes)
{
	CUdeviceptr p = 0;
	OK(cu.cuMemAlloc_v2(&p, bytes));
	return p;
}

void device_free(CUdeviceptr p)
{
	OK(cu.cuMemFree_v2(p));
}

/* Calls look(bytes, offset, length, seed) on pinned copies of the device bytes in turn. */
typedef int64_t look_fn(const void *bytes, size_t first_word, size_t length, uint32_t seed);

static int64_t device_look(CUdeviceptr p, size_t first_word, size_t bytes, uint32_t seed, look_fn *look)
{
	void *pinned;
	if (cu.cuCtxSynchronize() || cu.cuMemHostAlloc(&pinned, CHUNK, 0))
		return -2;
	int64_t bad = -1;
	for (size_t at = 0; bad == -1 && at < bytes; at += CHUNK) {
		size_t part = bytes - at < CHUNK ? bytes - at : CHUNK;
		if (cu.cuMemcpyDtoH_v2(pinned, p + at, part)) {
			bad = -2;
			break;
		}
		bad = look(pinned, first_word + at / 4, part, seed);
		if (bad >= 0)
			bad += (int64_t)at;
	}
	cu.cuMemFreeHost(pinned);
	return bad;
}

static int64_t differs_word(const void *bytes, size_t first_word, size_t length, uint32_t word)
{
	(void)first_word;
	for (size_t i = 0; i < length; i++)
		if (((const unsigned char *)bytes)[i] != ((const unsigned char *)&word)[i % 4])
			return (int64_t)i;
	return -1;
}

int64_t device_differs_from(CUdeviceptr p, size_t first_word, size_t bytes, uint32_t seed)
{
	return device_look(p, first_word, bytes, seed, pattern_check_from);
}

int64_t device_differs(CUdeviceptr p, size_t bytes, uint32_t seed)
{
	return device_differs_from(p, 0, bytes, seed);
}

int64_t device_differs_word(CUdeviceptr p, size_t bytes, uint32_t word)
{
	return device_look(p, 0, bytes, word, differs_word);
}

void device_write(CUdeviceptr p, size_t bytes, uint32_t seed)
{
	void *pinned;
	OK(cu.cuMemHostAlloc(&pinned, CHUNK, 0));
	for (size_t at = 0; at < bytes; at += CHUNK) {
		size_t part = bytes - at < CHUNK ? bytes - at : CHUNK;
		pattern_fill_from(pinned, at / 4, part, seed);
		OK(cu.cuMemcpyHtoD_v2(p + at, pinned, part));
	}
	OK(cu.cuCtxSynchronize());
	OK(cu.cuMemFreeHost(pinned));
}
