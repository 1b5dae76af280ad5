/* test_doors.c - every function of the driver tells pending all-gathers what its class says, before the real call. */
#include <errno.h>
#include <execinfo.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <cuda.h>

#include "doors.h"
#include "guard.h"
#include "real.h"
#include "stats.h"

/* ---- in place of policy/nccl/coalesce.c: what was told ---- */

enum told {
	TOLD_NOTHING,
	TOLD_STREAM,
	TOLD_WAIT,
	TOLD_EVENT,
	TOLD_DESTROYED,
	TOLD_STREAM_WAIT,
	TOLD_RECORD,
	TOLD_STREAM_GONE
};

static struct {
	enum told what[4];
	const void *handle[4];
	bool per_thread;
	int id;
	int n;
	int before_real; /* n when the real function was called; -1: it was not */
	bool take;       /* coalesce_record() takes, queries answer */
	bool compare;    /* a stub is called: the real function gets what it was called with */
} seen;

static void see(enum told what, const void *handle)
{
	assert_true(guard_inside());
	assert_true(seen.n < 4);
	seen.what[seen.n] = what;
	seen.handle[seen.n++] = handle;
	errno = ENOTTY;
}

static void (*look)(void); /* from inside a door */

void coalesce_before_stream(CUstream stream, bool per_thread, enum hook_id id)
{
	see(TOLD_STREAM, stream);
	seen.per_thread = per_thread;
	seen.id = (int)id;
	if (look)
		look();
}

void coalesce_before_stream_sync(CUstream stream, bool per_thread)
{
	see(TOLD_WAIT, stream);
	seen.per_thread = per_thread;
}

void coalesce_before_event_sync(CUevent event)
{
	see(TOLD_WAIT, event);
}

bool coalesce_event_is_ours(CUevent event)
{
	(void)event;
	return true;
}

void coalesce_before_wait(void)
{
	see(TOLD_WAIT, NULL);
}

void coalesce_before_stream_wait(CUstream stream, bool per_thread, CUevent event)
{
	(void)event;
	see(TOLD_STREAM_WAIT, stream);
	seen.per_thread = per_thread;
}

void coalesce_event_gone(CUevent event, bool destroyed)
{
	see(destroyed ? TOLD_DESTROYED : TOLD_EVENT, event);
}

void coalesce_stream_gone(CUstream stream)
{
	see(TOLD_STREAM_GONE, stream);
}

bool coalesce_record(CUevent event, CUstream stream, bool per_thread, unsigned flags, CUresult *status)
{
	(void)flags;
	(void)stream;
	see(TOLD_RECORD, event);
	seen.per_thread = per_thread;
	*status = CUDA_SUCCESS;
	return seen.take;
}

bool coalesce_event_query(CUevent event)
{
	(void)event;
	return seen.take;
}

bool coalesce_stream_query(CUstream stream, bool per_thread)
{
	(void)stream;
	(void)per_thread;
	return seen.take;
}

/* ---- every function, called alike: each argument is one integer ---- */

#define ARGUMENTS 12
#define STREAM ((CUstream)(uintptr_t)0x5151000)
#define OTHER ((CUstream)(uintptr_t)0x5252000)
#define ANSWER 400 /* CUDA_ERROR_INVALID_HANDLE */

typedef long any_fn(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
					uint64_t, uint64_t, uint64_t);

/* What a pointer points to: zeros, but for the stream of a launch's configuration. */
static union {
	uint64_t words[1024];
	CUlaunchConfig config;
} page;

static uint64_t arguments[ARGUMENTS];

static long real_function(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g,
						  uint64_t h, uint64_t i, uint64_t j, uint64_t k, uint64_t l)
{
	const uint64_t got[ARGUMENTS] = {a, b, c, d, e, f, g, h, i, j, k, l};

	seen.before_real = seen.n;
	for (int n = 0; n < ARGUMENTS && seen.compare; n++)
		assert_true(got[n] == arguments[n]);
	return ANSWER;
}

