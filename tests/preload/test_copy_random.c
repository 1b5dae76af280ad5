/* ENV: TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=16 SIM_JITTER_US=20 BARE */
/*
 * Random copies of all kinds, sizes and alignments, on streams of all kinds, among kernels,
 * memsets, events and host functions, by several threads at once, against a byte model: each
 * thread owns a device block and keeps on the host what must stand in it.
 *
 * COPY_RANDOM_SEED   seed of the first round (default: from the clock; it is printed)
 * COPY_RANDOM_OPS    operations of all threads together (default 2400)
 * SOAK_S             instead: rounds of new seeds for that many seconds
 */
#include "common/players.h"
#include <cmocka.h>

#include <sys/mman.h>
#include <unistd.h>

#define THREADS 4
#define ROOM (24 * MIB) /* device bytes of a thread */
#define LARGEST (20 * MIB)
#define GUARD 64

/* Random bytes that sources are cut out of; constant after start. */
static unsigned char *pool;

struct actor {
	struct player me;
	CUcontext ctx;
	bool kernels; /* the fixture's kernels are of this thread's context */
	CUstream stream, aux;
	CUevent event;
	CUdeviceptr block;
	unsigned char *model; /* what the block must hold once the stream is idle */
	unsigned copies;
};

/* 4 bytes to 20 MiB, each power of two as likely as the next; often just at a limit. */
static size_t random_size(struct actor *a)
{
	static const size_t limits[] = {64 * KIB, 128 * KIB, MIB, EARLY_BYTES, 4 * MIB, 16 * MIB};
	if (below(a, 8) == 0)
		return limits[below(a, 6)] + below(a, 3) - 1;
	unsigned bits = 2 + (unsigned)below(a, 23);
	size_t n = ((size_t)1 << bits) + below(a, (size_t)1 << bits);
	return n < LARGEST ? n : LARGEST - below(a, 1000);
}

static size_t random_place(struct actor *a, size_t n, size_t align)
{
	return below(a, ROOM - n + 1) / align * align;
}

static const char *differs(const unsigned char *have, const unsigned char *want, size_t n)
{
	static __thread char text[40];
	size_t i = 0;
	if (memcmp(have, want, n) == 0)
		return NULL;
	for (; have[i] == want[i]; i++)
		;
	snprintf(text, sizeof(text), "byte %zu of %zu", i, n);
	return text;
}

/* ---- copies ---- */

static CUresult copy_in(struct actor *a, unsigned form, CUdeviceptr dst, const void *src, size_t n)
{
	CUdeviceptr from = (CUdeviceptr)src;
	switch (form) {
	case 0: return cu.cuMemcpyHtoDAsync_v2(dst, src, n, a->stream);
	case 1: return cu.cuMemcpyHtoDAsync_v2_ptsz(dst, src, n, a->stream);
	case 2: return cu.cuMemcpyAsync(dst, from, n, a->stream);
	case 3: return cu.cuMemcpyAsync_ptsz(dst, from, n, a->stream);
	case 4: return cu.cuMemcpyHtoD_v2(dst, src, n);
	case 5: return cu.cuMemcpyHtoD_v2_ptds(dst, src, n);
	case 6: return cu.cuMemcpy(dst, from, n);
	default: return cu.cuMemcpy_ptds(dst, from, n);
	}
}

static CUresult copy_out(struct actor *a, unsigned form, void *dst, CUdeviceptr src, size_t n)
{
	CUdeviceptr to = (CUdeviceptr)dst;
	switch (form) {
	case 0: return cu.cuMemcpyDtoHAsync_v2(dst, src, n, a->stream);
	case 1: return cu.cuMemcpyDtoHAsync_v2_ptsz(dst, src, n, a->stream);
	case 2: return cu.cuMemcpyAsync(to, src, n, a->stream);
	case 3: return cu.cuMemcpyAsync_ptsz(to, src, n, a->stream);
	case 4: return cu.cuMemcpyDtoH_v2(dst, src, n);
	case 5: return cu.cuMemcpyDtoH_v2_ptds(dst, src, n);
	case 6: return cu.cuMemcpy(to, src, n);
	default: return cu.cuMemcpy_ptds(to, src, n);
	}
}

/* Two thirds asynchronous. */
static unsigned random_form(struct actor *a)
{
	return (unsigned)(below(a, 3) ? below(a, 4) : 4 + below(a, 4));
}

/* A synchronous copy is on a default stream, which need not be ordered with this thread's. */
static bool settle(struct actor *a, unsigned form)
{
	if (form < 4)
		return true;
	TRY(a, cu.cuStreamSynchronize(a->stream));
	TRY(a, cu.cuStreamSynchronize(form % 2 ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY));
	return true;
}

