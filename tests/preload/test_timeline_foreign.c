/* LINK: cupti timeline   ENV: TURBO_TIMELINE=kernel TURBO_TIMELINE_DIR=/tmp TURBO_COPY=off TURBO_LOG=warn   SAN: address   BARE
 *
 * test_timeline_foreign.c - another client of CUPTI in a process that is recorded: it gets the statuses and the records
 * that it gets bare, and the timeline has what ran before and after, with the gap between.
 *
 * The client does as PyTorch's profiler: it keeps its subscription and its callbacks when it stops, registers anew when
 * it begins again, and leaves a timestamp callback behind. The cases run in order, in one process.
 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "common/copy_fixture.h" /* first: it says how cuda.h names its functions */

#include "tests/gpu/common/cupti_client.h"
#include "tests/sim/sim_cupti.h"
#include "common/timeline_file.h"

#include <cupti_callbacks.h>

#define MS 1000000ull

static CUdeviceptr memory;
static CUpti_SubscriberHandle subscriber;

static const uint32_t kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
								 CUPTI_ACTIVITY_KIND_MEMSET, 0};

#define ok(call) assert_int_equal((call), CUDA_SUCCESS)
#define cupti_ok(call) assert_int_equal((call), CUPTI_SUCCESS)

/* What the timeline ought to have: kernels launched while nobody else was at work. */
static uint64_t expected;

static void launch(unsigned n)
{
	while (n-- > 0)
		ok(launch_fill(NULL, memory, 1024, 7));
	ok(cu.cuCtxSynchronize());
}

static void launch_recorded(unsigned n)
{
	expected += n;
	launch(n);
}

/* Until the recorder is back, or has seen a client come. */
static void wait_until_recording(bool on)
{
	if (!fx.preloaded)
		return;
	for (int i = 0; i < 150; i++) {
		if (!!sim_cupti_enabled(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) == on)
			return;
		sleep_ms(100);
	}
	fail_msg("recording is %s after 15 s", on ? "off" : "on");
}

static void on_event(void *arg, CUpti_CallbackDomain domain, CUpti_CallbackId callback, const void *data)
{
	(void)domain;
	(void)callback;
	(void)data;
	*(int *)arg += 1;
}

static int calls_seen;

static void subscribe(void)
{
	cupti_ok(cuptiSubscribe(&subscriber, on_event, &calls_seen));
}

/* A whole session: the client sees its own kernels, all of them and none else. */
static void session(unsigned n)
{
	cupti_ok(ct_begin(kinds));
	launch(n);
	ok(cu.cuMemsetD8_v2(memory, 1, 4096));
	ok(cu.cuCtxSynchronize());
	cupti_ok(ct_end());
	assert_int_equal(ct_number(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), n);
	assert_int_equal(ct_number(CUPTI_ACTIVITY_KIND_MEMSET), 1);
	assert_true(ct_buffers > 0);
}

static void before_anybody_comes(void **state)
{
	(void)state;
	wait_until_recording(true);
	launch_recorded(100);
}

/* The attribute and the kind of thread numbers are what they are without us. */
static void settings_are_cuptis_own(void **state)
{
	CUpti_ActivityThreadIdType type = CUPTI_ACTIVITY_THREAD_ID_TYPE_SIZE;
	uint8_t zeroed = 9;
	size_t size = sizeof(zeroed);
	(void)state;
	cupti_ok(cuptiGetThreadIdType(&type));
	assert_int_equal(type, CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT);
	cupti_ok(cuptiActivityGetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &zeroed));
	assert_int_equal(zeroed, 0);
}

static void a_client_works_as_without_us(void **state)
{
	(void)state;
	launch(10); /* between its first call and its session: nobody's */
	subscribe();
	session(500);
	session(20);
	launch(5);
}

static void recording_goes_on_beside_a_kept_subscription(void **state)
{
	(void)state;
	wait_until_recording(true);
	launch_recorded(50);
}

static void a_client_comes_again(void **state)
{
	(void)state;
	session(30);
	wait_until_recording(true);
	launch_recorded(40);
}

