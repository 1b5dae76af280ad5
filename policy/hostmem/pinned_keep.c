/* pinned_keep.c - see pinned_keep.h. */
#define _GNU_SOURCE
#include "pinned_keep.h"

#include "clock.h"
#include "options.h"
#include "pinned.h"
#include "real.h"
#include "stats.h"
#include "../memory.h"

/* Enough for what a program takes and gives back all the time: a part of the memory, which nobody can page out. */
#define KEEP_SHARE 64
#define KEEP_MOST ((size_t)2 << 30)

static size_t most;                          /* constant after pinned_keep_start() */
static struct pinned_block *oldest, *newest; /* the lock */
static _Atomic size_t kept;                  /* written under the lock */
static _Atomic uint64_t came;

void pinned_keep_start(void)
{
	int64_t mb = option_get(OPT_HOSTMEM_CACHE_MB);
	if (mb != OPTION_AUTO) {
		most = (size_t)mb << 20;
		return;
	}
	struct memory memory;
	if (!memory_look("", &memory))
		return;
	most = memory.total / KEEP_SHARE < KEEP_MOST ? (size_t)memory.total / KEEP_SHARE : KEEP_MOST;
}

size_t pinned_keep_most(void)
{
	return most;
}

size_t pinned_kept(void)
{
	return atomic_load_explicit(&kept, memory_order_relaxed);
}

uint64_t pinned_came(void)
{
	return atomic_load(&came);
}

size_t pinned_round(size_t bytes)
{
	size_t step = (size_t)1 << (63 - __builtin_clzll(bytes));
	step = step / 32 > 4096 ? step / 32 : 4096;
	return (bytes + step - 1) / step * step;
}

static void set(struct pinned_block *b, int state)
{
	atomic_store_explicit(&b->state, state, memory_order_relaxed);
}

static int state_of(const struct pinned_block *b)
{
	return atomic_load_explicit(&b->state, memory_order_relaxed);
}

static size_t size_of(const struct pinned_block *b)
{
	return atomic_load_explicit(&b->size, memory_order_relaxed);
}

/* ---- the list by age; the lock is held ---- */

void pinned_put(struct pinned_block *b, struct pinned_fence *fence, uint64_t now)
{
	b->fence = fence;
	b->since = now;
	set(b, fence || b->unsure ? PINNED_PENDING : PINNED_KEPT);
	b->newer = NULL;
	b->older = newest;
	if (newest)
		newest->newer = b;
	else
		oldest = b;
	newest = b;
	atomic_store_explicit(&kept, pinned_kept() + size_of(b), memory_order_relaxed);
	stats_add(STATS_PINNED_BYTES, size_of(b));
}

static void take_out(struct pinned_block *b)
{
	if (b->older)
		b->older->newer = b->newer;
	else
		oldest = b->newer;
	if (b->newer)
		b->newer->older = b->older;
	else
		newest = b->older;
	b->older = b->newer = NULL;
	set(b, PINNED_GONE);
	atomic_store_explicit(&kept, pinned_kept() - size_of(b), memory_order_relaxed);
	stats_add(STATS_PINNED_BYTES, -(uint64_t)size_of(b));
}

/* ---- handing out ---- */

struct request {
	struct pinned_ctx *ctx;
	size_t bytes, most;
	unsigned flags;
};

static bool fits(const struct pinned_block *b, const struct request *r)
{
	return b->ctx == r->ctx && b->flags == r->flags && size_of(b) >= r->bytes && size_of(b) <= r->most;
}

/* The smallest that fits; of two the one that was freed last, whose bytes the caches may still have. */
static struct pinned_block *best(const struct request *r)
{
	struct pinned_block *found = NULL;
	for (struct pinned_block *b = newest; b; b = b->older)
		if (state_of(b) == PINNED_KEPT && fits(b, r) && (!found || size_of(b) < size_of(found)))
			found = b;
	return found;
}

/* The oldest that fits and waits for a fence. */
static struct pinned_block *pending(const struct request *r)
{
	for (struct pinned_block *b = oldest; b; b = b->newer)
		if (state_of(b) == PINNED_PENDING && b->fence && fits(b, r))
			return b;
	return NULL;
}

/* Asks the events of one block; younger ones have not passed either, mostly. It stays in the list meanwhile, and nobody
 * else's. What cannot be told about is only good for the driver. */
static struct pinned_block *take_pending(const struct request *r)
{
	pthread_mutex_lock(&pinned_lock);
	struct pinned_block *b = pending(r);
	struct pinned_fence *fence = b ? b->fence : NULL;
	if (b)
		set(b, PINNED_GONE);
	pthread_mutex_unlock(&pinned_lock);
	if (!b)
		return NULL;
	enum pinned_elsewhere is = pinned_fence_look(fence);
	pthread_mutex_lock(&pinned_lock);
	b->fence = is == PINNED_AHEAD ? fence : NULL;
	b->unsure = is == PINNED_UNSURE;
	if (is == PINNED_IDLE)
		take_out(b);
	else
		set(b, PINNED_PENDING);
	pthread_mutex_unlock(&pinned_lock);
	return is == PINNED_IDLE ? b : NULL;
}

