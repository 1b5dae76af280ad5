/* test_doors_nccl.c - NCCL's own calls are counted and never heard: its threads must not wait for who launches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <cuda.h>
#include <dlfcn.h>

#include "doors.h"
#include "lookup.h"
#include "real.h"

#define STREAM ((CUstream)(uintptr_t)0x5151000)
#define EVENT ((CUevent)(uintptr_t)0x5252000)

/* In place of policy/nccl/coalesce.c. */
static int heard;

void coalesce_before_stream(CUstream stream, bool per_thread, enum hook_id id)
{
	(void)stream, (void)per_thread, (void)id;
	heard++;
}

void coalesce_before_stream_sync(CUstream stream, bool per_thread)
{
	(void)stream, (void)per_thread;
	heard++;
}

void coalesce_before_event_sync(CUevent event)
{
	(void)event;
	heard++;
}

bool coalesce_event_is_ours(CUevent event)
{
	(void)event;
	return true;
}

void coalesce_before_wait(void)
{
	heard++;
}

void coalesce_before_stream_wait(CUstream stream, bool per_thread, CUevent event)
{
	(void)stream, (void)per_thread, (void)event;
	heard++;
}

void coalesce_stream_waited(CUstream stream, bool per_thread, CUevent event)
{
	(void)stream, (void)per_thread, (void)event;
	heard++;
}

void coalesce_event_made(CUevent event, unsigned flags)
{
	(void)event, (void)flags;
	heard++;
}

void coalesce_event_gone(CUevent event, bool destroyed)
{
	(void)event, (void)destroyed;
	heard++;
}

void coalesce_stream_gone(CUstream stream)
{
	(void)stream;
	heard++;
}

bool coalesce_record(CUevent event, CUstream stream, bool per_thread, unsigned flags, CUresult *status)
{
	(void)event, (void)stream, (void)per_thread, (void)flags;
	heard++;
	*status = CUDA_SUCCESS;
	return true;
}

bool coalesce_event_query(CUevent event)
{
	(void)event;
	heard++;
	return true;
}

bool coalesce_stream_query(CUstream stream, bool per_thread)
{
	(void)stream, (void)per_thread;
	heard++;
	return true;
}

#define CALLS 13

/* Every kind of call, as it comes from `caller`; how many were heard. */
static int calls_from(const void *caller)
{
	const uint64_t words[8] = {(uint64_t)(uintptr_t)EVENT};
	CUresult status;
	uint64_t before;

	heard = 0;
	atomic_store(&coalesce_on, true);
	atomic_store(&coalesce_pending, 1);
	doors_stream(HOOK_cuMemsetD8Async, STREAM, caller);
	doors_wait(caller);
	doors_unnamed(HOOK_cuMemcpy, caller);
	doors_stream_sync(HOOK_cuStreamSynchronize, STREAM, caller);
	doors_event_sync(EVENT, caller);
	doors_stream_wait(HOOK_cuStreamWaitEvent, STREAM, EVENT, caller);
	doors_stream_waited(HOOK_cuStreamWaitEvent, STREAM, EVENT, caller);
	doors_event_made(EVENT, 0, caller);
	doors_record(HOOK_cuEventRecord, EVENT, STREAM, 0, caller, &status, &before);
	doors_event_query(EVENT, caller);
	doors_stream_query(HOOK_cuStreamQuery, STREAM, caller);
	doors_counted(HOOK_cuEventDestroy_v2, words, words, caller);
	doors_counted(HOOK_cuIpcGetEventHandle, words, words, caller);
	atomic_store(&coalesce_on, false);
	atomic_store(&coalesce_pending, 0);
	return heard;
}

static void nccl_is_not_heard(void **state)
{
	char path[4096];

	(void)state;
	snprintf(path, sizeof(path), "%s/libnccl.so.2", getenv("SIM_DIR"));
	void *nccl = lookup_real_dlopen(path, RTLD_NOW);
	const void *caller = nccl ? lookup_real_dlsym(nccl, "ncclGetVersion") : NULL;
	assert_non_null(caller);
	assert_true(lookup_is_nccl(caller));
	for (int again = 0; again < 3; again++) {
		uint64_t before = doors_submissions(STREAM);
		assert_int_equal(calls_from(caller), 0);
		assert_true(doors_submissions(STREAM) != before);
		assert_int_equal(calls_from((const char *)caller + 1), 0);
	}
}

static void the_program_is_heard(void **state)
{
	(void)state;
	for (int again = 0; again < 3; again++) {
		assert_int_equal(calls_from((const void *)nccl_is_not_heard), CALLS);
		assert_int_equal(calls_from((const void *)malloc), CALLS);
		assert_int_equal(calls_from((const void *)&heard), CALLS); /* code that a compiler made at run time */
	}
	assert_false(lookup_is_nccl((const void *)malloc));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_program_is_heard),
		cmocka_unit_test(nccl_is_not_heard),
		cmocka_unit_test(the_program_is_heard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
