/*
 * test_timeline_client_session.c - the profiler of test_timeline_client.h.
 */
#include <cupti_driver_cbid.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "test_timeline_client.h"

#define cupti_ok(call) assert_int_equal((call), CUPTI_SUCCESS)
#define BUFFER_BYTES (256u << 10)
#define BUFFERS 4096
#define CALLS_MAX 65536
#define LAUNCH CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel

struct cupti_api cupti;
struct client_session session;

static const CUpti_ActivityKind kinds[] = {
	CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
	CUPTI_ACTIVITY_KIND_MEMCPY,
	CUPTI_ACTIVITY_KIND_MEMSET,
	CUPTI_ACTIVITY_KIND_DRIVER,
	CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
	CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
};
#define KINDS (sizeof kinds / sizeof kinds[0])

/* Guarded by lock: buffers that CUPTI has, and those completed in this session. As torch.profiler's, it is also
 * held while a buffer is handed over. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *given[BUFFERS];
static struct {
	uint8_t *at;
	size_t valid;
} filled[BUFFERS];
static int given_count, filled_count, strangers;

static CUpti_SubscriberHandle subscriber;
static int callbacks; /* relaxed atomic */
static bool keep_kinds, own_clock;
static bool detach, detached; /* atomic */
static CUptiResult detach_result;
static uint64_t began;
static uint32_t calls[CALLS_MAX]; /* correlations */

void cupti_by_link(void)
{
#define F(name) cupti.name = name;
	CUPTI_FUNCTIONS(F)
#undef F
}

void cupti_by_dlsym(void)
{
	void *library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
	assert_non_null(library);
#define F(name)                                                 \
	cupti.name = (__typeof__(cupti.name))dlsym(library, #name); \
	assert_non_null(cupti.name);
	CUPTI_FUNCTIONS(F)
#undef F
}

/* ---- buffers ---- */

static void requested(uint8_t **buffer, size_t *size, size_t *max)
{
	uint8_t *b = aligned_alloc(64, BUFFER_BYTES);
	pthread_mutex_lock(&lock);
	if (b && given_count < BUFFERS)
		given[given_count++] = b;
	pthread_mutex_unlock(&lock);
	*buffer = b;
	*size = BUFFER_BYTES;
	*max = 0;
}

static void completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	(void)context;
	(void)stream;
	pthread_mutex_lock(&lock);
	int i = 0;
	while (i < given_count && given[i] != buffer)
		i++;
	if (i == given_count || size != BUFFER_BYTES || filled_count == BUFFERS) {
		strangers++;
	} else {
		given[i] = given[--given_count];
		filled[filled_count].at = buffer;
		filled[filled_count++].valid = valid;
	}
	pthread_mutex_unlock(&lock);
}

/* ---- reading them ---- */

static void take_kernel(const CUpti_ActivityKernel9 *k)
{
	if (session.kernels < KERNEL_MAX)
		session.kernel[session.kernels] = (struct client_kernel){
			.start = k->start,
			.end = k->end,
			.node = k->graphNodeId,
			.grid = (uint32_t)k->gridX,
			.correlation = k->correlationId,
			.graph = k->graphId,
			.stream = k->streamId,
		};
	session.kernels++;
	session.empty += !k->start || !k->end;
}

static void check_times(uint64_t start, uint64_t end)
{
	session.disordered += end < start || (start && start < began) || end > client_now();
}

static void take(const CUpti_Activity *r)
{
	const CUpti_ActivityKernel9 *kernel = (const CUpti_ActivityKernel9 *)r;
	const CUpti_ActivityMemcpy5 *copy = (const CUpti_ActivityMemcpy5 *)r;
	const CUpti_ActivityAPI *call = (const CUpti_ActivityAPI *)r;
	switch (r->kind) {
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		take_kernel(kernel);
		check_times(kernel->start, kernel->end);
		break;
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		session.copies++;
		session.copied_bytes += copy->bytes;
		check_times(copy->start, copy->end);
		break;
	case CUPTI_ACTIVITY_KIND_MEMSET: session.memsets++; break;
	case CUPTI_ACTIVITY_KIND_DRIVER:
		session.launches += call->cbid == LAUNCH;
		if (session.calls < CALLS_MAX)
			calls[session.calls++] = call->correlationId;
		check_times(call->start, call->end);
		break;
	case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: session.waits++; break;
	case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
		session.externals++;
		session.external_sum += ((const CUpti_ActivityExternalCorrelation *)r)->externalId;
		break;
	default: break;
	}
}

