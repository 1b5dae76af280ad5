#include "devmem_fixture.h"

#include <dlfcn.h>

struct devmem_sim dsim;

void devmem_open(void)
{
	copy_limit();
	copy_open();
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	const struct {
		const char *name;
		void *slot;
	} functions[] = {
		{"sim_live_bytes", &dsim.live_bytes}, {"sim_peak_bytes", &dsim.peak_bytes},
		{"sim_free_waits", &dsim.free_waits}, {"sim_launch_delay_ns_max", &dsim.launch_delay_ns_max},
		{"sim_reset", &dsim.reset},
	};
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		*(void **)functions[i].slot = dlsym(lib, functions[i].name);
}

uint64_t real_allocs(void)
{
	return sim.calls ? sim.calls("cuMemAlloc_v2") : 0;
}

uint64_t real_frees(void)
{
	return sim.calls ? sim.calls("cuMemFree_v2") : 0;
}

uint64_t hits(void)
{
	return counter("devmem.cache.hits");
}

/* ---- busy streams ---- */

static _Atomic int let_go;

static void wait_to_be_let_go(void *unused)
{
	(void)unused;
	for (int ms = 0; ms < 20000 && !let_go; ms++)
		sleep_ms(1);
}

void busy_begin(CUstream stream)
{
	let_go = 0;
	OK(cu.cuLaunchHostFunc(stream, wait_to_be_let_go, NULL));
}

void busy_end(void)
{
	let_go = 1;
}

/* ---- frees on other threads ---- */

static void *free_main(void *arg)
{
	struct freeing *f = arg;
	if (f->ctx)
		cu.cuCtxSetCurrent(f->ctx);
	f->result = cu.cuMemFree_v2(f->p);
	f->done = 1;
	return NULL;
}

void freeing_begin(struct freeing *f, CUcontext ctx, CUdeviceptr p)
{
	*f = (struct freeing){.ctx = ctx, .p = p};
	assert_int_equal(pthread_create(&f->thread, NULL, free_main, f), 0);
}

CUresult freeing_end(struct freeing *f)
{
	pthread_join(f->thread, NULL);
	return f->result;
}

size_t free_bytes(void)
{
	size_t available = 0, total = 0;
	OK(cu.cuMemGetInfo_v2(&available, &total));
	assert_true(available <= total);
	return available;
}

uint64_t becomes(uint64_t (*value)(void), uint64_t want, unsigned ms)
{
	for (; ms && value() != want; ms--)
		sleep_ms(1);
	return value();
}