static void set_arguments(enum hook_id id)
{
	const struct door *door = &door_table[id];

	memset(&page, 0, sizeof(page));
	page.config.hStream = STREAM;
	for (int n = 0; n < ARGUMENTS; n++)
		arguments[n] = (uint64_t)(uintptr_t)&page;
	if (door->class == DOOR_STREAMS || door->class == DOOR_EVENTS)
		arguments[door->second] = (uint64_t)(uintptr_t)OTHER;
	if (door->class != DOOR_NONE && door->class != DOOR_WAIT && door->class != DOOR_OWN)
		arguments[door->first] = (uint64_t)(uintptr_t)STREAM;
}

static long call(enum hook_id id)
{
	void *saved = real_fn[id];
	const uint64_t *a = arguments;

	memset(&seen, 0, sizeof(seen));
	seen.compare = hook_table[id].how == HOOK_HOW_COUNT;
	seen.before_real = -1;
	real_fn[id] = (void *)real_function;
	errno = EXDEV;
	long status = ((any_fn *)hook_table[id].ours)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9],
												  a[10], a[11]);
	assert_int_equal(errno, EXDEV);
	real_fn[id] = saved;
	return status;
}

static void switched(bool on, unsigned pending)
{
	atomic_store(&coalesce_on, on);
	atomic_store(&coalesce_pending, pending);
}

static void expect(const char *name, int n, enum told what, const void *handle)
{
	if (seen.n <= n || seen.what[n] != what || seen.handle[n] != handle)
		fail_msg("%s: told %d things, number %d is %d about %p", name, seen.n, n, (int)seen.what[n],
				 seen.handle[n]);
}

static void expect_class(enum hook_id id)
{
	const struct door *door = &door_table[id];
	const char *name = hook_table[id].name;
	static const int things[] = {
		[DOOR_NONE] = 0, [DOOR_STREAM] = 1, [DOOR_STREAMS] = 2, [DOOR_EVENT] = 1,   [DOOR_EVENTS] = 2,
		[DOOR_GONE] = 1, [DOOR_WAIT] = 1,   [DOOR_UNNAMED] = 1, [DOOR_RECORDED] = 1};

	if (seen.n != things[door->class])
		fail_msg("%s: told %d things of %d", name, seen.n, things[door->class]);
	switch ((enum door_class)door->class) {
	case DOOR_STREAMS:
	case DOOR_STREAM:
		expect(name, seen.n - 1, TOLD_STREAM, STREAM);
		assert_int_equal(seen.id, id);
		assert_int_equal(seen.per_thread, strstr(name, "_ptsz") || strstr(name, "_ptds"));
		break;
	case DOOR_EVENTS:
	case DOOR_EVENT: expect(name, seen.n - 1, TOLD_EVENT, STREAM); break;
	case DOOR_GONE: expect(name, 0, TOLD_DESTROYED, STREAM); break;
	case DOOR_RECORDED: expect(name, 0, TOLD_WAIT, STREAM); break;
	case DOOR_WAIT: expect(name, 0, TOLD_WAIT, NULL); break;
	case DOOR_UNNAMED:
		expect(name, 0, TOLD_STREAM, NULL);
		assert_int_equal(seen.id, id);
		break;
	case DOOR_NONE:
	case DOOR_OWN: break;
	}
	if (door->class == DOOR_STREAMS)
		expect(name, 0, TOLD_STREAM, OTHER);
	if (door->class == DOOR_EVENTS)
		expect(name, 0, TOLD_EVENT, OTHER);
}

static bool is_drivers(enum hook_id id)
{
	return hook_table[id].lib == HOOK_LIB_CUDA && hook_table[id].how != HOOK_HOW_PASS;
}

/* What its class says, to whom it says it, and before the real call is made, which is made once and as it was. */
static void every_function_tells_what_its_class_says(void **state)
{
	int functions = 0;

	(void)state;
	for (enum hook_id id = 0; id < HOOK_COUNT; id++) {
		if (!is_drivers(id) || door_table[id].class == DOOR_OWN)
			continue;
		set_arguments(id);
		switched(true, 1);
		long status = call(id);
		switched(false, 0);
		if (status != ANSWER || seen.before_real != seen.n)
			fail_msg("%s: answered %ld; the real call came after %d of %d", hook_table[id].name, status,
					 seen.before_real, seen.n);
		expect_class(id);
		functions++;
	}
	assert_true(functions > 350);
}