struct pinned_block *pinned_take(struct pinned_ctx *ctx, size_t bytes, unsigned flags)
{
	size_t rounded = pinned_round(bytes);
	struct request r = {.ctx = ctx, .bytes = bytes, .most = rounded + rounded / 8, .flags = flags};
	pthread_mutex_lock(&pinned_lock);
	struct pinned_block *b = best(&r);
	if (b)
		take_out(b);
	pthread_mutex_unlock(&pinned_lock);
	return b ? b : take_pending(&r);
}

/* ---- the table, and what is forgotten; the lock is held ---- */

/* Its memory is gone. One in the hands of a thread is that thread's to drop, if it comes back. */
static void forget(struct pinned_block *b)
{
	int state = state_of(b);
	if (state == PINNED_KEPT || state == PINNED_PENDING)
		take_out(b);
	if (state == PINNED_BARRIER || state == PINNED_GONE)
		return;
	if (b->fence)
		pinned_fence_abandon(b->fence);
	pinned_block_drop(b);
}

bool pinned_track(struct pinned_block *b)
{
	struct pinned_block *stale;
	while (!pinned_insert(b, &stale)) {
		if (!stale)
			return false;
		forget(stale);
	}
	return true;
}

void pinned_keep_forget(struct pinned_ctx *c)
{
	pthread_mutex_lock(&pinned_lock);
	for (unsigned i = 0; pinned_at(i);) {
		struct pinned_block *b = pinned_at(i);
		if (b->ctx != c) {
			i++;
			continue;
		}
		pinned_remove(b);
		forget(b);
	}
	pthread_mutex_unlock(&pinned_lock);
	pinned_fence_sweep();
}

/* ---- back to the driver ---- */

/* Out of the table first: the driver may hand the address out before its call returns. One that the driver does not
 * take is kept still, and tried again when it is old once more. */
static size_t give_back(struct pinned_block *b, enum pinned_reason why)
{
	static const enum stats_counter counters[] = {
		[PINNED_BOUND] = STATS_PINNED_RELEASED_BOUND,
		[PINNED_OLD] = STATS_PINNED_RELEASED_IDLE,
		[PINNED_PRESSURE] = STATS_PINNED_RELEASED_PRESSURE,
	};
	void *memory = (void *)atomic_load_explicit(&b->base, memory_order_relaxed);
	struct pinned_call call;
	size_t size = size_of(b);
	bool freed = false;
	if (pinned_enter(b->ctx, &call)) {
		pthread_mutex_lock(&pinned_lock);
		pinned_remove(b);
		pthread_mutex_unlock(&pinned_lock);
		freed = REAL(cuMemFreeHost)(memory) == CUDA_SUCCESS;
		pinned_leave(&call);
	}
	pthread_mutex_lock(&pinned_lock);
	if (freed && b->fence)
		pinned_fence_abandon(b->fence);
	if (!freed && (pinned_find((uintptr_t)memory) == b || pinned_track(b))) {
		pinned_put(b, b->fence, clock_ns());
	} else {
		pinned_block_drop(b);
	}
	pthread_mutex_unlock(&pinned_lock);
	pinned_fence_sweep();
	if (!freed)
		return 0;
	atomic_fetch_add(&came, 1);
	stats_add(counters[why], size);
	return size;
}

/* Takes the oldest block out whose context is there still; the context is held. */
static struct pinned_block *victim(int device, uint64_t before)
{
	struct pinned_block *b;
	pthread_mutex_lock(&pinned_lock);
	for (b = oldest; b && b->since < before; b = b->newer) {
		if (state_of(b) == PINNED_GONE || (device >= 0 && b->ctx->device != device) ||
			!pinned_ctx_hold(b->ctx))
			continue;
		break;
	}
	if (b && b->since >= before)
		b = NULL;
	if (b)
		take_out(b);
	pthread_mutex_unlock(&pinned_lock);
	return b;
}

/* False: there was none. */
static bool release(int device, uint64_t before, enum pinned_reason why, size_t *bytes)
{
	struct pinned_block *b = victim(device, before);
	if (!b)
		return false;
	struct pinned_ctx *c = b->ctx;
	*bytes = give_back(b, why);
	pinned_ctx_put(c);
	return true;
}

size_t pinned_release_one(int device, uint64_t before, enum pinned_reason why)
{
	size_t bytes = 0;
	return release(device, before, why, &bytes) ? bytes : 0;
}

size_t pinned_release_all(enum pinned_reason why)
{
	size_t sum = 0, bytes;
	uint64_t now = clock_ns() + 1; /* one that the driver does not take is younger */
	while (release(-1, now, why, &bytes))
		sum += bytes;
	return sum;
}

bool pinned_due(uint64_t before)
{
	pthread_mutex_lock(&pinned_lock);
	bool due = oldest && (oldest->since < before || pinned_kept() > most);
	pthread_mutex_unlock(&pinned_lock);
	return due;
}
