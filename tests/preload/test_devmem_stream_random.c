/* ENV: TURBO_DEVMEM=stream TURBO_COPY=off SIM_JITTER_US=40 SIM_MEM_MB=640 */
/*
 * The model test of stream-ordered memory: threads allocate and free on streams of all kinds, hand
 * blocks to one another, order streams by events, end streams with work on them, capture, trim and
 * run out of memory. A block that is worked on is filled with a tag of its own by a kernel and read back
 * by a copy, both queued; if anybody got memory of it before the device was done, a tag is wrong. Addresses of
 * blocks that are held must never overlap.
 *
 * STREAM_RANDOM_SEED   seed of the first round (default: from the clock)
 * STREAM_RANDOM_OPS    operations of all threads, in rounds of ROUND with new seeds (default 1,000,000, fewer
 *                      under a sanitizer, and no new round after a minute on a slow machine)
 * SOAK_S               instead: rounds for that many seconds
 */
#include "common/players.h"
#include "common/stream_fixture.h"
#include <cmocka.h>

#define ROUND 100000
#define THREADS 4
#define STREAMS 3 /* explicit ones of each thread; two more are its default ones */
#define ALL (STREAMS + 2)
#define HELD 20            /* blocks of each thread */
#define POST 16            /* blocks on their way from one thread to another */
#define BUDGET (140 * MIB) /* held by one thread at most */

struct block {
	CUdeviceptr p;
	size_t bytes;
	uint32_t tag;    /* 0: nobody has worked on it */
	unsigned stream; /* where its last work is */
};

struct actor {
	struct player me;
	unsigned refused, worked;
	uint32_t next_tag;
	size_t held;
	CUstream stream[ALL];
	CUevent event;
	struct block block[HELD];
	struct tag_reads reads;
};

/* A block in the post, and the event after which the receiver may touch it. */
static struct {
	pthread_mutex_t lock;
	struct block block[POST];
	CUevent event[POST];
	unsigned n;
} post = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A context with a capture in it cannot be waited for. */
static pthread_rwlock_t no_capture = PTHREAD_RWLOCK_INITIALIZER;

/* The per-thread stream is reached by handle and by the other ABI. */
static CUresult alloc(struct actor *a, CUdeviceptr *p, size_t bytes, CUstream s)
{
	if (s == CU_STREAM_PER_THREAD && below(a, 2))
		return cu.cuMemAllocAsync_ptsz(p, bytes, NULL);
	return cu.cuMemAllocAsync(p, bytes, s);
}

static CUresult release(struct actor *a, CUdeviceptr p, CUstream s)
{
	if (s == CU_STREAM_PER_THREAD && below(a, 2))
		return cu.cuMemFreeAsync_ptsz(p, NULL);
	return cu.cuMemFreeAsync(p, s);
}

/* ---- tags ---- */

static bool all_read(struct actor *a)
{
	return tags_wait(&a->me, &a->reads);
}

static bool check(struct actor *a, const struct block *b)
{
	return tags_read(&a->me, &a->reads, b->p, b->bytes, b->tag, a->stream[b->stream]);
}

static bool work(struct actor *a, struct block *b)
{
	CUstream s = a->stream[b->stream];
	if (b->tag)
		STEP(check(a, b));
	b->tag = a->next_tag++;
	a->worked++;
	TRY(a, cu.cuMemsetD32Async(b->p, b->tag, TAG_WORDS, s));
	TRY(a, cu.cuMemsetD32Async(b->p + b->bytes - 4 * TAG_WORDS, b->tag, TAG_WORDS, s));
	return true;
}

/* ---- operations ---- */

static size_t random_size(struct actor *a)
{
	if (below(a, 3) == 0) { /* a few sizes again and again, as programs do */
		static const size_t usual[] = {512, 4096, 100000, MIB, 3 * MIB, 20 * MIB};
		return usual[below(a, 6)];
	}
	unsigned bits = 6 + (unsigned)below(a, 19);
	return (((size_t)1 << bits) + below(a, (size_t)1 << bits)) & ~(size_t)3;
}

static bool overlaps(const struct actor *a, const struct block *b)
{
	for (unsigned i = 0; i < HELD; i++)
		if (&a->block[i] != b && a->block[i].p && a->block[i].p < b->p + b->bytes &&
			b->p < a->block[i].p + a->block[i].bytes)
			return true;
	return false;
}