static void nothing_is_told_while_it_is_off(void **state)
{
	(void)state;
	for (enum hook_id id = 0; id < HOOK_COUNT; id++) {
		if (!is_drivers(id))
			continue;
		set_arguments(id);
		switched(false, 1);
		call(id);
		switched(false, 0);
		assert_int_equal(seen.n, 0);
	}
}

/* Nor inside libturbo; but it is counted, once a call. */
static void calls_are_counted_when_nothing_is_pending(void **state)
{
	(void)state;
	for (enum hook_id id = 0; id < HOOK_COUNT; id++) {
		int class = door_table[id].class;
		if (!is_drivers(id) || (class != DOOR_STREAM && class != DOOR_WAIT))
			continue;
		for (unsigned pending = 0; pending < 2; pending++) {
			uint64_t before = doors_submissions(STREAM), calls = stats_cell_sum(id);

			set_arguments(id);
			switched(true, pending);
			turbo_tls.depth += pending;
			call(id);
			turbo_tls.depth -= pending;
			switched(false, 0);
			if (doors_submissions(STREAM) == before || stats_cell_sum(id) != calls + 1 || seen.n)
				fail_msg("%s is not counted", hook_table[id].name);
		}
	}
}

/* ---- functions whose body does it ---- */

static void call_own(enum hook_id id)
{
	set_arguments(id);
	switched(true, 1);
	call(id);
	switched(false, 0);
	assert_int_equal(seen.before_real, seen.n);
}

#define EACH(...)               \
	(const enum hook_id[])      \
	{                           \
		__VA_ARGS__, HOOK_COUNT \
	}
#define FOR_EACH(id, ...)                                                                 \
	for (const enum hook_id *p_ = EACH(__VA_ARGS__), *one_ = p_; *p_ != HOOK_COUNT; p_++) \
		for (id = *p_, one_ = p_; one_; one_ = NULL)

static void bodies_tell(void **state)
{
	enum hook_id id;

	(void)state;
	FOR_EACH(id, HOOK_cuLaunchKernelEx, HOOK_cuLaunchKernelEx_ptsz)
	{
		call_own(id);
		assert_int_equal(seen.n, 1);
		expect("cuLaunchKernelEx", 0, TOLD_STREAM, STREAM);
		assert_int_equal(seen.per_thread, id == HOOK_cuLaunchKernelEx_ptsz);
	}
	FOR_EACH(id, HOOK_cuGraphLaunch, HOOK_cuGraphLaunch_ptsz)
	{
		call_own(id);
		assert_int_equal(seen.n, 1);
		expect("cuGraphLaunch", 0, TOLD_STREAM, &page);
	}
	FOR_EACH(id, HOOK_cuStreamWaitEvent, HOOK_cuStreamWaitEvent_ptsz)
	{
		call_own(id);
		assert_int_equal(seen.n, 1);
		expect("cuStreamWaitEvent", 0, TOLD_STREAM_WAIT, &page);
		assert_int_equal(seen.per_thread, id == HOOK_cuStreamWaitEvent_ptsz);
	}
	FOR_EACH(id, HOOK_cuStreamSynchronize, HOOK_cuStreamSynchronize_ptsz)
	{
		call_own(id);
		assert_int_equal(seen.n, 1);
		expect("cuStreamSynchronize", 0, TOLD_WAIT, &page);
		assert_int_equal(seen.per_thread, id == HOOK_cuStreamSynchronize_ptsz);
	}
	call_own(HOOK_cuEventSynchronize);
	assert_int_equal(seen.n, 1);
	expect("cuEventSynchronize", 0, TOLD_WAIT, &page);
	FOR_EACH(id, HOOK_cuStreamDestroy, HOOK_cuStreamDestroy_v2)
	{
		call_own(id);
		assert_int_equal(seen.n, 2);
		expect("cuStreamDestroy", 0, TOLD_WAIT, NULL);
		expect("cuStreamDestroy", 1, TOLD_STREAM_GONE, &page);
	}
	FOR_EACH(id, HOOK_cuEventRecord, HOOK_cuEventRecord_ptsz, HOOK_cuEventRecordWithFlags,
			 HOOK_cuEventRecordWithFlags_ptsz)
	{
		call_own(id);
		assert_int_equal(seen.n, 1);
		expect("cuEventRecord", 0, TOLD_RECORD, &page);
		assert_int_equal(seen.per_thread, strstr(hook_table[id].name, "_ptsz") != NULL);
	}
}

