/*
 * test_sim_ctx_event.c - cuCtxRecordEvent and cuCtxWaitEvent: events of a whole context.
 */
#include <unistd.h>

#include "common/simtest.h"

#define LATE_US 30000

static void a_record_covers_every_stream(void **state)
{
	(void)state;
	CUevent e = st_event();
	CUstream s[3] = {st_stream(0), st_stream(CU_STREAM_NON_BLOCKING), st_stream(CU_STREAM_NON_BLOCKING)};
	struct st_gate gate[3];
	ok(cuCtxRecordEvent(st_ctx, e));
	ok(cuEventSynchronize(e));
	for (int i = 0; i < 3; i++)
		st_gate_close(&gate[i], s[i]);
	ok(cuCtxRecordEvent(st_ctx, e));
	for (int i = 0; i < 3; i++) {
		usleep(LATE_US);
		fails(cuEventQuery(e), CUDA_ERROR_NOT_READY);
		st_gate_open(&gate[i]);
	}
	ok(cuEventSynchronize(e));
	/* Later work is not covered. */
	struct st_gate later;
	st_gate_close(&later, s[0]);
	ok(cuEventQuery(e));
	st_gate_open(&later);
	for (int i = 0; i < 3; i++) {
		ok(cuStreamSynchronize(s[i]));
		ok(cuStreamDestroy_v2(s[i]));
		st_gate_free(&gate[i]);
	}
	st_gate_free(&later);
	ok(cuEventDestroy_v2(e));
}

static void a_record_belongs_to_the_event_s_context(void **state)
{
	(void)state;
	CUcontext other;
	ok(cuCtxCreate_v2(&other, 0, 0));
	CUevent e = st_event();
	fails(cuCtxRecordEvent(st_ctx, e), CUDA_ERROR_INVALID_HANDLE);
	ok(cuCtxRecordEvent(other, e));
	ok(cuEventSynchronize(e));
	ok(cuCtxDestroy_v2(other));
	ok(cuCtxSetCurrent(st_ctx));
}

static void a_wait_holds_all_later_work(void **state)
{
	(void)state;
	CUcontext other;
	CUstream before = st_stream(CU_STREAM_NON_BLOCKING), after = st_stream(CU_STREAM_NON_BLOCKING);
	CUevent early = st_event(), late = st_event();
	struct st_gate gate;
	ok(cuCtxCreate_v2(&other, 0, 0)); /* the event of another context */
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	CUevent e = st_event();
	ok(cuCtxSetCurrent(st_ctx));
	ok(cuCtxWaitEvent(st_ctx, e)); /* never recorded */
	ok(cuCtxSetCurrent(other));
	volatile uint32_t *flag = gate.flag = st_pinned(64);
	CUdeviceptr flag_at = (CUdeviceptr)flag;
	ok(cuStreamWaitValue32_v2(s, flag_at, 1, CU_STREAM_WAIT_VALUE_EQ));
	ok(cuEventRecord(e, s));
	ok(cuCtxSetCurrent(st_ctx));
	ok(cuEventRecord(early, before));
	ok(cuCtxWaitEvent(st_ctx, e));
	ok(cuEventRecord(late, after));
	ok(cuEventSynchronize(early));
	usleep(LATE_US);
	fails(cuEventQuery(late), CUDA_ERROR_NOT_READY);
	st_gate_open(&gate);
	ok(cuEventSynchronize(late));
	ok(cuEventRecord(late, before));
	ok(cuEventSynchronize(late));
	ok(cuEventDestroy_v2(early));
	ok(cuEventDestroy_v2(late));
	ok(cuStreamDestroy_v2(before));
	ok(cuStreamDestroy_v2(after));
	ok(cuCtxDestroy_v2(other));
	ok(cuCtxSetCurrent(st_ctx));
}

static void captures_are_broken(void **state)
{
	(void)state;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	CUevent e = st_event(), inside = st_event();
	CUgraph graph = NULL;
	for (int wait = 0; wait < 2; wait++) {
		ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
		fails(wait ? cuCtxWaitEvent(st_ctx, e) : cuCtxRecordEvent(st_ctx, e),
			  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		fails(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	}
	CUcontext other;
	ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(cuEventRecord(inside, s));
	ok(cuCtxCreate_v2(&other, 0, 0));
	fails(cuCtxWaitEvent(other, inside), CUDA_ERROR_CAPTURED_EVENT);
	ok(cuCtxDestroy_v2(other));
	ok(cuCtxSetCurrent(st_ctx));
	fails(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ok(cuStreamDestroy_v2(s));
	ok(cuEventDestroy_v2(e));
	ok(cuEventDestroy_v2(inside));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_covers_every_stream),
		cmocka_unit_test(a_record_belongs_to_the_event_s_context),
		cmocka_unit_test(a_wait_holds_all_later_work),
		cmocka_unit_test(captures_are_broken),
	};
	return cmocka_run_group_tests(tests, simtest_setup, simtest_teardown);
}
