/* ENV: TURBO_LOG=warn SIM_JITTER_US=30 BARE */
/*
 * Random allocations, work and frees by several threads on several streams, contexts and devices:
 * every block is filled with a tag of its own on one stream, the tag is read back on that stream or on one
 * that waits for it, and the block is freed, often while all of this is still queued. A block
 * that is handed out before the device is done with it shows as a wrong tag.
 *
 * The program runs itself once for each mode, and prints the seed.
 *
 * DEVMEM_RANDOM_SEED   seed of the first round (default: from the clock)
 * DEVMEM_RANDOM_OPS    operations of all threads together in each mode (default 24000)
 * SOAK_S               instead: rounds of new seeds for that many seconds in all
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define STREAMS 3 /* of each thread in each context */
#define LIVE 24   /* blocks that a thread holds at most */
#define READS 64  /* tags of a thread on their way to the host */
#define WORDS 16  /* read back at each end of a block */
#define CONTEXTS 3

static CUcontext contexts[CONTEXTS];
static unsigned context_count;

struct block {
	CUdeviceptr p;
	size_t bytes;
	uint32_t tag;
	unsigned ctx, stream; /* where its last work is */
};

struct read {
	uint32_t *host; /* 2 * WORDS words of pinned memory */
	uint32_t tag;
	CUstream stream;
	bool used;
};

struct actor {
	pthread_t thread;
	unsigned number, ctx, ops;
	uint64_t random;
	uint32_t next_tag;
	CUstream stream[CONTEXTS][STREAMS];
	CUevent event[CONTEXTS];
	struct block block[LIVE];
	struct read read[READS];
	unsigned done, checked;
	char wrong[240];
};