/* Enabling without registering again: the callbacks of its first session are still its own. */
static void a_client_may_trust_its_callbacks(void **state)
{
	int before = ct_number(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	(void)state;
	cupti_ok(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	launch(60);
	cupti_ok(cuptiActivityFlushAll(0));
	cupti_ok(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	cupti_ok(cuptiActivityFlushAll(1));
	assert_int_equal(ct_number(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) - before, 60);
}

/* Two ticks a ns from an epoch of its own. */
static uint64_t own_clock(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return ((uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec) * 2 + 12345;
}

static void a_clock_that_is_left_behind_is_converted(void **state)
{
	(void)state;
	cupti_ok(cuptiActivityRegisterTimestampCallback(own_clock));
	session(25);
	wait_until_recording(true);
	launch_recorded(70);
	sleep_ms(1200);
}

static void a_second_subscriber_is_refused(void **state)
{
	CUpti_SubscriberHandle other;
	(void)state;
	assert_int_equal(cuptiSubscribe(&other, on_event, &calls_seen),
					 CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	assert_int_equal(cuptiActivityRegisterCallbacks(NULL, NULL), CUPTI_ERROR_INVALID_PARAMETER);
	cupti_ok(cuptiUnsubscribe(subscriber));
	subscribe();
	cupti_ok(cuptiUnsubscribe(subscriber));
}

static void recording_goes_on_when_it_has_left(void **state)
{
	(void)state;
	wait_until_recording(true);
	launch_recorded(15);
}

static void a_client_finalizes(void **state)
{
	(void)state;
	session(35);
	cupti_ok(cuptiFinalize());
	launch(3);
	wait_until_recording(true);
	launch_recorded(45);
	sleep_ms(1200);
}

static void nothing_was_done_wrong(void **state)
{
	(void)state;
	assert_int_equal(sim_cupti_errors(), 0);
}

static void the_timeline_has_the_rest(void **state)
{
	struct timeline_sum s;
	(void)state;
	if (!fx.preloaded)
		return;
	sleep_ms(1300);
	assert_true(timeline_sum(&s, getpid()));
	if (s.kernels != expected)
		printf("of %llu kernels %llu are there; %llu without times, %llu dropped, %llu backwards\n",
			   (unsigned long long)expected, (unsigned long long)s.kernels,
			   (unsigned long long)s.count[TIMELINE_COUNT_ZERO_TIME],
			   (unsigned long long)s.count[TIMELINE_COUNT_CUPTI_LOST],
			   (unsigned long long)s.count[TIMELINE_COUNT_BACKWARDS]);
	assert_int_equal(s.kernels, expected);
	assert_true(s.gaps >= 4);
	assert_true(s.longest_ns < 1000 * MS);
	assert_int_equal(s.count[TIMELINE_COUNT_BACKWARDS], 0);
	assert_int_equal(s.count[TIMELINE_COUNT_ZERO_TIME], 0);
	assert_true(s.first > 0 && s.last < s.now);
	assert_true(s.now - s.first < 120000 * MS);
	timeline_remove(getpid());
}

static int open_all(void **state)
{
	(void)state;
	copy_open();
	memory = device_new(4096);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(before_anybody_comes),
		cmocka_unit_test(settings_are_cuptis_own),
		cmocka_unit_test(a_client_works_as_without_us),
		cmocka_unit_test(recording_goes_on_beside_a_kept_subscription),
		cmocka_unit_test(a_client_comes_again),
		cmocka_unit_test(a_client_may_trust_its_callbacks),
		cmocka_unit_test(a_clock_that_is_left_behind_is_converted),
		cmocka_unit_test(a_second_subscriber_is_refused),
		cmocka_unit_test(recording_goes_on_when_it_has_left),
		cmocka_unit_test(a_client_finalizes),
		cmocka_unit_test(nothing_was_done_wrong),
		cmocka_unit_test(the_timeline_has_the_rest),
	};
	copy_limit();
	return cmocka_run_group_tests(tests, open_all, NULL);
}
