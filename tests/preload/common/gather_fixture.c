/*
 * gather_fixture.c - all-gathers that the host can watch.
 */
#include "gather_fixture.h"

#include "tests/gpu/common/util.h"
#include "tests/gpu/kernels_ptx.h"

CUcontext ctx;
CUstream stream;
ncclComm_t comm;

#define GROUPS_FORM 1

static CUfunction spin_flag;
static unsigned char *from, *to;
static uint32_t *gate;
static uint64_t seen;
static uint64_t errors_before, mistakes_before;

bool preloaded(void)
{
	const char *list = getenv("LD_PRELOAD");

	return list && strstr(list, "libturbo.so");
}

CUstream gather_stream(unsigned flags)
{
	CUstream s;

	OK(cuStreamCreate(&s, flags));
	return s;
}

CUevent event_new(unsigned flags)
{
	CUevent e;

	OK(cuEventCreate(&e, flags));
	return e;
}

static void ready(ncclComm_t c, ncclResult_t r)
{
	while (r == ncclInProgress) {
		usleep(200);
		OK(ncclCommGetAsyncError(c, &r));
	}
	OK(r);
}

ncclComm_t comm_new(bool blocking)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id;
	ncclComm_t c = NULL;
	ncclResult_t r;

	OK(ncclGetUniqueId(&id));
	config.blocking = blocking;
	r = blocking ? ncclCommInitRank(&c, 1, id, 0) : ncclCommInitRankConfig(&c, 1, id, 0, &config);
	ready(c, r);
	return c;
}

int gather_setup(void **state)
{
	CUmodule module;
	(void)state;
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuModuleLoadData(&module, kernels_ptx));
	OK(cuModuleGetFunction(&spin_flag, module, "spin_flag"));
	OK(cuMemHostAlloc((void **)&from, GATHER_SLOTS * GATHER_BYTES, 0));
	OK(cuMemHostAlloc((void **)&to, GATHER_SLOTS * GATHER_BYTES, 0));
	OK(cuMemHostAlloc((void **)&gate, 64, 0));
	for (int i = 0; i < GATHER_SLOTS; i++)
		pattern_fill(gather_from(i), GATHER_BYTES, (uint32_t)i + 7);
	stream = gather_stream(CU_STREAM_NON_BLOCKING);
	return 0;
}

int gather_teardown(void **state)
{
	(void)state;
	OK(cuStreamDestroy(stream));
	return 0;
}

int gather_begin(void **state)
{
	(void)state;
	*gate = 1;
	/* Of one that has seen many calls that came alone, none is held back any more. */
	comm = comm_new(true);
	/* One plain all-gather has connected it. */
	gather(0);
	OK(cuCtxSynchronize());
	memset(to, 0, GATHER_SLOTS * GATHER_BYTES);
	errors_before = sim_errors();
	mistakes_before = sim_nccl_mistakes();
	seen = sim_nccl_launches(comm);
	return 0;
}

int gather_end(void **state)
{
	(void)state;
	gate_open();
	sim_fail_clear();
	OK(cuCtxSynchronize());
	OK(ncclCommDestroy(comm));
	if (sim_errors() != errors_before || sim_nccl_mistakes() != mistakes_before) {
		print_error("the simulated driver or NCCL has seen mistakes\n");
		return -1;
	}
	return 0;
}

unsigned char *gather_from(int i)
{
	return from + (size_t)i * GATHER_BYTES;
}

unsigned char *gather_to(int i)
{
	return to + (size_t)i * GATHER_BYTES;
}

ncclResult_t gather_result(int i, ncclComm_t c, CUstream s)
{
	memset(gather_to(i), 0, GATHER_BYTES);
	return ncclAllGather(gather_from(i), gather_to(i), GATHER_BYTES, ncclUint8, c, s);
}

void gather_on(int i, ncclComm_t c, CUstream s)
{
	ready(c, gather_result(i, c, s));
}

void gather(int i)
{
	OK(gather_result(i, comm, stream));
}

void gathers(int first, int n)
{
	for (int i = 0; i < n; i++)
		gather(first + i);
}

bool arrived(int i)
{
	volatile const uint64_t *a = (const uint64_t *)(const void *)gather_to(i);
	const uint64_t *b = (const uint64_t *)(const void *)gather_from(i);

	for (int k = 0; k < GATHER_BYTES / 8; k++)
		if (a[k] != b[k])
			return false;
	return true;
}

bool all_arrived(int first, int n)
{
	for (int i = 0; i < n; i++)
		if (!arrived(first + i))
			return false;
	return true;
}

void must_arrive(int first, int n)
{
	for (int ms = 0; !all_arrived(first, n); ms++) {
		if (ms > GATHER_MS)
			fail_msg("the all-gathers have not come");
		usleep(1000);
	}
}

void must_event(CUevent e)
{
	CUresult r;

	for (int ms = 0; (r = cuEventQuery(e)) == CUDA_ERROR_NOT_READY; ms++) {
		if (ms > GATHER_MS)
			fail_msg("the event is never over");
		usleep(1000);
	}
	OK(r);
}

/* ---- gates ---- */

void gate_close(CUstream s)
{
	void *params[] = {&gate};

	__atomic_store_n(gate, 0, __ATOMIC_SEQ_CST);
	OK(cuLaunchKernel(spin_flag, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
}

void gate_open(void)
{
	__atomic_store_n(gate, 1, __ATOMIC_SEQ_CST);
}

/* ---- groups ---- */

static struct groups look(ncclComm_t c, uint64_t first)
{
	struct groups g = {0};

	for (uint64_t n = sim_nccl_launches(c); first < n; first++) {
		unsigned ops = sim_nccl_launch_ops(c, first);
		g.launches++;
		g.operations += ops;
		g.largest = ops > g.largest ? ops : g.largest;
	}
	return g;
}

struct groups groups_of(ncclComm_t c)
{
	return look(c, c == comm ? seen : 0);
}

void must_group(unsigned operations)
{
	struct groups g = groups_of(comm);

	assert_int_equal(g.operations, operations);
	if (GROUPS_FORM && preloaded() && g.largest < 2)
		fail_msg("%u operations in as many launches: none was grouped", operations);
}

void must_not_group(unsigned operations)
{
	struct groups g = groups_of(comm);

	assert_int_equal(g.operations, operations);
	assert_int_equal(g.launches, operations);
}
