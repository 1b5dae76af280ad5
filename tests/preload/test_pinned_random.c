/* ENV: TURBO_HOSTMEM=on TURBO_HOSTMEM_CACHE_MB=48 TURBO_LOG=warn SIM_JITTER_US=30 SIM_DEVICES=2 BARE */
/*
 * Random pinned memory: several threads take blocks in several contexts, fill them, queue copies to the device from
 * them and free them at once. cuMemFreeHost waits; so what the device got must be what the block's owner had written,
 * whoever has the block next. Live blocks never overlap, and what is said about an address is what is
 * true of it: the shadow model knows.
 *
 * PINNED_RANDOM_SEED   seed of the first round (default: from the clock)
 * PINNED_RANDOM_OPS    operations of all threads together (default 4000)
 * SOAK_S               instead: rounds of new seeds for that many seconds
 */
#include "common/players.h"
#include <cmocka.h>

#include <unistd.h>

#define THREADS 4
#define LIVE 6    /* blocks that a thread holds at most */
#define TARGETS 8 /* device buffers of a thread in each context */
#define PART 4096
#define CONTEXTS 3

static CUcontext contexts[CONTEXTS];
static unsigned context_count;

struct block {
	unsigned char *p;
	size_t bytes;
	unsigned ctx, flags;
	uint32_t tag;
};

struct target {
	CUdeviceptr at;
	uint32_t tag; /* 0: nothing was copied */
	size_t off;
};

struct actor {
	struct player me;
	uint32_t next_tag;
	unsigned checked;
	CUstream stream[CONTEXTS];
	struct target target[CONTEXTS][TARGETS];
	struct block block[LIVE];
};

/* All live blocks of all threads. */
static struct {
	pthread_mutex_t lock;
	struct {
		uintptr_t base;
		size_t bytes;
	} at[THREADS * LIVE];
} shadow = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A byte of a block: two tags differ somewhere in any eight. */
static unsigned char byte_of(uint32_t tag, size_t off)
{
	return (unsigned char)((tag >> (off % 4 * 8)) + off / 4096);
}

static bool shadow_add(struct actor *a, const struct block *b)
{
	bool ok = true;
	int free_at = -1;
	pthread_mutex_lock(&shadow.lock);
	for (int i = 0; i < THREADS * LIVE; i++) {
		if (!shadow.at[i].bytes)
			free_at = i;
		else if (shadow.at[i].base < (uintptr_t)b->p + b->bytes &&
				 (uintptr_t)b->p < shadow.at[i].base + shadow.at[i].bytes)
			ok = false;
	}
	shadow.at[free_at].base = (uintptr_t)b->p;
	shadow.at[free_at].bytes = b->bytes;
	pthread_mutex_unlock(&shadow.lock);
	return ok ? true : WRONG(a, "a block at %p overlaps a live one", (void *)b->p);
}

static void shadow_remove(const struct block *b)
{
	pthread_mutex_lock(&shadow.lock);
	for (int i = 0; i < THREADS * LIVE; i++)
		if (shadow.at[i].bytes && shadow.at[i].base == (uintptr_t)b->p)
			shadow.at[i].bytes = 0;
	pthread_mutex_unlock(&shadow.lock);
}

/* ---- operations ---- */

static bool use(struct actor *a, unsigned ctx)
{
	TRY(a, cu.cuCtxSetCurrent(contexts[ctx]));
	return true;
}

static bool op_alloc(struct actor *a, struct block *b)
{
	static const size_t often[] = {MIB, MIB + 100, 2 * MIB, 3 * MIB - 5};
	static const unsigned flags[] = {0, CU_MEMHOSTALLOC_PORTABLE,
									 CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP};
	b->bytes = below(a, 4) ? often[below(a, 4)] : 64 * KIB + below(a, 3 * MIB);
	b->ctx = (unsigned)below(a, context_count);
	b->flags = (unsigned)below(a, 4);
	b->tag = a->next_tag++;
	STEP(use(a, b->ctx));
	void *p = NULL;
	if (b->flags == 3)
		TRY(a, cu.cuMemAllocHost_v2(&p, b->bytes));
	else
		TRY(a, cu.cuMemHostAlloc(&p, b->bytes, flags[b->flags]));
	b->p = p;
	STEP(shadow_add(a, b));
	for (size_t off = 0; off < b->bytes; off += PART) {
		size_t n = b->bytes - off < 64 ? b->bytes - off : 64;
		for (size_t i = 0; i < n; i++)
			b->p[off + i] = byte_of(b->tag, off + i);
	}
	return true;
}

/* What the device got the last time is compared, and a new copy is queued. */
static bool target_check(struct actor *a, unsigned ctx, struct target *t)
{
	unsigned char got[64];
	if (!t->tag)
		return true;
	TRY(a, cu.cuMemcpyDtoHAsync_v2(got, t->at, sizeof(got), a->stream[ctx]));
	TRY(a, cu.cuStreamSynchronize(a->stream[ctx]));
	for (size_t i = 0; i < sizeof(got); i++)
		if (got[i] != byte_of(t->tag, t->off + i))
			return WRONG(a, "byte %zu of tag %x at %zu is %02x", i, t->tag, t->off, got[i]);
	a->checked++;
	t->tag = 0;
	return true;
}