/* What coalescing has taken does not come to the driver. */
static CUresult call_taken(enum hook_id id)
{
	const uint64_t *a = arguments;
	void *saved = real_fn[id];

	set_arguments(id);
	memset(&seen, 0, sizeof(seen));
	seen.before_real = -1;
	seen.take = true;
	real_fn[id] = (void *)real_function;
	switched(true, 1);
	long status = ((any_fn *)hook_table[id].ours)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9],
												  a[10], a[11]);
	switched(false, 0);
	real_fn[id] = saved;
	assert_int_equal(seen.before_real, -1);
	return (CUresult)status;
}

static void bodies_answer_for_what_is_pending(void **state)
{
	enum hook_id id;

	(void)state;
	FOR_EACH(id, HOOK_cuEventQuery, HOOK_cuStreamQuery, HOOK_cuStreamQuery_ptsz)
	assert_int_equal(call_taken(id), CUDA_ERROR_NOT_READY);
	FOR_EACH(id, HOOK_cuEventRecord, HOOK_cuEventRecord_ptsz, HOOK_cuEventRecordWithFlags,
			 HOOK_cuEventRecordWithFlags_ptsz)
	assert_int_equal(call_taken(id), CUDA_SUCCESS);
}

/* ---- arguments as the compiler passes them ---- */

static void the_compilers_arguments_are_found(void **state)
{
	static CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 7};
	void *saved[] = {real_fn[HOOK_cuMemPrefetchAsync_v2], real_fn[HOOK_cuMemcpyBatchAsync]};

	(void)state;
	memset(&seen, 0, sizeof(seen));
	real_fn[HOOK_cuMemPrefetchAsync_v2] = real_fn[HOOK_cuMemcpyBatchAsync] = (void *)real_function;
	switched(true, 1);
	((__typeof__(&cuMemPrefetchAsync_v2))hook_table[HOOK_cuMemPrefetchAsync_v2].ours)(1, 2, location, 3,
																					  STREAM);
	expect("cuMemPrefetchAsync_v2", 0, TOLD_STREAM, STREAM);
	((__typeof__(&cuMemcpyBatchAsync))hook_table[HOOK_cuMemcpyBatchAsync].ours)(NULL, NULL, NULL, 1, NULL,
																				NULL, 2, NULL, OTHER);
	expect("cuMemcpyBatchAsync", 1, TOLD_STREAM, OTHER);
	switched(false, 0);
	real_fn[HOOK_cuMemPrefetchAsync_v2] = saved[0];
	real_fn[HOOK_cuMemcpyBatchAsync] = saved[1];
}

/* ---- unwinding ---- */

static bool caller_found;

static __attribute__((noinline)) void call_for_unwinding(void)
{
	call(HOOK_cuMemsetD8Async);
	__asm__ volatile(""); /* no tail call */
}

static void look_for_caller(void)
{
	void *frame[64];
	int n = backtrace(frame, 64);

	for (int i = 0; i < n; i++)
		caller_found |= (uintptr_t)frame[i] - (uintptr_t)call_for_unwinding < 1024;
}

/* A debugger, a profiler or an exception finds its way from inside a door to the program. */
static void doors_can_be_unwound(void **state)
{
	(void)state;
	set_arguments(HOOK_cuMemsetD8Async);
	switched(true, 1);
	look = look_for_caller;
	caller_found = false;
	call_for_unwinding();
	look = NULL;
	switched(false, 0);
	assert_true(caller_found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_function_tells_what_its_class_says),
		cmocka_unit_test(nothing_is_told_while_it_is_off),
		cmocka_unit_test(calls_are_counted_when_nothing_is_pending),
		cmocka_unit_test(bodies_tell),
		cmocka_unit_test(bodies_answer_for_what_is_pending),
		cmocka_unit_test(the_compilers_arguments_are_found),
		cmocka_unit_test(doors_can_be_unwound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