static bool op_alloc(struct actor *a, struct block *b)
{
	size_t bytes = random_size(a);
	if (a->held + bytes > BUDGET)
		return true;
	unsigned n = (unsigned)below(a, ALL);
	CUresult r = alloc(a, &b->p, bytes, a->stream[n]);
	if (r == CUDA_ERROR_OUT_OF_MEMORY) {
		a->refused++;
		b->p = 0;
		return true;
	}
	TRY(a, r);
	*b = (struct block){b->p, bytes, 0, n};
	a->held += bytes;
	if (overlaps(a, b))
		return WRONG(a, "%zu bytes at %llx overlap a block that is held", bytes, (unsigned long long)b->p);
	return below(a, 4) || work(a, b);
}

/* The block's next work is on another stream, which waits for the last. */
static bool op_move(struct actor *a, struct block *b)
{
	unsigned to = (unsigned)below(a, ALL);
	TRY(a, cu.cuEventRecord(a->event, a->stream[b->stream]));
	TRY(a, cu.cuStreamWaitEvent(a->stream[to], a->event, 0));
	b->stream = to;
	return below(a, 2) || work(a, b);
}

static bool op_free(struct actor *a, struct block *b)
{
	if (b->tag && below(a, 4))
		STEP(check(a, b));
	if (below(a, 200) == 0) {
		/* Of the heap's blocks cuMemFree waits; one that the driver served, for want of memory or
		 * beside a capture, it frees under the work that uses it. */
		TRY(a, cu.cuStreamSynchronize(a->stream[b->stream]));
		TRY(a, cu.cuMemFree_v2(b->p));
	} else {
		TRY(a, release(a, b->p, a->stream[b->stream]));
	}
	a->held -= b->bytes;
	b->p = 0;
	return true;
}

