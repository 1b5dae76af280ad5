/*
 * test_sim_random_pool.c - streams allocate, mark, check and free memory of one pool in a random
 * order, some of it freed by another stream than the one that allocated it. Whoever gets a block
 * too early writes over a mark that its owner still looks for. SEED, SOAK_S.
 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "common/simtest.h"
#include "sim.h"

#define STREAMS 5
#define LIVE 64
#define OPS 4000

static CUfunction tag_fill, tag_check;
static CUstream stream[STREAMS];
static CUevent event[STREAMS];
static uint64_t *wrong;
static uint64_t seed;

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % below;
}

struct block {
	CUdeviceptr p;
	uint64_t bytes, tag;
	unsigned owner; /* index of the stream that used it last */
};

static struct block live[LIVE];

static void fill(const struct block *b)
{
	CUdeviceptr p = b->p;
	uint64_t bytes = b->bytes, tag = b->tag;
	void *args[] = {&p, &bytes, &tag};
	st_launch(tag_fill, stream[b->owner], args);
}

static void check(const struct block *b)
{
	CUdeviceptr p = b->p;
	uint64_t bytes = b->bytes, tag = b->tag;
	void *args[] = {&p, &bytes, &tag, &wrong};
	st_launch(tag_check, stream[b->owner], args);
}

/* The stream that uses the block next is ordered after the one that did. */
static void hand_over(struct block *b, unsigned to)
{
	if (to == b->owner)
		return;
	ok(cuEventRecord(event[b->owner], stream[b->owner]));
	ok(cuStreamWaitEvent(stream[to], event[b->owner], 0));
	b->owner = to;
}

/* Bytes of blocks that cuMemFree freed: the pool counts them as used for good. */
static cuuint64_t still_counted;

static void drop(struct block *b)
{
	check(b);
	if (draw(8) == 0) { /* the host's free: nothing uses the block */
		ok(cuStreamSynchronize(stream[b->owner]));
		ok(cuMemFree_v2(b->p));
		still_counted += (b->bytes + 511) & ~511ull;
	} else {
		ok(cuMemFreeAsync(b->p, stream[b->owner]));
	}
	b->p = 0;
}

static void allocate(struct block *b)
{
	uint64_t power = 3 + draw(20);
	b->bytes = ((1ull << power) + draw(1ull << power)) & ~7ull;
	b->owner = (unsigned)draw(STREAMS);
	b->tag = draw(1ull << 31) << 20;
	CUresult r = cuMemAllocAsync(&b->p, b->bytes, stream[b->owner]);
	if (r == CUDA_ERROR_OUT_OF_MEMORY) {
		b->p = 0;
		return;
	}
	ok(r);
	for (struct block *other = live; other < live + LIVE; other++)
		assert_true(other == b || !other->p || b->p + b->bytes <= other->p ||
					other->p + other->bytes <= b->p);
	fill(b);
}

static void configure(CUmemoryPool pool)
{
	cuuint64_t threshold = draw(2) ? UINT64_MAX : draw(256) << 20;
	int follow = (int)draw(2), opportunistic = (int)draw(2), internal = (int)draw(2);
	ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &follow));
	ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &opportunistic));
	ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &internal));
}

static void step(CUmemoryPool pool)
{
	struct block *b = &live[draw(LIVE)];
	if (!b->p)
		allocate(b);
	else if (draw(3) == 0)
		hand_over(b, (unsigned)draw(STREAMS));
	else
		drop(b);
	switch (draw(200)) {
	case 0: ok(cuStreamSynchronize(stream[draw(STREAMS)])); break;
	case 1: ok(cuMemPoolTrimTo(pool, draw(512) << 20)); break;
	case 2: configure(pool); break;
	case 3: ok(cuCtxSynchronize()); break;
	default: break;
	}
}

static void no_block_has_two_owners(void **state)
{
	(void)state;
	const char *soak = getenv("SOAK_S"), *given = getenv("SEED");
	time_t end = time(NULL) + (soak ? atoi(soak) : 0);
	CUmemoryPool pool;
	cuuint64_t used, zero = 0;
	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
	printf("SEED=%llu\n", (unsigned long long)seed);
	ok(cuDeviceGetDefaultMemPool(&pool, 0));
	do {
		for (int i = 0; i < OPS; i++)
			step(pool);
		for (struct block *b = live; b < live + LIVE; b++)
			if (b->p)
				drop(b);
		ok(cuCtxSynchronize());
		assert_int_equal(*wrong, 0);
		assert_int_equal(sim_errors(), 0);
		ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
		assert_int_equal(used, still_counted);
		ok(cuMemPoolTrimTo(pool, 0));
		ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &used));
		assert_int_equal(used, 0); /* all free blocks came together again */
		assert_int_equal(sim_live_bytes(0), 0);
	} while (time(NULL) < end);
	ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &zero));
}

static int setup(void **state)
{
	CUmodule module;
	if (simtest_setup(state) || cuModuleLoadData(&module, "simulated") ||
		cuModuleGetFunction(&tag_fill, module, "tag_fill") ||
		cuModuleGetFunction(&tag_check, module, "tag_check"))
		return -1;
	wrong = st_pinned(sizeof *wrong);
	for (int i = 0; i < STREAMS; i++) {
		stream[i] = st_stream(i ? CU_STREAM_NON_BLOCKING : 0);
		event[i] = st_event();
	}
	return 0;
}

int main(void)
{
	simtest_only_sim();
	const struct CMUnitTest tests[] = {cmocka_unit_test(no_block_has_two_owners)};
	return cmocka_run_group_tests(tests, setup, simtest_teardown);
}