static bool op_copy_in(struct actor *a)
{
	size_t n = random_size(a), at = random_place(a, n, 1), cut = below(a, ROOM - n + 1), off = below(a, 100);
	unsigned form = random_form(a), end = (unsigned)below(a, 3);
	unsigned char *src = end == 2
							 ? mmap(NULL, n + off, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
							 : malloc(n + off);
	if (!src || src == MAP_FAILED)
		return WRONG(a, "no memory");
	memcpy(src + off, pool + cut, n);
	memcpy(a->model + at, pool + cut, n);
	if (!settle(a, form))
		return false;
	TRY(a, copy_in(a, form, a->block + at, src + off, n));
	if (end == 0)
		memset(src, 0xdd, n + off);
	if (end == 2)
		munmap(src, n + off);
	else
		free(src);
	a->copies++;
	return settle(a, form);
}

static bool op_copy_out(struct actor *a)
{
	size_t n = random_size(a), at = random_place(a, n, 1), off = below(a, 100);
	unsigned form = random_form(a);
	unsigned char *room = malloc(off + n + 2 * GUARD), *dst = room + GUARD + off;
	memset(dst - GUARD, 0x66, GUARD);
	memset(dst + n, 0x66, GUARD);
	if (!settle(a, form))
		return false;
	TRY(a, copy_out(a, form, dst, a->block + at, n));
	const char *bad = differs(dst, a->model + at, n);
	if (bad)
		return WRONG(a, "copy out by form %u: %s", form, bad);
	for (int i = 1; i <= GUARD; i++)
		if (dst[-i] != 0x66 || dst[n + (size_t)i - 1] != 0x66)
			return WRONG(a, "copy out of %zu bytes wrote beside its destination", n);
	free(room);
	a->copies++;
	return true;
}

/* ---- other work on the stream ---- */

static bool op_fill(struct actor *a)
{
	size_t n = (random_size(a) + 3) / 4 * 4, at = random_place(a, n, 4);
	uint32_t word = (uint32_t)random_next(&a->me.random);
	if (a->kernels && below(a, 2))
		TRY(a, launch_fill(a->stream, a->block + at, n / 4, word));
	else
		TRY(a, cu.cuMemsetD32Async(a->block + at, word, n / 4, a->stream));
	for (size_t i = 0; i < n; i += 4)
		memcpy(a->model + at + i, &word, 4);
	return true;
}

static bool op_move(struct actor *a)
{
	size_t n = random_size(a);
	if (n > ROOM / 2)
		n = ROOM / 2;
	size_t from = below(a, ROOM / 2 - n + 1), to = ROOM / 2 + below(a, ROOM / 2 - n + 1);
	if (a->kernels && below(a, 2))
		TRY(a, launch_copy(a->stream, a->block + to, a->block + from, n));
	else
		TRY(a, cu.cuMemcpyDtoDAsync_v2(a->block + to, a->block + from, n, a->stream));
	memcpy(a->model + to, a->model + from, n);
	return true;
}

/* A detour: another stream does the next piece of work, between two events. */
static bool op_detour(struct actor *a)
{
	size_t n = 4096, at = random_place(a, n, 4);
	uint32_t word = (uint32_t)random_next(&a->me.random);
	TRY(a, cu.cuEventRecord(a->event, a->stream));
	TRY(a, cu.cuStreamWaitEvent(a->aux, a->event, 0));
	TRY(a, cu.cuMemsetD32Async(a->block + at, word, n / 4, a->aux));
	TRY(a, cu.cuEventRecord(a->event, a->aux));
	TRY(a, cu.cuStreamWaitEvent(a->stream, a->event, 0));
	for (size_t i = 0; i < n; i += 4)
		memcpy(a->model + at + i, &word, 4);
	return true;
}

static void delay(void *us)
{
	usleep((useconds_t)(uintptr_t)us);
}

static bool op_delay(struct actor *a)
{
	TRY(a, cu.cuLaunchHostFunc(a->stream, delay, (void *)(uintptr_t)(100 + below(a, 900))));
	return true;
}

struct rewrite {
	unsigned char *at;
	const unsigned char *with;
	size_t bytes;
};

static void rewrite(void *arg)
{
	struct rewrite *r = arg;
	usleep(1000);
	memcpy(r->at, r->with, r->bytes);
}

/* A host function rewrites the source before the copy's turn: beyond 2 MiB only new bytes may
 * arrive, before that old or new ones. */
static bool op_late(struct actor *a)
{
	size_t n = random_size(a), at = random_place(a, n, 1), old = below(a, ROOM - n + 1),
		   new = below(a, ROOM - n + 1);
	unsigned char *src = malloc(n), *seen = malloc(n);
	/* ThreadSanitizer would report the race that is allowed. */
	size_t keep = !fx.tsan ? 0 : n < EARLY_BYTES ? n : EARLY_BYTES;
	struct rewrite r = {src + keep, pool + new + keep, n - keep};
	memcpy(src, pool + old, n);
	TRY(a, cu.cuLaunchHostFunc(a->stream, rewrite, &r));
	TRY(a, copy_in(a, (unsigned)below(a, 4), a->block + at, src, n));
	TRY(a, cu.cuMemcpyDtoHAsync_v2(seen, a->block + at, n, a->stream));
	a->copies += 2;
	size_t early = n < EARLY_BYTES ? n : EARLY_BYTES;
	for (size_t i = 0; i < early; i++)
		if (seen[i] != pool[old + i] && seen[i] != pool[new + i])
			return WRONG(a, "a late source of %zu bytes: byte %zu is neither old nor new", n, i);
	const char *bad = n > early ? differs(seen + early, pool + new + early, n - early) : NULL;
	if (bad)
		return WRONG(a, "a late source of %zu bytes, beyond 2 MiB: %s", n, bad);
	memcpy(a->model + at, seen, n);
	free(src);
	free(seen);
	return true;
}

static bool op_synchronize(struct actor *a)
{
	if (below(a, 2)) {
		TRY(a, cu.cuEventRecord(a->event, a->stream));
		TRY(a, cu.cuEventSynchronize(a->event));
	} else {
		TRY(a, cu.cuStreamSynchronize(a->stream));
	}
	return true;
}

/* ---- a thread ---- */

static CUcontext second; /* of another device where there is one, for the last thread */

static bool open_actor(void *player)
{
	static const CUstream defaults[] = {CU_STREAM_PER_THREAD, CU_STREAM_LEGACY};
	struct actor *a = player;
	a->ctx = a->me.number == THREADS - 1 ? second : fx.ctx;
	a->kernels = a->ctx == fx.ctx;
	TRY(a, cu.cuCtxSetCurrent(a->ctx));
	if (a->me.number % 4 < 2)
		TRY(a, cu.cuStreamCreate(&a->stream, a->me.number % 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
	else
		a->stream = defaults[a->me.number % 2];
	TRY(a, cu.cuStreamCreate(&a->aux, CU_STREAM_NON_BLOCKING));
	TRY(a, cu.cuEventCreate(&a->event, CU_EVENT_DISABLE_TIMING));
	TRY(a, cu.cuMemAlloc_v2(&a->block, ROOM));
	TRY(a, cu.cuMemsetD32Async(a->block, 0, ROOM / 4, a->stream));
	a->model = calloc(1, ROOM);
	return a->model != NULL;
}

static bool close_actor(void *player)
{
	struct actor *a = player;
	unsigned char *seen = malloc(ROOM);
	TRY(a, cu.cuMemcpyDtoHAsync_v2(seen, a->block, ROOM, a->stream));
	const char *bad = differs(seen, a->model, ROOM);
	if (bad)
		return WRONG(a, "at the end: %s", bad);
	free(seen);
	free(a->model);
	TRY(a, cu.cuMemFree_v2(a->block));
	TRY(a, cu.cuEventDestroy_v2(a->event));
	TRY(a, cu.cuStreamDestroy_v2(a->aux));
	if (a->me.number % 4 < 2)
		TRY(a, cu.cuStreamDestroy_v2(a->stream));
	return true;
}

static bool op(void *player)
{
	static bool (*const ops[])(struct actor *) = {op_copy_in, op_copy_out, op_fill, op_move,
												  op_detour,  op_delay,    op_late, op_synchronize};
	static const char mix[] = "0000001111234567"; /* ten of sixteen are copies */
	struct actor *a = player;
	return ops[mix[below(a, sizeof(mix) - 1)] - '0'](a);
}

static unsigned copies;

static bool one_round(uint64_t seed, unsigned ops)
{
	static struct actor actors[THREADS];
	static const struct game game = {THREADS, sizeof(actors[0]), actors, open_actor, op, close_actor};
	second = fx.ctx;
	if (fx.devices > 1)
		OK(cu.cuDevicePrimaryCtxRetain(&second, 1));
	bool well = game_round(&game, seed, ops);
	for (unsigned i = 0; i < THREADS; i++)
		copies += actors[i].copies;
	if (second != fx.ctx)
		OK(cu.cuDevicePrimaryCtxRelease_v2(1));
	return well;
}

static void random_copies_match_the_model(void **state)
{
	(void)state;
	unsigned ops = env_number("COPY_RANDOM_OPS", 2400);
	assert_true(rounds_play(&(struct rounds){"COPY_RANDOM_SEED", ops, ops, 0, 1}, one_round) > 0);
	print_message("%u copies, %llu staged\n", copies, (unsigned long long)copy_staged());
	/* A quarter of the sizes is large enough; some find the ring full. */
	if (fx.preloaded)
		assert_true(copy_staged() > copies / 10);
}

int main(void)
{
	copy_open();
	uint64_t random = 1;
	pool = malloc(ROOM);
	for (size_t i = 0; i < ROOM; i += 8) {
		uint64_t word = random_next(&random);
		memcpy(pool + i, &word, 8);
	}
	const struct CMUnitTest tests[] = {
		STAGED(random_copies_match_the_model),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
