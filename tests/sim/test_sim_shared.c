/*
 * test_sim_shared.c - one device's finite memory, seen by several processes (SIM_SHARED), and
 * the counters of memory and waits.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/simother.h"
#include "sim.h"

#define MIB (1ull << 20)
#define TOTAL (1024 * MIB) /* SIM_MEM_MB's default */

enum order {
	ALLOC = 'a', /* that many bytes; answers the address */
	FREE = 'f',
	INFO = 'i', /* answers free bytes */
};

static size_t available(void)
{
	size_t bytes = 0, total = 0;
	ok(cuMemGetInfo_v2(&bytes, &total));
	assert_int_equal(total, TOTAL);
	return bytes;
}

static CUresult obey(char order, CUdeviceptr *value, int in, int out)
{
	CUdeviceptr p = 0;
	CUresult r;
	(void)in;
	(void)out;
	switch (order) {
	case ALLOC:
		r = cuMemAlloc_v2(&p, *value);
		*value = p;
		return r;
	case FREE: return cuMemFree_v2(*value);
	case INFO: *value = available(); return CUDA_SUCCESS;
	default: return CUDA_ERROR_UNKNOWN;
	}
}

static void memory_is_one_for_all_processes(void **state)
{
	(void)state;
	struct st_other o;
	st_other_start(&o);
	CUdeviceptr theirs, bytes;
	CUdeviceptr p = st_device(600 * MIB), q;
	ok(st_other_ask(&o, INFO, 0, &bytes));
	assert_int_equal(bytes, TOTAL - 600 * MIB);
	fails(st_other_ask(&o, ALLOC, 500 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	ok(st_other_ask(&o, ALLOC, 400 * MIB, &theirs));
	assert_int_equal(available(), 24 * MIB);
	fails(cuMemAlloc_v2(&q, 32 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(sim_live_bytes(0), 600 * MIB); /* this process's own */
	/* Handed to and fro. */
	ok(cuMemFree_v2(p));
	ok(st_other_ask(&o, ALLOC, 600 * MIB, &bytes));
	ok(st_other_ask(&o, FREE, bytes, NULL));
	ok(st_other_ask(&o, FREE, theirs, NULL));
	p = st_device(1000 * MIB);
	ok(cuMemFree_v2(p));
	st_other_stop(&o);
	assert_int_equal(available(), TOTAL);
}

static void a_killed_process_gives_its_memory_back(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct st_other o;
		st_other_start(&o);
		ok(st_other_ask(&o, ALLOC, 900 * MIB, NULL));
		CUdeviceptr p;
		fails(cuMemAlloc_v2(&p, 200 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
		st_other_kill(&o);
		p = st_device(200 * MIB); /* also while nobody has waited for the process */
		assert_int_equal(available(), TOTAL - 200 * MIB);
		ok(cuMemFree_v2(p));
		assert_int_equal(waitpid(o.pid, NULL, 0), o.pid);
	}
}

static void the_most_that_was_held(void **state)
{
	(void)state;
	sim_reset();
	CUdeviceptr p = st_device(10 * MIB), q = st_device(20 * MIB);
	ok(cuMemFree_v2(p));
	assert_int_equal(sim_live_bytes(0), 20 * MIB);
	assert_int_equal(sim_peak_bytes(0), 30 * MIB);
	sim_reset();
	assert_int_equal(sim_peak_bytes(0), 20 * MIB);
	ok(cuMemFree_v2(q));
	assert_int_equal(sim_live_bytes(0), 0);
	assert_int_equal(sim_live_bytes(1), 0);
	assert_int_equal(sim_live_bytes(-1), 0);
}

static void *free_it(void *p)
{
	ok(cuMemFree_v2((CUdeviceptr)p));
	return NULL;
}

static void *open_gate(void *gate)
{
	usleep(60000);
	st_gate_open(gate);
	return NULL;
}

static void a_free_that_waits_is_seen(void **state)
{
	(void)state;
	struct st_gate gate;
	pthread_t freeing, opening;
	CUstream busy = st_stream(CU_STREAM_NON_BLOCKING), s = st_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr p = st_device(MIB), q = st_device(MIB);
	sim_reset();
	ok(cuMemFree_v2(p));
	assert_int_equal(sim_free_waits(), 0);
	st_gate_close(&gate, busy);
	assert_int_equal(pthread_create(&freeing, NULL, free_it, (void *)q), 0);
	while (sim_calls("cuMemFree_v2") < 2)
		usleep(1000);
	usleep(20000);
	assert_int_equal(pthread_create(&opening, NULL, open_gate, &gate), 0);
	ok(cuStreamWriteValue32_v2(s, (CUdeviceptr)(gate.flag + 8), 1, 0));
	assert_int_equal(sim_free_waits(), 1);
	assert_true(sim_launch_delay_ns_max() > 20000000);
	pthread_join(freeing, NULL);
	pthread_join(opening, NULL);
	ok(cuCtxSynchronize());
	sim_reset();
	assert_int_equal(sim_launch_delay_ns_max(), 0);
	ok(cuStreamDestroy_v2(busy));
	ok(cuStreamDestroy_v2(s));
	st_gate_free(&gate);
	assert_int_equal(sim_free_waits(), 0);
}

int main(int argc, char **argv)
{
	char name[64];
	simtest_only_sim();
	if (argc == 3)
		return st_other_main(argv, obey);
	if (!getenv("SIM_SHARED")) { /* it is read when the driver starts */
		snprintf(name, sizeof name, "test-%d", (int)getpid());
		setenv("SIM_SHARED", name, 1);
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_one_for_all_processes),
		cmocka_unit_test(a_killed_process_gives_its_memory_back),
		cmocka_unit_test(the_most_that_was_held),
		cmocka_unit_test(a_free_that_waits_is_seen),
	};
	return cmocka_run_group_tests(tests, simtest_setup, simtest_teardown);
}
