/* ENV: TURBO_DEVMEM_CACHE_MB=64 SIM_MEM_MB=2048 BARE */
/*
 * Threads that allocate, free, share and ask at random: every answer about memory that a thread holds is as
 * for a fresh allocation of the size it asked for, and no buffer id is ever seen twice.
 *
 * SOAK_S: seconds to go on (default 2 in all). SEED: of the first round.
 */
#include "common/copy_fixture.h"
#include "common/modes.h"
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define HELD 24
#define IDS 200000

struct held {
	CUdeviceptr p;
	size_t bytes;
	unsigned long long id;
	bool ordered; /* from cuMemAllocAsync */
};

struct worker {
	pthread_t thread;
	CUstream stream;
	uint64_t random;
	struct held held[HELD];
	unsigned long long ids[IDS];
	unsigned id_count;
	uint64_t ops;
	char wrong[160];
};

static struct worker workers[THREADS];
static double end_time;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* xorshift64* */
static uint64_t next(struct worker *w, uint64_t below)
{
	w->random ^= w->random >> 12;
	w->random ^= w->random << 25;
	w->random ^= w->random >> 27;
	return (w->random * 2685821657736338717ull >> 16) % below;
}

/* The first mistake counts. */
#define EXPECT(w, condition, ...)                                                  \
	do {                                                                           \
		if (!(condition) && !(w)->wrong[0])                                        \
			snprintf((w)->wrong, sizeof((w)->wrong), #condition ": " __VA_ARGS__); \
	} while (0)

static void ask_range(struct worker *w, const struct held *h)
{
	size_t offset = next(w, h->bytes), size = 0;
	CUdeviceptr base = 0;
	CUresult r = cu.cuMemGetAddressRange_v2(&base, &size, h->p + offset);

	EXPECT(w, r == CUDA_SUCCESS && base == h->p && size == h->bytes,
		   "range %d, base off by %lld, %zu for %zu", r, (long long)(base - h->p), size, h->bytes);
	if (h->ordered && h->bytes % 512) /* a pool's blocks have whole units */
		return;
	r = cu.cuMemGetAddressRange_v2(&base, &size, h->p + h->bytes);
	EXPECT(w, r != CUDA_SUCCESS || base != h->p, "its end is in it");
}

static void ask_attributes(struct worker *w, struct held *h)
{
	CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
								   CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
	unsigned long long id = 0, again = 0;
	CUdeviceptr start = 0, at = h->p + next(w, h->bytes);
	size_t size = 0;
	unsigned type = 0;
	void *where[] = {&id, &start, &size, &type};
	CUresult r = cu.cuPointerGetAttributes(4, which, where, at);

	EXPECT(w, r == CUDA_SUCCESS && start == h->p && size == h->bytes && type == CU_MEMORYTYPE_DEVICE,
		   "plural %d, %zu for %zu, type %u", r, size, h->bytes, type);
	r = cu.cuPointerGetAttribute(&again, CU_POINTER_ATTRIBUTE_BUFFER_ID, h->p);
	EXPECT(w, r == CUDA_SUCCESS && again == id && id, "id %llu, then %llu (%d)", id, again, r);
	EXPECT(w, !h->id || h->id == id, "id changed from %llu to %llu", h->id, id);
	if (!h->id && w->id_count < IDS)
		w->ids[w->id_count++] = id;
	h->id = id;
}

static void share(struct worker *w, struct held *h)
{
	unsigned flag = 1;
	CUipcMemHandle handle;
	CUresult r = next(w, 2) && cu.cuIpcGetMemHandle
					 ? cu.cuIpcGetMemHandle(&handle, h->p)
					 : cu.cuPointerSetAttribute(&flag, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, h->p);

	EXPECT(w, r == CUDA_SUCCESS, "sharing: %d", r);
}

static void let_go(struct worker *w, struct held *h)
{
	CUresult r = h->ordered && next(w, 4) ? cu.cuMemFreeAsync(h->p, w->stream) : cu.cuMemFree_v2(h->p);

	EXPECT(w, r == CUDA_SUCCESS, "free: %d", r);
	*h = (struct held){0};
}

static void take(struct worker *w, struct held *h)
{
	static const size_t sizes[] = {700, 4096, 60000, 1 << 20, 3 << 20, 5 << 20};
	size_t most = sizes[next(w, sizeof(sizes) / sizeof(sizes[0]))];

	h->bytes = most - next(w, most / 16);
	h->ordered = cu.cuMemAllocAsync && next(w, 2);
	CUresult r =
		h->ordered ? cu.cuMemAllocAsync(&h->p, h->bytes, w->stream) : cu.cuMemAlloc_v2(&h->p, h->bytes);
	EXPECT(w, r == CUDA_SUCCESS, "alloc: %d", r);
	if (r != CUDA_SUCCESS)
		*h = (struct held){0};
	else if (next(w, 4) == 0)
		ask_attributes(w, h);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	if (cu.cuCtxSetCurrent(fx.ctx) || cu.cuStreamCreate(&w->stream, CU_STREAM_NON_BLOCKING))
		return NULL;
	while (!w->wrong[0] && now() < end_time) {
		struct held *h = &w->held[next(w, HELD)];
		if (!h->p)
			take(w, h);
		else
			switch (next(w, 8)) {
			case 0:
			case 1: ask_range(w, h); break;
			case 2:
			case 3: ask_attributes(w, h); break;
			case 4:
				if (!h->ordered && next(w, 4) == 0)
					share(w, h);
				break;
			default: let_go(w, h);
			}
		w->ops++;
	}
	for (int i = 0; i < HELD; i++)
		if (w->held[i].p)
			let_go(w, &w->held[i]);
	EXPECT(w, cu.cuStreamDestroy_v2(w->stream) == CUDA_SUCCESS, "stream");
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	unsigned long long x = *(const unsigned long long *)a, y = *(const unsigned long long *)b;
	return x < y ? -1 : x > y;
}

static void answers_hold_at_random(void **state)
{
	(void)state;
	const char *text = getenv("SEED"), *soak = getenv("SOAK_S");
	uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL), ops = 0;
	static unsigned long long all[THREADS * IDS];
	unsigned count = 0;

	print_message("SEED=%llu\n", (unsigned long long)seed);
	end_time = now() + (soak ? atof(soak) / 4 : 1.5);
	for (int i = 0; i < THREADS; i++) {
		workers[i].random = seed * 2654435761u + (unsigned)i + 1;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		if (workers[i].wrong[0])
			fail_msg("%s", workers[i].wrong);
		memcpy(&all[count], workers[i].ids, workers[i].id_count * sizeof(all[0]));
		count += workers[i].id_count;
		ops += workers[i].ops;
	}
	qsort(all, count, sizeof(all[0]), by_value);
	for (unsigned i = 1; i < count; i++)
		assert_int_not_equal(all[i - 1], all[i]);
	print_message("%llu operations, %u allocations asked for their id\n", (unsigned long long)ops, count);
	assert_true(count > 20);
}

int main(int argc, char **argv)
{
	int status = modes_main(argv);

	(void)argc;
	if (status >= 0)
		return status;
	copy_open();
	const struct CMUnitTest tests[] = {EITHER(answers_hold_at_random)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
