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
#include "common/players.h"
#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define STREAMS 3 /* of each thread in each context */
#define LIVE 24   /* blocks that a thread holds at most */
#define CONTEXTS 3

static CUcontext contexts[CONTEXTS];
static unsigned context_count;

struct block {
	CUdeviceptr p;
	size_t bytes;
	uint32_t tag;
	unsigned ctx, stream; /* where its last work is */
};

struct actor {
	struct player me;
	unsigned ctx;
	uint32_t next_tag;
	CUstream stream[CONTEXTS][STREAMS];
	CUevent event[CONTEXTS];
	struct block block[LIVE];
	struct tag_reads reads;
};

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

/* Puts the reading of both ends of the block on the stream where its work is. */
static bool read_begin(struct actor *a, const struct block *b)
{
	return tags_read(&a->me, &a->reads, b->p, b->bytes, b->tag, a->stream[b->ctx][b->stream]);
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

static bool step(void *player)
{
	struct actor *a = player;
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

static bool actor_open(void *player)
{
	struct actor *a = player;
	a->next_tag = a->me.number << 28 | 1;
	for (unsigned c = 0; c < context_count; c++) {
		TRY(a, cu.cuCtxSetCurrent(contexts[c]));
		for (unsigned s = 0; s < STREAMS; s++)
			TRY(a, cu.cuStreamCreate(&a->stream[c][s], s ? CU_STREAM_NON_BLOCKING : 0));
		TRY(a, cu.cuEventCreate(&a->event[c], CU_EVENT_DISABLE_TIMING));
		a->ctx = c;
	}
	return tags_open(&a->me, &a->reads);
}

static bool actor_close(void *player)
{
	struct actor *a = player;
	for (unsigned i = 0; i < LIVE; i++)
		if (a->block[i].p && !op_free(a, &a->block[i]))
			return false;
	STEP(tags_close(&a->me, &a->reads));
	for (unsigned c = 0; c < context_count; c++)
		for (unsigned s = 0; s < STREAMS; s++)
			TRY(a, cu.cuStreamDestroy_v2(a->stream[c][s]));
	return true;
}

static bool one_round(uint64_t seed, unsigned ops)
{
	static struct actor actors[THREADS];
	static const struct game game = {THREADS, sizeof(actors[0]), actors, actor_open, step, actor_close};
	unsigned checked = 0;
	STEP(game_round(&game, seed, ops));
	for (unsigned i = 0; i < THREADS; i++)
		checked += actors[i].reads.checked;
	printf("%u tags checked, %llu hits, %llu misses\n", checked,
		   (unsigned long long)counter("devmem.cache.hits"),
		   (unsigned long long)counter("devmem.cache.misses"));
	return checked > ops / 20;
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
	unsigned ops = env_number("DEVMEM_RANDOM_OPS", fx.san ? 6000 : 24000);
	printf("%s\n", mode);
	copy_open();
	open_contexts();
	if (!rounds_play(&(struct rounds){"DEVMEM_RANDOM_SEED", ops, ops, 0, 0.5}, one_round))
		return 1;
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