static bool has_call(uint32_t correlation)
{
	for (int i = 0; i < session.calls; i++)
		if (calls[i] == correlation)
			return true;
	return false;
}

static void read_buffers(void)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < filled_count; i++) {
		CUpti_Activity *record = NULL;
		while (cupti.cuptiActivityGetNextRecord(filled[i].at, filled[i].valid, &record) == CUPTI_SUCCESS)
			take(record);
		free(filled[i].at);
	}
	filled_count = 0;
	session.missing = given_count;
	session.strangers = strangers;
	strangers = 0;
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < session.kernels && i < KERNEL_MAX; i++)
		session.orphans += !has_call(session.kernel[i].correlation);
}

/* ---- the subscription ---- */

static void on_call(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *arg)
{
	const CUpti_CallbackData *call = arg;
	(void)user;
	(void)domain;
	if (call->callbackSite == CUPTI_API_ENTER) {
		__atomic_fetch_add(&callbacks, id == LAUNCH, __ATOMIC_RELAXED);
		return;
	}
	if (__atomic_exchange_n(&detach, false, __ATOMIC_ACQ_REL)) {
		detach_result = cupti.cuptiFinalize();
		__atomic_store_n(&detached, true, __ATOMIC_RELEASE);
	}
}

void client_subscribe(void)
{
	cupti_ok(cupti.cuptiSubscribe(&subscriber, on_call, NULL));
}

void client_unsubscribe(void)
{
	cupti_ok(cupti.cuptiUnsubscribe(subscriber));
}

/* ---- sessions ---- */

uint64_t client_now(void)
{
	struct timespec t;
	clock_gettime(own_clock ? CLOCK_MONOTONIC : CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void client_use_own_clock(void)
{
	own_clock = true;
}

void client_keep_kinds(bool keep)
{
	keep_kinds = keep;
}

void client_start(void)
{
	memset(&session, 0, sizeof session);
	__atomic_store_n(&callbacks, 0, __ATOMIC_RELAXED);
	if (own_clock)
		cupti_ok(cupti.cuptiActivityRegisterTimestampCallback(client_now));
	cupti_ok(cupti.cuptiActivityRegisterCallbacks(requested, completed));
	for (size_t i = 0; i < KINDS; i++)
		cupti_ok(cupti.cuptiActivityEnable(kinds[i]));
	cupti_ok(cupti.cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, LAUNCH));
	/* What is left of before the session goes. */
	cupti_ok(cupti.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
	read_buffers();
	assert_int_equal(session.strangers, 0);
	memset(&session, 0, sizeof session);
	cupti_ok(cupti.cuptiActivityGetNumDroppedRecords(NULL, 0, &session.dropped));
	began = client_now();
}

void client_stop(void)
{
	cupti_ok(cupti.cuptiEnableCallback(0, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, LAUNCH));
	cupti_ok(cupti.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
	for (size_t i = 0; i < KINDS && !keep_kinds; i++)
		cupti_ok(cupti.cuptiActivityDisable(kinds[i]));
	read_buffers();
	session.callbacks = __atomic_load_n(&callbacks, __ATOMIC_RELAXED);
	cupti_ok(cupti.cuptiActivityGetNumDroppedRecords(NULL, 0, &session.dropped));
}

void client_teardown(void (*launch)(void))
{
	__atomic_store_n(&detached, false, __ATOMIC_RELEASE);
	cupti_ok(cupti.cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API));
	__atomic_store_n(&detach, true, __ATOMIC_RELEASE);
	launch();
	assert_true(__atomic_load_n(&detached, __ATOMIC_ACQUIRE));
	cupti_ok(detach_result);
}

/* ---- questions ---- */

int client_of_grid(uint32_t grid)
{
	int number = 0;
	for (int i = 0; i < session.kernels && i < KERNEL_MAX; i++)
		number += session.kernel[i].grid == grid;
	return number;
}

int client_in_graphs(void)
{
	int number = 0;
	for (int i = 0; i < session.kernels && i < KERNEL_MAX; i++)
		number += session.kernel[i].graph != 0;
	return number;
}

int client_doubles(void)
{
	int number = 0;
	for (int i = 0; i < session.kernels && i < KERNEL_MAX; i++)
		for (int j = 0; j < i; j++)
			number += session.kernel[i].correlation == session.kernel[j].correlation &&
					  session.kernel[i].node == session.kernel[j].node;
	return number;
}
