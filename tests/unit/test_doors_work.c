/* test_doors_work.c - two records mean the same work only when nothing was submitted between them. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <cuda.h>

#include "capture.h"
#include "doors.h"
#include "doors_work.h"
#include "real.h"

#define HANDLE(type, n) ((type)(uintptr_t)(0x7000000 + 0x1000 * (n)))
#define STREAM(n) HANDLE(CUstream, n)
#define EVENT(n) HANDLE(CUevent, 100 + (n))

static CUcontext current = HANDLE(CUcontext, 900);

static CUresult current_context(CUcontext *ctx)
{
	*ctx = current;
	return CUDA_SUCCESS;
}

static int setup(void **state)
{
	(void)state;
	real_fn[HOOK_cuCtxGetCurrent] = (void *)current_context;
	doors_work_forget_streams();
	doors_work_forget_records();
	for (int n = 0; n < 8; n++)
		doors_work_stream(STREAM(n), true);
	return 0;
}

static struct doors_last record(CUevent event, CUstream stream)
{
	struct doors_last last = {0};

	doors_work_recorded(event, stream, false, doors_submissions(stream));
	assert_true(doors_last_record(event, &last));
	assert_ptr_equal(last.stream, stream);
	return last;
}

/* Is a record after `between` the same work as one before it? */
#define SAME(stream, between)                                \
	({                                                       \
		struct doors_last first_ = record(EVENT(0), stream); \
		between;                                             \
		struct doors_last again_ = record(EVENT(0), stream); \
		doors_same_work(&first_, &again_);                   \
	})

static void work_between_two_records_is_seen(void **state)
{
	(void)state;
	assert_true(SAME(STREAM(0), (void)0));
	assert_true(SAME(NULL, (void)0));
	assert_false(SAME(STREAM(0), doors_work_submitted(STREAM(0))));
	assert_false(SAME(NULL, doors_work_submitted(NULL)));
	assert_false(SAME(STREAM(0), doors_work_submitted_anywhere()));
	assert_false(SAME(NULL, doors_work_submitted_anywhere()));
	/* Another event of the same stream means the same. */
	struct doors_last a = record(EVENT(1), STREAM(1)), b = record(EVENT(2), STREAM(1)),
					  c = record(EVENT(3), STREAM(2));
	assert_true(doors_same_work(&a, &b));
	assert_false(doors_same_work(&a, &c));
}

/* The legacy default stream is behind all that are not non-blocking, and they behind it. */
static void blocking_streams_count_together(void **state)
{
	CUstream blocking = STREAM(20), legacy[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_false(SAME(blocking, doors_work_submitted(legacy[i])));
		assert_true(SAME(STREAM(0), doors_work_submitted(legacy[i])));
	}
	assert_false(SAME(NULL, doors_work_submitted(blocking)));
	assert_true(SAME(NULL, doors_work_submitted(STREAM(0))));
	/* One that is destroyed may come back as another kind. */
	struct doors_last before = record(EVENT(0), STREAM(0));
	doors_work_stream(STREAM(0), false);
	struct doors_last after = record(EVENT(0), STREAM(0));
	assert_false(doors_same_work(&before, &after));
	assert_false(SAME(NULL, doors_work_submitted(STREAM(0))));
}

/* More streams than are remembered: those beyond count as blocking, none as another. */
static void streams_beyond_what_is_remembered_are_blocking(void **state)
{
	(void)state;
	for (int n = 1000; n < 6000; n++)
		doors_work_stream(STREAM(n), true);
	for (int n = 1000; n < 6000; n++)
		assert_false(SAME(STREAM(n), doors_work_submitted(STREAM(n))));
	doors_work_forget_streams();
	assert_false(SAME(NULL, doors_work_submitted(STREAM(1000))));
}

static bool known(CUevent event)
{
	struct doors_last last;
	return doors_last_record(event, &last);
}

static void what_is_not_certain_is_not_known(void **state)
{
	(void)state;
	assert_false(known(EVENT(9)));
	record(EVENT(0), STREAM(0));
	doors_work_recorded(EVENT(0), NULL, true, 1); /* a thread's own stream */
	assert_false(known(EVENT(0)));
	record(EVENT(0), STREAM(0));
	doors_work_recorded(EVENT(0), CU_STREAM_PER_THREAD, false, 1);
	assert_false(known(EVENT(0)));
	record(EVENT(0), STREAM(0));
	record(EVENT(1), STREAM(0));
	doors_work_forget_record(EVENT(0));
	assert_false(known(EVENT(0)));
	assert_true(known(EVENT(1)));
	doors_work_forget_records();
	assert_false(known(EVENT(1)));
	/* A capture. */
	assert_true(capture_note_begin(STREAM(7), false));
	doors_work_recorded(EVENT(0), STREAM(0), false, doors_submissions(STREAM(0)));
	assert_false(known(EVENT(0)));
	capture_note_end(STREAM(7), false);
	record(EVENT(0), STREAM(0));
}

static void default_streams_are_their_contexts(void **state)
{
	(void)state;
	struct doors_last one = record(EVENT(0), NULL), again = record(EVENT(1), NULL);
	assert_true(doors_same_work(&one, &again));
	current = HANDLE(CUcontext, 901);
	again = record(EVENT(1), NULL);
	assert_false(doors_same_work(&one, &again));
	current = HANDLE(CUcontext, 900);
}

/* ---- threads ---- */

#define ROUNDS 20000

/* The event's number is in every part of what is recorded, so that a mixture is seen. */
static void *record_often(void *arg)
{
	uintptr_t n = (uintptr_t)arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		CUevent event = EVENT(i % 3);
		doors_work_recorded(event, STREAM(n), false, n << 32);
		if (i % 64 == 0)
			doors_work_forget_record(event);
	}
	return NULL;
}

static void *look_often(void *arg)
{
	uintptr_t mixed = 0, seen = 0;

	(void)arg;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct doors_last last;
		if (!doors_last_record(EVENT(i % 3), &last))
			continue;
		seen++;
		mixed += last.stream != STREAM(last.before >> 32);
	}
	return (void *)mixed;
}

/* Whatever is known is what one thread has recorded; afterwards a record is known again. */
static void records_of_threads_do_not_mix(void **state)
{
	pthread_t thread[6];

	(void)state;
	for (uintptr_t n = 0; n < 6; n++)
		assert_int_equal(pthread_create(&thread[n], NULL, n < 3 ? record_often : look_often, (void *)n), 0);
	for (int n = 0; n < 6; n++) {
		void *mixed;
		pthread_join(thread[n], &mixed);
		assert_null(mixed);
	}
	record(EVENT(0), STREAM(0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(work_between_two_records_is_seen, setup),
		cmocka_unit_test_setup(blocking_streams_count_together, setup),
		cmocka_unit_test_setup(streams_beyond_what_is_remembered_are_blocking, setup),
		cmocka_unit_test_setup(what_is_not_certain_is_not_known, setup),
		cmocka_unit_test_setup(default_streams_are_their_contexts, setup),
		cmocka_unit_test_setup(records_of_threads_do_not_mix, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
