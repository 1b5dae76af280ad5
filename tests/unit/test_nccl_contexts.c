/* NATIVE: the simulated driver reserves more than valgrind has. */
/* test_nccl_contexts.c - contexts that end, devices that fail, a driver that does not answer, forked children, exits. */
#include "common/progress_fixture.h"

#include <sys/wait.h>

#define COMM (&rig_comm[0])
#define OTHER (&rig_comm[1])

static CUcontext context_new(CUdevice device)
{
	CUcontext ctx, popped;
	OK(REAL(cuCtxCreate_v2)(&ctx, 0, device));
	OK(REAL(cuCtxPopCurrent_v2)(&popped));
	rig_kernels(ctx);
	return ctx;
}

static CUstream stream_of(CUcontext ctx)
{
	CUcontext popped;
	OK(REAL(cuCtxPushCurrent_v2)(ctx));
	CUstream s = stream_new();
	OK(REAL(cuCtxPopCurrent_v2)(&popped));
	return s;
}

/* As the policies are told. */
static void gone(CUcontext ctx, int device)
{
	guard_enter();
	progress_context_gone(ctx, device);
	guard_leave();
}

/* A call that is done at once, followed to its end. */
static void follows(struct flight_comm *comm, CUstream s)
{
	uint64_t index = issue(comm, 0, 0);
	uint32_t launch = before(comm, s);
	assert_int_not_equal(launch, 0);
	after(launch, index);
	EVENTUALLY(comm->done == index);
}

/* Nobody waits for work of a context that is no more; its events are not asked again. */
static void a_context_may_go_with_launches_open(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		CUcontext ctx = context_new(0);
		CUstream s = stream_of(ctx);
		follows(COMM, s);
		launch_spin(s, 50000);
		uint64_t index = issue(COMM, 0, 0);
		uint32_t launch = before(COMM, s), late = before(COMM, s);
		after(launch, index);
		gone(ctx, -1);
		OK(REAL(cuCtxDestroy_v2)(ctx));
		after(late, issue(COMM, 0, 0));
		EVENTUALLY(COMM->done == index);
		follows(OTHER, NULL);
	}
}

static void a_primary_context_is_reset(void **state)
{
	CUcontext second, own = context_new(1);
	CUstream kept = stream_of(own);
	(void)state;
	OK(REAL(cuDevicePrimaryCtxRetain)(&second, 1));
	CUstream s = stream_of(second);
	follows(COMM, s);
	follows(OTHER, kept);
	uint64_t index = issue(COMM, 0, 0);
	uint32_t launch = before(COMM, s);
	after(launch, index);
	guard_enter();
	progress_quiet(true);
	uint64_t asked = rig_sim_calls("cuEventQuery");
	sleep_ms(LOOKS_MS);
	assert_int_equal(rig_sim_calls("cuEventQuery"), asked);
	OK(REAL(cuDevicePrimaryCtxReset_v2)(1));
	progress_context_gone(NULL, 1);
	progress_quiet(false);
	guard_leave();
	EVENTUALLY(COMM->done == index);
	/* It is made anew; another context of the device has been there all the time. */
	uint64_t events = rig_sim_live_events();
	follows(OTHER, kept);
	assert_int_equal(rig_sim_live_events(), events);
	OK(REAL(cuDevicePrimaryCtxRetain)(&second, 1));
	follows(COMM, stream_of(second));
	OK(REAL(cuDevicePrimaryCtxRelease_v2)(1));
	gone(own, -1);
	OK(REAL(cuCtxDestroy_v2)(own));
}

/* cuCtxDestroy() does not destroy a primary context. */
static void a_primary_context_is_not_gone_by_its_handle(void **state)
{
	CUcontext ctx;
	CUstream s = stream_new();
	(void)state;
	OK(REAL(cuCtxGetCurrent)(&ctx));
	call_gate(COMM, s, 0);
	gone(ctx, -1);
	sleep_ms(LOOKS_MS);
	assert_int_equal(COMM->done, 0);
	gate_open(0);
	EVENTUALLY(COMM->done == 1);
}

/* ---- a driver that does not come back ---- */

static _Atomic bool block, blocked;
static CUresult (*real_query)(CUevent event);

static CUresult query_that_blocks(CUevent event)
{
	while (atomic_load(&block)) {
		atomic_store(&blocked, true);
		sleep_ms(1);
	}
	atomic_store(&blocked, false);
	return real_query(event);
}