#define WRONG(a, ...) (snprintf((a)->wrong, sizeof((a)->wrong), __VA_ARGS__), false)
#define TRY(a, call)                                             \
	do {                                                         \
		CUresult r_ = (call);                                    \
		if (r_ != CUDA_SUCCESS)                                  \
			return WRONG(a, "%s: %s", #call, cuda_dl_error(r_)); \
	} while (0)

static uint64_t below(struct actor *a, uint64_t limit)
{
	return random_below(&a->random, limit);
}

/* 4 bytes to 4 MiB, each power of two as likely as the next, some sizes again and again. */
static size_t random_size(struct actor *a)
{
	static const size_t often[] = {512, 64 * KIB, MIB, MIB + 4, 2 * MIB, 3 * MIB};
	if (below(a, 2))
		return often[below(a, 6)];
	unsigned bits = 2 + (unsigned)below(a, 20);
	return (((size_t)1 << bits) + below(a, (size_t)1 << bits)) / 4 * 4;
}

static bool use(struct actor *a, unsigned ctx)
{
	if (a->ctx != ctx)
		TRY(a, cu.cuCtxSetCurrent(contexts[ctx]));
	a->ctx = ctx;
	return true;
}

/* ---- tags that come back ---- */

static bool read_end(struct actor *a, struct read *r)
{
	TRY(a, cu.cuStreamSynchronize(r->stream));
	r->used = false;
	a->checked++;
	for (int i = 0; i < 2 * WORDS; i++)
		if (r->host[i] != r->tag)
			return WRONG(a, "word %d is %08x, not %08x: the block was handed out too early", i, r->host[i],
						 r->tag);
	return true;
}

/* Puts the reading of both ends of the block on the stream where its work is. */
static bool read_begin(struct actor *a, const struct block *b)
{
	struct read *r = &a->read[below(a, READS)];
	size_t n = b->bytes < WORDS * 4 ? b->bytes : WORDS * 4;
	if (r->used && !read_end(a, r))
		return false;
	for (int i = 0; i < 2 * WORDS; i++)
		r->host[i] = b->tag;
	r->stream = a->stream[b->ctx][b->stream];
	r->tag = b->tag;
	r->used = true;
	TRY(a, cu.cuMemcpyDtoHAsync_v2(r->host, b->p, n, r->stream));
	TRY(a, cu.cuMemcpyDtoHAsync_v2(r->host + WORDS, b->p + b->bytes - n, n, r->stream));
	return true;
}

/* ---- operations ---- */

static bool op_alloc(struct actor *a, struct block *b)
{
	b->ctx = (unsigned)below(a, context_count);
	b->stream = (unsigned)below(a, STREAMS);
	b->bytes = random_size(a);
	b->tag = a->next_tag++;
	if (!use(a, b->ctx))
		return false;
	TRY(a, cu.cuMemAlloc_v2(&b->p, b->bytes));
	TRY(a, cu.cuMemsetD32Async(b->p, b->tag, b->bytes / 4, a->stream[b->ctx][b->stream]));
	return true;
}

/* Its work goes on on another stream. */
static bool op_move(struct actor *a, struct block *b)
{
	unsigned to = (unsigned)below(a, STREAMS);
	TRY(a, cu.cuEventRecord(a->event[b->ctx], a->stream[b->ctx][b->stream]));
	TRY(a, cu.cuStreamWaitEvent(a->stream[b->ctx][to], a->event[b->ctx], 0));
	b->stream = to;
	return true;
}

static bool op_refill(struct actor *a, struct block *b)
{
	b->tag = a->next_tag++;
	TRY(a, cu.cuMemsetD32Async(b->p, b->tag, b->bytes / 4, a->stream[b->ctx][b->stream]));
	return true;
}

static void delay(void *us)
{
	usleep((useconds_t)(uintptr_t)us);
}

/* From whatever context is current, or none. */
static bool op_free(struct actor *a, struct block *b)
{
	if (below(a, 4) == 0)
		TRY(a, cu.cuLaunchHostFunc(a->stream[b->ctx][b->stream], delay, (void *)(uintptr_t)below(a, 400)));
	if (below(a, 4) && !read_begin(a, b))
		return false;
	CUdeviceptr p = b->p;
	bool bare = below(a, 10) == 0;
	if (bare)
		TRY(a, cu.cuCtxSetCurrent(NULL));
	CUresult r = cu.cuMemFree_v2(p);
	if (bare)
		TRY(a, cu.cuCtxSetCurrent(contexts[a->ctx]));
	b->p = 0;
	TRY(a, r);
	return true;
}

static bool op_wait(struct actor *a)
{
	if (below(a, 4) == 0)
		TRY(a, cu.cuCtxSynchronize());
	else
		TRY(a, cu.cuStreamSynchronize(a->stream[a->ctx][below(a, STREAMS)]));
	return true;
}

static bool step(struct actor *a)
{
	struct block *b = &a->block[below(a, LIVE)];
	if (below(a, 100) == 0)
		return op_wait(a);
	if (!b->p)
		return op_alloc(a, b);
	switch (below(a, 6)) {
	case 0: return op_move(a, b);
	case 1: return op_refill(a, b);
	case 2: return read_begin(a, b);
	default: return op_free(a, b);
	}
}

/* ---- threads ---- */

static bool actor_open(struct actor *a)
{
	uint32_t *host;
	for (unsigned c = 0; c < context_count; c++) {
		TRY(a, cu.cuCtxSetCurrent(contexts[c]));
		for (unsigned s = 0; s < STREAMS; s++)
			TRY(a, cu.cuStreamCreate(&a->stream[c][s], s ? CU_STREAM_NON_BLOCKING : 0));
		TRY(a, cu.cuEventCreate(&a->event[c], CU_EVENT_DISABLE_TIMING));
		a->ctx = c;
	}
	TRY(a, cu.cuMemHostAlloc((void **)&host, READS * 2 * WORDS * 4, CU_MEMHOSTALLOC_PORTABLE));
	for (unsigned i = 0; i < READS; i++)
		a->read[i].host = host + i * 2 * WORDS;
	return true;
}

static bool actor_close(struct actor *a)
{
	for (unsigned i = 0; i < LIVE; i++)
		if (a->block[i].p && !op_free(a, &a->block[i]))
			return false;
	for (unsigned i = 0; i < READS; i++)
		if (a->read[i].used && !read_end(a, &a->read[i]))
			return false;
	for (unsigned c = 0; c < context_count; c++)
		for (unsigned s = 0; s < STREAMS; s++)
			TRY(a, cu.cuStreamDestroy_v2(a->stream[c][s]));
	TRY(a, cu.cuMemFreeHost(a->read[0].host));
	return true;
}

static void *actor_main(void *arg)
{
	struct actor *a = arg;
	bool ok = actor_open(a);
	for (; ok && a->done < a->ops; a->done++)
		ok = step(a);
	if (ok)
		actor_close(a);
	return NULL;
}

static unsigned long env_number(const char *name, unsigned long missing)
{
	const char *text = getenv(name);
	return text && *text ? strtoul(text, NULL, 10) : missing;
}

static bool one_round(const char *mode, uint64_t seed)
{
	static struct actor actors[THREADS];
	unsigned ops = (unsigned)env_number("DEVMEM_RANDOM_OPS", fx.san ? 6000 : 24000), checked = 0;
	bool ok = true;
	printf("%s: seed %llu, %u operations\n", mode, (unsigned long long)seed, ops);
	fflush(stdout);
	memset(actors, 0, sizeof(actors));
	for (unsigned i = 0; i < THREADS; i++) {
		actors[i].number = i;
		actors[i].random = (seed + i + 1) * 0x9e3779b97f4a7c15ull | 1;
		actors[i].next_tag = i << 28 | 1;
		actors[i].ops = ops / THREADS;
		pthread_create(&actors[i].thread, NULL, actor_main, &actors[i]);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(actors[i].thread, NULL);
		checked += actors[i].checked;
		if (!actors[i].wrong[0])
			continue;
		printf("thread %u, operation %u: %s\n", i, actors[i].done, actors[i].wrong);
		ok = false;
	}
	printf("%u tags checked, %llu hits, %llu misses\n", checked,
		   (unsigned long long)counter("devmem.cache.hits"),
		   (unsigned long long)counter("devmem.cache.misses"));
	return ok && checked > ops / 20;
}

static void open_contexts(void)
{
	contexts[0] = fx.ctx;
	context_count = 1;
	if (cu.cuCtxCreate_v2(&contexts[context_count], 0, 0) == CUDA_SUCCESS)
		context_count++;
	if (fx.devices > 1 && cu.cuDevicePrimaryCtxRetain(&contexts[context_count], 1) == CUDA_SUCCESS)
		context_count++;
	cu.cuCtxSetCurrent(fx.ctx);
}

static int run_mode(const char *mode)
{
	uint64_t seed = env_number("DEVMEM_RANDOM_SEED", now_ns() % 1000000000), until = 0;
	unsigned long soak = env_number("SOAK_S", 0);
	copy_open();
	open_contexts();
	if (soak)
		until = now_ns() + soak * 1000000000ull / 2;
	do {
		if (!one_round(mode, seed++))
			return 1;
	} while (now_ns() < until);
	if (sim.errors && sim.errors()) {
		printf("the simulator saw mistakes\n");
		return 1;
	}
	if (fx.preloaded && counter("devmem.cache.hits") < 100) {
		printf("hardly anything was handed out again\n");
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const modes[] = {"cache", "deferred"};
	int failed = 0;
	if (argc > 1)
		return run_mode(argv[1]);
	for (unsigned i = 0; i < (counters_preloaded() ? 2 : 1); i++) {
		int status = 0;
		pid_t pid = fork();
		if (pid == 0) {
			setenv("TURBO_DEVMEM", modes[i], 1);
			setenv("TURBO_DEVMEM_CACHE_MB", "96", 1);
			execl("/proc/self/exe", argv[0], modes[i], (char *)NULL);
			_exit(126);
		}
		waitpid(pid, &status, 0);
		if (status) {
			printf("mode %s failed: status %x\n", modes[i], (unsigned)status);
			failed = WIFEXITED(status) && WEXITSTATUS(status) == 77 ? 77 : 1;
		}
	}
	return failed;
}
