#define _GNU_SOURCE
#include "progress_fixture.h"

#include <dlfcn.h>
#include <time.h>

#include "life.h"

#define GATES 64

struct flight_page rig_page;
struct flight_comm *rig_comm;
struct rig_graph rig_graphs[64];
unsigned rig_graph_count, rig_graph_ends;
int rig_graph_result;
uint64_t (*rig_sim_errors)(void);
uint64_t (*rig_sim_calls)(const char *symbol);
uint64_t (*rig_sim_live_events)(void);
void (*rig_sim_fail_set)(const char *symbol, int nth, int code);
void (*rig_sim_fail_clear)(void);

static uint32_t *gates; /* pinned; reached by the device under the same address */

/* ---- in place of flight.c ---- */

_Atomic bool flight_on = true;

struct flight_page *flight_page(void)
{
	return &rig_page;
}

void flight_graph_begin(struct flight_ticket *ticket, struct flight_comm *comm, uint32_t life, uint64_t calls,
						uint64_t bytes, void *stream)
{
	assert_int_equal(life, comm->life);
	assert_true(rig_graph_count < 64);
	rig_graphs[rig_graph_count++] = (struct rig_graph){comm, calls, bytes, stream};
	ticket->comm = comm;
}

void flight_end(struct flight_ticket *ticket, int result)
{
	assert_non_null(ticket->comm);
	rig_graph_ends++;
	rig_graph_result = result;
}

/* ---- the driver ---- */

void rig_ok(CUresult r, const char *call, int line)
{
	if (r != CUDA_SUCCESS)
		fail_msg("line %d: %s: %d", line, call, (int)r);
}

static void *need(void *driver, const char *name)
{
	void *fn = dlsym(driver, name);
	assert_non_null(fn);
	return fn;
}

static void open_sim(void)
{
	char path[4096];
	void *driver;

	snprintf(path, sizeof(path), "%s/libcuda.so.1", getenv("SIM_DIR") ? getenv("SIM_DIR") : "build/sim");
	driver = dlopen(path, RTLD_NOW);
	if (!driver) {
		printf("no simulated driver: %s\n", path);
		exit(77);
	}
	rig_sim_errors = (uint64_t(*)(void))need(driver, "sim_errors");
	rig_sim_calls = (uint64_t(*)(const char *))need(driver, "sim_calls");
	rig_sim_live_events = (uint64_t(*)(void))need(driver, "sim_live_events");
	rig_sim_fail_set = (void (*)(const char *, int, int))need(driver, "sim_fail_set");
	rig_sim_fail_clear = (void (*)(void))need(driver, "sim_fail_clear");
}

static struct kernels {
	CUcontext ctx;
	CUfunction spin_flag, spin_us, trap;
} kernels[16];

static struct kernels *kernels_of(CUcontext ctx)
{
	struct kernels *k = kernels;
	while (k->ctx && k->ctx != ctx)
		k++;
	assert_true(k < kernels + 15);
	return k;
}

void rig_kernels(CUcontext ctx)
{
	struct kernels *k = kernels_of(ctx);
	CUcontext popped;
	CUmodule module;

	k->ctx = ctx;
	OK(REAL(cuCtxPushCurrent_v2)(ctx));
	OK(REAL(cuModuleLoadData)(&module, "kernels"));
	OK(REAL(cuModuleGetFunction)(&k->spin_flag, module, "spin_flag"));
	OK(REAL(cuModuleGetFunction)(&k->spin_us, module, "spin_us"));
	OK(REAL(cuModuleGetFunction)(&k->trap, module, "trap"));
	OK(REAL(cuCtxPopCurrent_v2)(&popped));
}

