/* LINK: cupti timeline   ENV: TURBO_TIMELINE=sampled TURBO_TIMELINE_PERCENT=60 TURBO_TIMELINE_DIR=/tmp TURBO_COPY=off
 *
 * test_timeline_random.c - threads launch while recording comes and goes, while CUPTI is taken out and comes back, and
 * while another client works now and then: nothing hangs, CUPTI sees no mistake, and that client's own launches are
 * all in its sessions.
 *
 *   SEED        of the first choice       SOAK_S       seconds in all (default 8)
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "common/copy_fixture.h" /* first: it says how cuda.h names its functions */

#include "tests/gpu/common/cupti_client.h"
#include "tests/sim/sim_cupti.h"
#include "common/timeline_file.h"

#include <cupti_callbacks.h>

#define THREADS 3
#define MARK 17 /* blocks of a launch that the client counts */

static CUdeviceptr memory;
static _Atomic bool stop;
static _Atomic uint64_t launched;

#define cupti_ok(call) assert_int_equal((call), CUPTI_SUCCESS)

static void launch(CUstream s, unsigned blocks)
{
	uint64_t words = 256;
	uint32_t value = 1;
	void *args[] = {&memory, &words, &value};
	OK(cu.cuLaunchKernel(fx.fill32, blocks, 1, 1, 32, 1, 1, 0, s, args, NULL));
	launched++;
}

static void *launcher(void *arg)
{
	CUstream s;
	OK(cu.cuCtxSetCurrent(fx.ctx));
	OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	while (!stop) {
		for (int i = 0; i < 50; i++)
			launch(s, 1);
		OK(cu.cuStreamSynchronize(s));
		usleep(2000);
	}
	OK(cu.cuStreamDestroy_v2(s));
	return arg;
}

static void no_callback(void *arg, CUpti_CallbackDomain domain, CUpti_CallbackId callback, const void *data)
{
	(void)arg;
	(void)domain;
	(void)callback;
	(void)data;
}

/* Its own launches are a needle in a haystack: told by their grid. */
static void session(uint64_t *seed)
{
	static const uint32_t kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0};
	CUpti_SubscriberHandle subscriber;
	unsigned n = 1 + (unsigned)random_below(seed, 100), found = 0;
	cupti_ok(cuptiSubscribe(&subscriber, no_callback, NULL));
	cupti_ok(ct_begin(kinds));
	for (unsigned i = 0; i < n; i++)
		launch(NULL, MARK);
	OK(cu.cuCtxSynchronize());
	cupti_ok(ct_end());
	for (int i = 0; i < ct_count; i++)
		found += ct_records[i].grid[0] == MARK;
	assert_int_equal(found, n);
	cupti_ok(cuptiUnsubscribe(subscriber));
}

static void everybody_at_once(void **state)
{
	const char *soak = getenv("SOAK_S"), *text = getenv("SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : now_ns() | 1, until;
	pthread_t thread[THREADS];
	unsigned sessions = 0;
	(void)state;
	printf("SEED=%llu\n", (unsigned long long)seed);
	until = now_ns() + (soak ? strtoull(soak, NULL, 10) : 8) * 1000000000u;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, launcher, NULL), 0);
	/* As long as nobody else has come, CUPTI is taken out in the pauses. */
	for (int i = 0; fx.preloaded && counter("timeline.detached") < 2 && i < 300; i++)
		sleep_ms(100);
	if (fx.preloaded)
		assert_true(counter("timeline.detached") >= 2);
	while (now_ns() < until) {
		/* Some come while recording has not resumed, some after it has. */
		sleep_ms((unsigned)random_below(&seed, random_below(&seed, 2) ? 300 : 4500));
		session(&seed);
		sessions++;
	}
	stop = true;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	printf("%u sessions, %llu launches, %llu detached\n", sessions, (unsigned long long)launched,
		   (unsigned long long)(fx.preloaded ? counter("timeline.detached") : 0));
	assert_int_equal(sim_cupti_errors(), 0);
}

static void the_file_is_whole(void **state)
{
	struct timeline_sum s;
	(void)state;
	assert_true(timeline_sum(&s, getpid()));
	assert_true(s.kernels > 0 && s.kernels <= launched);
	assert_int_equal(s.count[TIMELINE_COUNT_BACKWARDS], 0);
	assert_int_equal(s.count[TIMELINE_COUNT_BAD_BUFFER], 0);
	timeline_remove(getpid());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everybody_at_once),
		cmocka_unit_test(the_file_is_whole),
	};
	copy_open();
	if (!getenv("SOAK_S"))
		copy_limit();
	memory = device_new(4096);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
