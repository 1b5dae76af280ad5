/* test_held_events.c - events that may be queued: found while they are there, by any thread, and never over while queued. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/nccl/coalesce_events.h"

#define PLAIN CU_EVENT_DISABLE_TIMING
#define EVENT(n) ((CUevent)(uintptr_t)(0x5151000 + 64 * (uintptr_t)(n)))
#define CONTEXT ((CUcontext)(uintptr_t)0x5252000)

static void which_are_known(void **state)
{
	struct held_event *e;
	(void)state;
	coalesce_events_made(EVENT(1), PLAIN, CONTEXT);
	coalesce_events_made(EVENT(2), PLAIN | CU_EVENT_INTERPROCESS, CONTEXT);
	coalesce_events_made(EVENT(3), 0, CONTEXT);
	e = coalesce_events_find(EVENT(1));
	assert_non_null(e);
	assert_false(e->timed);
	assert_null(coalesce_events_find(EVENT(2)));
	assert_true(coalesce_events_find(EVENT(3))->timed);
	assert_null(coalesce_events_find(NULL));
	/* The handle of one that went unseen is another's. */
	coalesce_events_made(EVENT(1), PLAIN | CU_EVENT_INTERPROCESS, CONTEXT);
	assert_null(coalesce_events_find(EVENT(1)));
	coalesce_events_gone(EVENT(3));
	assert_null(coalesce_events_find(EVENT(3)));
}

static void the_last_record_counts(void **state)
{
	struct held_event *e;
	(void)state;
	coalesce_events_made(EVENT(4), PLAIN, CONTEXT);
	e = coalesce_events_find(EVENT(4));
	coalesce_events_queue(e, 1);
	coalesce_events_queue(e, 2);
	assert_false(coalesce_events_begin(e, 1));
	assert_true(coalesce_events_queued(EVENT(4)));
	assert_true(coalesce_events_begin(e, 2));
	assert_true(coalesce_events_queued(EVENT(4))); /* while it is made */
	coalesce_events_recorded(e);
	assert_false(coalesce_events_queued(EVENT(4)));
	/* Destroyed, and the handle given anew: the old record is not made. */
	coalesce_events_queue(e, 3);
	coalesce_events_gone(EVENT(4));
	coalesce_events_made(EVENT(4), PLAIN, CONTEXT);
	assert_false(coalesce_events_begin(e, 3));
	assert_false(coalesce_events_queued(EVENT(4)));
	coalesce_events_gone(EVENT(4));
}

/* ---- 8 threads ask, two make and destroy, one queues and records ---- */

#define ASKED 100 /* queued by the main thread; never destroyed */
#define ROUNDS 20000

static _Atomic uint64_t over; /* records that have been made; counted before the event answers so */
static _Atomic uint64_t begun;
static _Atomic bool ends;
static _Atomic int wrong;

static void *ask(void *arg)
{
	(void)arg;
	while (!ends) {
		uint64_t queued = begun;
		/* Not queued any more: its record, or a later one, is made. */
		if (!coalesce_events_queued(EVENT(ASKED)) && over < queued)
			wrong++;
	}
	return NULL;
}

static void *come_and_go(void *arg)
{
	for (unsigned i = 0; !ends; i++) {
		CUevent e = EVENT((uintptr_t)arg + i % 500);
		coalesce_events_made(e, PLAIN, CONTEXT);
		if (coalesce_events_queued(e))
			wrong++;
		coalesce_events_gone(e);
	}
	return NULL;
}

static void answers_are_never_early(void **state)
{
	pthread_t thread[10];
	struct held_event *e;
	(void)state;
	coalesce_events_made(EVENT(ASKED), PLAIN, CONTEXT);
	e = coalesce_events_find(EVENT(ASKED));
	for (uintptr_t i = 0; i < 10; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, i < 8 ? ask : come_and_go, (void *)(1000 * i)), 0);
	for (uint64_t n = 1; n <= ROUNDS; n++) {
		coalesce_events_queue(e, n);
		begun = n;
		assert_true(coalesce_events_begin(e, n));
		over = n;
		coalesce_events_recorded(e);
	}
	ends = true;
	for (int i = 0; i < 10; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(which_are_known),
		cmocka_unit_test(the_last_record_counts),
		cmocka_unit_test(answers_are_never_early),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