int rig_open(void **state)
{
	CUcontext ctx;
	(void)state;
	open_sim();
	life_start(true, true);
	OK(cuInit(0));
	assert_true(life_cuda());
	OK(REAL(cuDevicePrimaryCtxRetain)(&ctx, 0));
	OK(REAL(cuCtxSetCurrent)(ctx));
	OK(REAL(cuMemHostAlloc)((void **)&gates, GATES * sizeof(*gates),
							CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	rig_kernels(ctx);
	rig_comm = aligned_alloc(64, RIG_COMMS * sizeof(*rig_comm));
	memset(rig_comm, 0, RIG_COMMS * sizeof(*rig_comm));
	guard_enter();
	progress_start();
	guard_leave();
	return 0;
}

int rig_begin(void **state)
{
	(void)state;
	memset(gates, 0, GATES * sizeof(*gates));
	for (unsigned i = 0; i < RIG_COMMS; i++) {
		struct flight_comm *c = &rig_comm[i];
		atomic_fetch_add(&c->life, 1);
		atomic_store(&c->issued, 0);
		atomic_store(&c->started, 0);
		atomic_store(&c->done, 0);
		atomic_store(&c->best_rate, 0);
		c->device = 0;
		c->nonblocking = 0;
		for (unsigned k = 0; k < FLIGHT_OPS; k++) {
			atomic_store(&c->op[k].started, 0);
			atomic_store(&c->op[k].done, 0);
		}
	}
	rig_graph_count = rig_graph_ends = 0;
	return 0;
}

int rig_end(void **state)
{
	(void)state;
	memset(gates, 0xff, GATES * sizeof(*gates));
	rig_sim_fail_clear();
	return rig_sim_errors() != 0;
}

CUstream stream_new(void)
{
	CUstream s;
	OK(REAL(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	return s;
}

static struct kernels *kernels_for(CUstream stream)
{
	CUcontext ctx;
	OK(REAL(cuStreamGetCtx)(stream, &ctx));
	assert_ptr_equal(kernels_of(ctx)->ctx, ctx);
	return kernels_of(ctx);
}

static void launch(CUfunction fn, CUstream stream, void *arg)
{
	void *args[] = {arg};
	OK(REAL(cuLaunchKernel)(fn, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

void launch_gate(CUstream stream, unsigned n)
{
	CUdeviceptr flag;
	OK(REAL(cuMemHostGetDevicePointer_v2)(&flag, &gates[n], 0));
	launch(kernels_for(stream)->spin_flag, stream, &flag);
}

void launch_spin(CUstream stream, unsigned us)
{
	uint64_t arg = us;
	launch(kernels_for(stream)->spin_us, stream, &arg);
}

void launch_trap(CUstream stream)
{
	launch(kernels_for(stream)->trap, stream, NULL);
}

void gate_open(unsigned n)
{
	__atomic_store_n(&gates[n], 1, __ATOMIC_RELEASE);
}

void gate_close(unsigned n)
{
	__atomic_store_n(&gates[n], 0, __ATOMIC_RELEASE);
}

/* ---- the record ---- */

struct flight_op *op_of(struct flight_comm *comm, uint64_t index)
{
	return &comm->op[index % FLIGHT_OPS];
}

uint64_t issue(struct flight_comm *comm, uint64_t bytes, uint32_t group)
{
	uint64_t index = atomic_load(&comm->issued) + 1;
	struct flight_op *op = op_of(comm, index);

	op->index = index;
	op->group = group;
	op->bytes = bytes;
	op->issued = progress_now();
	atomic_store(&op->started, 0);
	atomic_store(&op->done, 0);
	atomic_store(&comm->issued, index);
	return index;
}

uint32_t before(struct flight_comm *comm, CUstream stream)
{
	guard_enter();
	uint32_t launch = progress_before(comm, stream);
	guard_leave();
	return launch;
}

void after(uint32_t launch, uint64_t index)
{
	guard_enter();
	progress_after(launch, index);
	guard_leave();
}

uint32_t call_gate(struct flight_comm *comm, CUstream stream, unsigned n)
{
	uint64_t index = issue(comm, 1000, 0);
	uint32_t launch = before(comm, stream);
	launch_gate(stream, n);
	after(launch, index);
	return launch;
}

void sleep_ms(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
	nanosleep(&t, NULL);
}