static void delay(void *us)
{
	usleep((useconds_t)(uintptr_t)us);
}

/* Most copies are late: the block is freed, and somebody else's, while they wait. */
static bool op_copy(struct actor *a, struct block *b)
{
	struct target *t = &a->target[b->ctx][below(a, TARGETS)];
	STEP(use(a, b->ctx));
	STEP(target_check(a, b->ctx, t));
	t->off = below(a, (b->bytes - 64) / PART + 1) * PART;
	if (t->off + 64 > b->bytes)
		t->off = 0;
	if (below(a, 3))
		TRY(a, cu.cuLaunchHostFunc(a->stream[b->ctx], delay, (void *)(uintptr_t)below(a, 2000)));
	TRY(a, cu.cuMemcpyHtoDAsync_v2(t->at, b->p + t->off, 64, a->stream[b->ctx]));
	t->tag = b->tag;
	return true;
}

static bool op_ask(struct actor *a, struct block *b)
{
	uint64_t size = 0, ctx = 0;
	size_t off = below(a, b->bytes);
	CUdeviceptr at = (CUdeviceptr)(uintptr_t)b->p + off;
	TRY(a, cu.cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at));
	TRY(a, cu.cuPointerGetAttribute(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, at));
	if (size != b->bytes || ctx != (uintptr_t)contexts[b->ctx])
		return WRONG(a, "%llu bytes of %zu, or another context", (unsigned long long)size, b->bytes);
	for (size_t i = 0; i < 64; i++)
		if (b->p[i] != byte_of(b->tag, i))
			return WRONG(a, "somebody has written to a live block");
	return true;
}

static bool op_free(struct actor *a, struct block *b)
{
	unsigned current = (unsigned)below(a, context_count + 1);
	if (below(a, 2))
		STEP(op_copy(a, b));
	if (current == context_count)
		TRY(a, cu.cuCtxSetCurrent(NULL));
	else
		STEP(use(a, current));
	shadow_remove(b); /* before: another thread may get it while the call returns */
	CUresult r = cu.cuMemFreeHost(b->p);
	b->p = NULL;
	TRY(a, r);
	return true;
}

static bool step(void *player)
{
	struct actor *a = player;
	struct block *b = &a->block[below(a, LIVE)];
	if (!b->p)
		return op_alloc(a, b);
	switch (below(a, 5)) {
	case 0: return op_ask(a, b);
	case 1:
	case 2: return op_copy(a, b);
	default: return op_free(a, b);
	}
}

static bool actor_open(void *player)
{
	struct actor *a = player;
	a->next_tag = a->me.number << 24 | 1;
	for (unsigned c = 0; c < context_count; c++) {
		STEP(use(a, c));
		TRY(a, cu.cuStreamCreate(&a->stream[c], CU_STREAM_NON_BLOCKING));
		for (int t = 0; t < TARGETS; t++)
			TRY(a, cu.cuMemAlloc_v2(&a->target[c][t].at, 64));
	}
	return true;
}

static bool actor_close(void *player)
{
	struct actor *a = player;
	for (unsigned i = 0; i < LIVE; i++)
		if (a->block[i].p)
			STEP(op_free(a, &a->block[i]));
	for (unsigned c = 0; c < context_count; c++) {
		STEP(use(a, c));
		for (int t = 0; t < TARGETS; t++) {
			STEP(target_check(a, c, &a->target[c][t]));
			TRY(a, cu.cuMemFree_v2(a->target[c][t].at));
		}
		TRY(a, cu.cuStreamDestroy_v2(a->stream[c]));
	}
	return true;
}

static bool one_round(uint64_t seed, unsigned ops)
{
	static struct actor actors[THREADS];
	static const struct game game = {THREADS, sizeof(actors[0]), actors, actor_open, step, actor_close};
	unsigned checked = 0;
	memset(shadow.at, 0, sizeof(shadow.at));
	STEP(game_round(&game, seed, ops));
	for (unsigned i = 0; i < THREADS; i++)
		checked += actors[i].checked;
	printf("%u copies checked, %llu hits, %llu misses\n", checked, (unsigned long long)counter("pinned.hits"),
		   (unsigned long long)counter("pinned.misses"));
	return checked > ops / 20;
}

int main(void)
{
	copy_open();
	unsigned ops = env_number("PINNED_RANDOM_OPS", fx.san ? 1500 : 4000);
	contexts[0] = fx.ctx;
	context_count = 1;
	if (cu.cuCtxCreate_v2(&contexts[context_count], 0, 0) == CUDA_SUCCESS)
		context_count++;
	if (fx.devices > 1 && cu.cuDevicePrimaryCtxRetain(&contexts[context_count], 1) == CUDA_SUCCESS)
		context_count++;
	cu.cuCtxSetCurrent(fx.ctx);
	if (!rounds_play(&(struct rounds){"PINNED_RANDOM_SEED", ops, ops, 0, 1.0}, one_round))
		return 1;
	if (sim.errors && sim.errors()) {
		printf("the simulator saw mistakes\n");
		return 1;
	}
	if (fx.preloaded && counter("pinned.hits") < 20) {
		printf("hardly anything was handed out again\n");
		return 1;
	}
	return 0;
}