/* Gives the block to whoever takes it out of the post, and takes one. */
static bool op_post(struct actor *a, struct block *b)
{
	struct block got = {0};
	CUevent ready = NULL, event;
	TRY(a, cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	TRY(a, cu.cuEventRecord(event, a->stream[b->stream]));
	pthread_mutex_lock(&post.lock);
	unsigned at = post.n < POST ? post.n : (unsigned)below(a, POST);
	if (at < post.n) {
		got = post.block[at];
		ready = post.event[at];
	} else {
		post.n++;
	}
	post.block[at] = *b;
	post.event[at] = event;
	pthread_mutex_unlock(&post.lock);
	a->held = a->held - b->bytes + got.bytes;
	*b = got;
	if (!got.p)
		return true;
	b->stream = (unsigned)below(a, ALL);
	TRY(a, cu.cuStreamWaitEvent(a->stream[b->stream], ready, 0));
	TRY(a, cu.cuEventDestroy_v2(ready));
	return true;
}

/* A stream ends with work on it; its blocks go on on another one. */
static bool op_new_stream(struct actor *a)
{
	unsigned n = (unsigned)below(a, STREAMS), to = STREAMS + (unsigned)below(a, 2);
	STEP(all_read(a));
	TRY(a, cu.cuEventRecord(a->event, a->stream[n]));
	TRY(a, cu.cuStreamWaitEvent(a->stream[to], a->event, 0));
	for (unsigned i = 0; i < HELD; i++)
		if (a->block[i].p && a->block[i].stream == n)
			a->block[i].stream = to;
	TRY(a, cu.cuStreamDestroy_v2(a->stream[n]));
	TRY(a, cu.cuStreamCreate(&a->stream[n], below(a, 2) ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
	return true;
}

/* Relaxed, on a stream that does not order with the legacy one: others go on. */
static bool capture(struct actor *a)
{
	CUgraph graph;
	CUgraphExec exec;
	CUstream s;
	CUdeviceptr p;
	TRY(a, cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	TRY(a, cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	CUresult r = cu.cuMemAllocAsync(&p, 4096, s);
	if (r == CUDA_ERROR_OUT_OF_MEMORY) { /* what is in the post counts for nobody */
		a->refused++;
		TRY(a, cu.cuStreamEndCapture(s, &graph));
		TRY(a, cu.cuGraphDestroy(graph));
		TRY(a, cu.cuStreamDestroy_v2(s));
		return true;
	}
	TRY(a, r);
	TRY(a, cu.cuMemsetD32Async(p, 1, 1024, s));
	for (unsigned i = 0; i < 4; i++)
		if (!a->block[i].p)
			STEP(op_alloc(a, &a->block[i]));
		else
			STEP(op_free(a, &a->block[i]));
	TRY(a, cu.cuMemFreeAsync(p, s));
	TRY(a, cu.cuStreamEndCapture(s, &graph));
	TRY(a, cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	TRY(a, cu.cuGraphLaunch(exec, s));
	TRY(a, cu.cuStreamSynchronize(s));
	TRY(a, cu.cuGraphExecDestroy(exec));
	TRY(a, cu.cuGraphDestroy(graph));
	TRY(a, cu.cuStreamDestroy_v2(s));
	return true;
}

static bool op_capture(struct actor *a)
{
	pthread_rwlock_rdlock(&no_capture);
	bool ok = capture(a);
	pthread_rwlock_unlock(&no_capture);
	return ok;
}

static bool op_synchronize(struct actor *a)
{
	pthread_rwlock_wrlock(&no_capture);
	CUresult r = cu.cuCtxSynchronize();
	pthread_rwlock_unlock(&no_capture);
	TRY(a, r);
	return true;
}

static bool op_rare(struct actor *a)
{
	int on = (int)below(a, 4) != 0;
	cuuint64_t threshold = below(a, 3) ? ~0ull : below(a, 64) * MIB;
	CUmemoryPool pool;
	TRY(a, cu.cuDeviceGetDefaultMemPool(&pool, 0));
	switch (below(a, 8)) {
	case 0: TRY(a, cu.cuMemPoolTrimTo(pool, below(a, 128) * MIB)); break;
	case 1:
		TRY(a, cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &on));
		break;
	case 2: TRY(a, cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &on)); break;
	case 3: TRY(a, cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold)); break;
	case 4: return op_capture(a);
	case 5: return op_new_stream(a);
	case 6: return op_synchronize(a);
	default: return all_read(a);
	}
	return true;
}

static bool play(struct actor *a)
{
	struct block *b = &a->block[below(a, HELD)];
	if (below(a, 2000) == 0)
		return op_rare(a);
	if (!b->p)
		return op_alloc(a, b);
	switch (below(a, 40)) {
	case 0: return op_move(a, b);
	case 1: return op_post(a, b);
	case 2: return work(a, b);
	default: return op_free(a, b);
	}
}

/* ---- threads ---- */

/* Streams of a real program do not run away without end. */
static bool op(void *player)
{
	struct actor *a = player;
	STEP(play(a));
	return (a->me.done + 1) % 5000 || all_read(a);
}

static bool open_actor(void *player)
{
	struct actor *a = player;
	a->next_tag = (a->me.number + 1) << 28 | 1;
	TRY(a, cu.cuCtxSetCurrent(fx.ctx));
	for (unsigned i = 0; i < STREAMS; i++)
		TRY(a, cu.cuStreamCreate(&a->stream[i], i % 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
	a->stream[STREAMS] = CU_STREAM_PER_THREAD;
	/* The legacy stream orders all blocking ones, which hides mistakes: one thread in two uses it. */
	a->stream[STREAMS + 1] = a->me.number % 2 ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
	TRY(a, cu.cuEventCreate(&a->event, CU_EVENT_DISABLE_TIMING));
	return tags_open(&a->me, &a->reads);
}

static bool close_actor(void *player)
{
	struct actor *a = player;
	for (unsigned i = 0; i < HELD; i++)
		if (a->block[i].p)
			STEP(op_free(a, &a->block[i]));
	STEP(tags_close(&a->me, &a->reads));
	for (unsigned i = 0; i < STREAMS; i++)
		TRY(a, cu.cuStreamDestroy_v2(a->stream[i]));
	TRY(a, cu.cuEventDestroy_v2(a->event));
	return true;
}

static bool one_round(uint64_t seed, unsigned ops)
{
	static struct actor actors[THREADS];
	static const struct game game = {THREADS, sizeof(actors[0]), actors, open_actor, op, close_actor};
	unsigned refused = 0, worked = 0;
	STEP(game_round(&game, seed, ops));
	for (unsigned i = 0; i < THREADS; i++) {
		refused += actors[i].refused;
		worked += actors[i].worked;
	}
	for (unsigned i = 0; i < post.n; i++) {
		OK(cu.cuEventSynchronize(post.event[i]));
		OK(cu.cuEventDestroy_v2(post.event[i]));
		free_on(NULL, post.block[i].p);
	}
	post.n = 0;
	OK(cu.cuCtxSynchronize());
	print_message("%u blocks worked on, %u allocations refused\n", worked, refused);
	/* Refused only by the driver; with four times 140 MiB of 640 held at most, hardly ever. */
	assert_true(refused < ops / 20);
	assert_true(worked > ops / 20);
	return true;
}

static void nothing_is_handed_out_early(void **state)
{
	(void)state;
	const struct rounds rounds = {.seed = "STREAM_RANDOM_SEED",
								  .ops = env_number("STREAM_RANDOM_OPS", fx.san ? 60000 : 1000000),
								  .most = ROUND,
								  .limit_s = 60,
								  .soak = 1};
	unsigned done = rounds_play(&rounds, one_round);
	assert_true(done > 0);
	print_message("%u operations\n", done);
}

int main(void)
{
	stream_open();
	const struct CMUnitTest tests[] = {
		SERVED(nothing_is_handed_out_early),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
