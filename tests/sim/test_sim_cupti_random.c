/* LINK: cupti
 *
 * test_sim_cupti_random.c - clients that come, flush, detach and go while other threads launch: nothing hangs,
 * every record is delivered once, every buffer comes back. SEED, SOAK_S.
 */
#include <cupti_driver_cbid.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "common/simtest.h"
#include "sim_cupti.h"
#include "tests/gpu/common/cupti_client.h"

#define cupti_ok(call) assert_int_equal((call), CUPTI_SUCCESS)
#define KERNEL CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
#define THREADS 3
#define ROUNDS 60
#define BYTES 8192

/* Relaxed atomics. */
static uint64_t delivered, requested_buffers, completed_buffers, backwards, launches;
static bool stop, detach, detached;
static CUptiResult detach_result;

static void requested(uint8_t **buffer, size_t *size, size_t *max)
{
	__atomic_fetch_add(&requested_buffers, 1, __ATOMIC_RELAXED);
	*buffer = aligned_alloc(64, BYTES);
	*size = BYTES;
	*max = 0;
}

static void completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	CUpti_Activity *record = NULL;
	(void)context;
	(void)stream;
	(void)size;
	while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
		const CUpti_ActivityKernel9 *k = (const CUpti_ActivityKernel9 *)record;
		if (record->kind != KERNEL)
			continue;
		__atomic_fetch_add(&delivered, 1, __ATOMIC_RELAXED);
		if (k->end < k->start)
			__atomic_fetch_add(&backwards, 1, __ATOMIC_RELAXED);
	}
	__atomic_fetch_add(&completed_buffers, 1, __ATOMIC_RELAXED);
	free(buffer);
}

static void on_call(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *arg)
{
	const CUpti_CallbackData *call = arg;
	(void)user;
	(void)domain;
	(void)id;
	if (call->callbackSite == CUPTI_API_EXIT && __atomic_exchange_n(&detach, false, __ATOMIC_ACQ_REL)) {
		detach_result = cuptiFinalize();
		__atomic_store_n(&detached, true, __ATOMIC_RELEASE);
	}
}

static void *launcher(void *arg)
{
	CUstream s = NULL;
	CUdeviceptr p = 0;
	uint64_t words = 16;
	uint32_t value = 1;
	void *args[] = {&p, &words, &value};
	(void)arg;
	if (cuCtxSetCurrent(st_ctx) || cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) || cuMemAlloc_v2(&p, 4096))
		abort();
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		for (int i = 0; i < 20; i++)
			if (cuLaunchKernel(st_fill32, 1, 1, 1, 32, 1, 1, 0, s, args, NULL))
				abort();
		__atomic_fetch_add(&launches, 20, __ATOMIC_RELAXED);
		if (cuStreamSynchronize(s))
			abort();
	}
	if (cuStreamDestroy_v2(s) || cuMemFree_v2(p))
		abort();
	return NULL;
}

static void *flusher(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		cuptiActivityFlushAll(0); /* refused while nobody is registered */
		usleep(300);
	}
	return NULL;
}

static void client_detaches(void)
{
	CUpti_SubscriberHandle s = NULL;
	cupti_ok(cuptiSubscribe(&s, on_call, NULL));
	cupti_ok(cuptiEnableCallback(1, s, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel));
	__atomic_store_n(&detached, false, __ATOMIC_RELEASE);
	__atomic_store_n(&detach, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&detached, __ATOMIC_ACQUIRE))
		usleep(100);
	cupti_ok(detach_result);
}

static void one_round(unsigned *seed)
{
	cupti_ok(cuptiActivityRegisterCallbacks(requested, completed));
	cupti_ok(cuptiActivityEnable(KERNEL));
	usleep((useconds_t)(rand_r(seed) % 4000));
	if (rand_r(seed) % 2)
		cupti_ok(cuptiActivityFlushAll(1));
	if (rand_r(seed) % 2)
		cupti_ok(cuptiActivityDisable(KERNEL));
	if (rand_r(seed) % 3 == 0)
		client_detaches();
}

static void clients_come_and_go_under_load(void **state)
{
	(void)state;
	const char *text = getenv("SEED"), *soak = getenv("SOAK_S");
	unsigned seed = text ? (unsigned)atoi(text) : (unsigned)time(NULL);
	time_t end = time(NULL) + (soak ? atoi(soak) : 0);
	pthread_t threads[THREADS + 1];
	printf("SEED=%u\n", seed);
	for (int i = 0; i <= THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, i < THREADS ? launcher : flusher, NULL), 0);
	for (int i = 0; i < ROUNDS || time(NULL) < end; i++)
		one_round(&seed);
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (int i = 0; i <= THREADS; i++)
		pthread_join(threads[i], NULL);
	cupti_ok(cuptiActivityRegisterCallbacks(requested, completed));
	cupti_ok(cuptiActivityFlushAll(1));
	assert_true(delivered > 0 && delivered <= launches);
	assert_int_equal(delivered, sim_cupti_records(KERNEL));
	assert_int_equal(completed_buffers, requested_buffers);
	assert_int_equal(sim_cupti_buffers_held(), 0);
	assert_int_equal(sim_cupti_errors(), 0);
	assert_int_equal(sim_cupti_dropped(), 0);
}

int main(void)
{
	simtest_only_sim();
	const struct CMUnitTest tests[] = {cmocka_unit_test(clients_come_and_go_under_load)};
	return cmocka_run_group_tests(tests, simtest_setup, simtest_teardown);
}