/* The program goes on, and it can be seen from outside. */
static void nobody_waits_for_a_sampler_that_is_stuck(void **state)
{
	CUstream s = stream_new();
	CUcontext ctx = context_new(0);
	CUstream going = stream_of(ctx);
	(void)state;
	call_gate(COMM, s, 0);
	real_query = REAL(cuEventQuery);
	atomic_store(&block, true);
	__atomic_store_n(&real_fn[HOOK_cuEventQuery], (void *)query_that_blocks, __ATOMIC_RELEASE);
	EVENTUALLY(atomic_load(&blocked));
	uint64_t back = rig_page.sampled, since = progress_now();
	for (unsigned i = 0; i < 100; i++)
		call_gate(COMM, s, 0);
	call_gate(OTHER, going, 1);
	assert_true(progress_now() - since < 500000000);
	sleep_ms(LOOKS_MS);
	assert_int_equal(rig_page.sampled, back);
	/* The end of a context waits for it, but not for ever. */
	gate_open(1);
	since = progress_now();
	gone(ctx, -1);
	assert_true(progress_now() - since > 500000000 && progress_now() - since < 2000000000);
	OK(REAL(cuCtxDestroy_v2)(ctx));
	gate_open(0);
	atomic_store(&block, false);
	__atomic_store_n(&real_fn[HOOK_cuEventQuery], (void *)real_query, __ATOMIC_RELEASE);
	EVENTUALLY(COMM->done == 101);
	EVENTUALLY(OTHER->done == 1);
	assert_true(rig_page.sampled > back);
}

/* ---- children, failures, exit ---- */

static void a_forked_child_calls_no_driver(void **state)
{
	CUstream s = stream_new();
	int status;
	(void)state;
	call_gate(COMM, s, 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (!child) {
		progress_fork_child();
		guard_enter();
		bool followed = progress_before(COMM, s) != 0;
		progress_after(1, 1);
		progress_context_gone(NULL, 0);
		progress_quiet(true);
		progress_quiet(false);
		_exit(followed);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	gate_open(0);
	EVENTUALLY(COMM->done == 1);
}

/* Of an error that lasts the program learns by its own calls, as ever; it is said once. */
static void a_device_that_failed_is_left_alone(void **state)
{
	CUcontext ctx = context_new(1);
	CUstream s = stream_of(ctx), other = stream_new();
	(void)state;
	OTHER->device = 1;
	uint64_t index = issue(OTHER, 0, 0);
	uint32_t launch = before(OTHER, s);
	launch_trap(s);
	after(launch, index);
	sleep_ms(LOOKS_MS + 50);
	assert_int_equal(OTHER->done, 0);
	uint64_t asked = rig_sim_calls("cuEventQuery");
	sleep_ms(LOOKS_MS);
	assert_int_equal(rig_sim_calls("cuEventQuery"), asked);
	assert_int_equal(before(OTHER, s), 0);
	assert_int_equal(cuStreamSynchronize(s), CUDA_ERROR_LAUNCH_FAILED);
	follows(COMM, other);
	gone(ctx, -1);
	REAL(cuCtxDestroy_v2)(ctx);
	EVENTUALLY(OTHER->done == 1); /* and what is left of it goes with its context */
}

/* The last test. */
static void nothing_is_asked_at_the_end(void **state)
{
	CUstream s = stream_new();
	(void)state;
	call_gate(COMM, s, 0);
	sleep_ms(LOOKS_MS);
	progress_stop();
	sleep_ms(10);
	uint64_t asked = rig_sim_calls("cuEventQuery");
	assert_int_equal(before(COMM, s), 0);
	sleep_ms(LOOKS_MS);
	assert_int_equal(rig_sim_calls("cuEventQuery"), asked);
	gate_open(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_context_may_go_with_launches_open),
		CASE(a_primary_context_is_reset),
		CASE(a_primary_context_is_not_gone_by_its_handle),
		CASE(nobody_waits_for_a_sampler_that_is_stuck),
		CASE(a_forked_child_calls_no_driver),
		CASE(a_device_that_failed_is_left_alone),
		CASE(nothing_is_asked_at_the_end),
	};
	return cmocka_run_group_tests_name("nccl_contexts", tests, rig_open, NULL);
}
