/*
 * kept.c - see kept.h.
 *
 * What is kept has been written by the program: at least half of its pages were in memory when it was freed. Who gets it
 * again finds them there. A block that the program touched here and there goes back to the system as it would without us.
 */
#include "kept.h"

#include <errno.h>
#include <sys/resource.h>
#include <time.h>

#include "pages.h"
#include "stats.h"
#include "trimmer.h"

/* A kept block may be larger than what is wanted by one part of so many, and is handed out whole. */
#define SLACK 4
/* Beyond, another one is cut or grown, if it is at most so many times as large, or as small. */
#define RESHAPE 2
/* Clearing by hand moves 10 GB/s, new pages come at 1.5 (169 ms for 256 MiB, measured on the machine of BENCHMARKS.md); but it
 * touches what the program may never touch. Of what is asked for. */
#define CLEAR_MOST ((size_t)256 << 20)
/* So often calloc gets new pages even so: whether the program still fills such blocks shows in those alone. */
#define LOOK_EVERY 16
/* New blocks larger than this are never advised to have huge pages. */
#define HUGE_MOST ((size_t)4 << 30)

/* Sequentially consistent against the trimmer, see trimmer.c. */
static _Atomic size_t bytes_kept;
/* Relaxed: they decide, and publish nothing. */
static _Atomic size_t most_kept;
static _Atomic bool pressed, child;
static _Atomic uint32_t looked;
/* Kinds of sizes, a bit each, of which the last block was at least half in memory when it was freed: malloc's, calloc's. */
static _Atomic uint64_t dense[2];

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Two kinds for each power of two from a MiB on. */
static unsigned kind_of(size_t bytes)
{
	unsigned log = 63u - (unsigned)__builtin_clzl(bytes | 1 << 20);
	unsigned kind = (log - 20) * 2 + (bytes >> (log - 1) & 1);

	return kind < 64 ? kind : 63;
}

static bool was_dense(size_t bytes, bool zeroed)
{
	return atomic_load_explicit(&dense[zeroed], memory_order_relaxed) >> kind_of(bytes) & 1;
}

static void learn(size_t bytes, bool zeroed, bool is)
{
	uint64_t bit = UINT64_C(1) << kind_of(bytes);

	if (is)
		atomic_fetch_or_explicit(&dense[zeroed], bit, memory_order_relaxed);
	else
		atomic_fetch_and_explicit(&dense[zeroed], ~bit, memory_order_relaxed);
}

/* ---- one block, in and out ---- */

static void put_back(struct big_block *b)
{
	atomic_store_explicit(&b->state, BIG_KEPT, memory_order_release);
}

/* Its bytes are counted already. */
static void enter(struct big_block *b)
{
	stats_add(STATS_HOSTMEM_BYTES, b->bytes);
	put_back(b);
}

static void count(const struct big_block *b)
{
	atomic_fetch_add(&bytes_kept, b->bytes);
}

static void uncount(const struct big_block *b)
{
	atomic_fetch_sub(&bytes_kept, b->bytes);
}

/* Of a block that was KEPT and is BUSY now. */
static void leave(struct big_block *b)
{
	uncount(b);
	stats_add(STATS_HOSTMEM_BYTES, -(uint64_t)b->bytes);
}

static void drop(struct big_block *b)
{
	leave(b);
	stats_add(STATS_HOSTMEM_RELEASED, b->bytes);
	blocks_release(b);
}

bool kept_drop_all(bool helper)
{
	uint32_t high = atomic_load_explicit(&blocks_high, memory_order_relaxed);
	bool some = false;

	atomic_store_explicit(&child, false, memory_order_relaxed);
	for (uint32_t i = 0; i < high; i++) {
		struct big_block *b = &blocks_table[i];
		if (atomic_load_explicit(&b->state, memory_order_relaxed) != BIG_KEPT ||
			!blocks_swap(b, BIG_KEPT, BIG_BUSY))
			continue;
		if (blocks_may(b, BLOCKS_GOES, helper)) {
			drop(b);
			some = true;
		} else {
			put_back(b);
		}
	}
	return some;
}

/* The one that was freed first, but those that are registered: these are the trimmer's business. */
static bool drop_oldest(void)
{
	uint32_t high = atomic_load_explicit(&blocks_high, memory_order_relaxed);
	struct big_block *oldest = NULL;

	for (uint32_t i = 0; i < high; i++) {
		struct big_block *b = &blocks_table[i];
		if (atomic_load_explicit(&b->state, memory_order_relaxed) == BIG_KEPT && b->pin == 0 &&
			(!oldest || b->since < oldest->since))
			oldest = b;
	}
	if (!oldest)
		return false;
	if (!blocks_swap(oldest, BIG_KEPT, BIG_BUSY))
		return true; /* somebody else has it: there may be room now */
	if (oldest->pin != 0) {
		put_back(oldest);
		return false;
	}
	drop(oldest);
	return true;
}

/* ---- taking ---- */

/* The less the better; SIZE_MAX: not at all. Whole, then cut, then grown. */
static size_t badness(const struct big_block *b, const struct big_want *w)
{
	size_t has = b->bytes;

	if ((b->flags & BIG_LEAD) != w->lead)
		return SIZE_MAX;
	if (has >= w->bytes && has - w->bytes <= w->bytes / SLACK)
		return has - w->bytes;
	if (b->pin != 0)
		return SIZE_MAX;
	if (has > w->bytes)
		return has / RESHAPE <= w->bytes ? SIZE_MAX / 4 + has : SIZE_MAX;
	return w->bytes / RESHAPE <= has ? SIZE_MAX / 2 + (w->bytes - has) : SIZE_MAX;
}

static struct big_block *best(const struct big_want *w)
{
	uint32_t high = atomic_load_explicit(&blocks_high, memory_order_relaxed);
	struct big_block *found = NULL;
	size_t least = SIZE_MAX;

	for (uint32_t i = 0; i < high; i++) {
		struct big_block *b = &blocks_table[i];
		size_t bad;
		if (atomic_load_explicit(&b->state, memory_order_acquire) != BIG_KEPT ||
			(bad = badness(b, w)) >= least || !pages_would_be_on(b->node))
			continue;
		found = b;
		least = bad;
	}
	return found;
}

/* BUSY, and the program's from now on, if it can be made so. */
static bool make_fit(struct big_block *b, const struct big_want *w)
{
	size_t has = b->bytes;

	if (badness(b, w) == SIZE_MAX || !blocks_may(b, BLOCKS_AGAIN, false))
		return false;
	if (b->flags & BIG_WIPED && !pages_wake(b->base, has))
		return false;
	if ((has < w->bytes || has - w->bytes > w->bytes / SLACK) && !blocks_reshape(b, w->bytes) &&
		has < w->bytes)
		return false;
	b->flags &= BIG_LEAD | BIG_HUGE;
	return true;
}

struct big_block *kept_take(const struct big_want *w, bool zeroed)
{
	struct big_block *b = NULL;

	if (atomic_load_explicit(&child, memory_order_relaxed))
		kept_drop_all(false);
	if (zeroed &&
		(w->bytes - pages_round(w->offset) > CLEAR_MOST || !was_dense(w->bytes, true) ||
		 atomic_fetch_add_explicit(&looked, 1, memory_order_relaxed) % LOOK_EVERY == LOOK_EVERY - 1))
		return NULL;
	/* Another thread may take the best one; not for ever. */
	for (int tries = 0; tries < 8 && kept_bytes() > 0; tries++) {
		b = best(w);
		if (!b)
			return NULL;
		if (!blocks_swap(b, BIG_KEPT, BIG_BUSY))
			continue;
		leave(b);
		if (make_fit(b, w)) {
			stats_add(STATS_HOSTMEM_HITS, 1);
			return b;
		}
		/* It was another block's place by now, or is registered, or there is no room to move it to. */
		count(b);
		enter(b);
		return NULL;
	}
	return NULL;
}

void kept_new(struct big_block *b, bool zeroed)
{
	if (zeroed)
		b->flags |= BIG_ZEROED;
	if (b->bytes <= HUGE_MOST && was_dense(b->bytes, zeroed)) {
		pages_huge(b->base, b->bytes);
		b->flags |= BIG_HUGE;
	}
}

/* ---- giving ---- */

/* With such a limit, what is kept could be missing elsewhere. */
static bool limited(void)
{
	static const int kinds[] = {RLIMIT_AS, RLIMIT_DATA};
	struct rlimit limit;

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (getrlimit(kinds[i], &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
			return true;
	return false;
}

/* True: counted. */
static bool room_for(const struct big_block *b)
{
	size_t most = atomic_load_explicit(&most_kept, memory_order_relaxed);

	if (b->bytes > most || kept_pressed() || limited())
		return false;
	count(b);
	while (kept_bytes() > most)
		if (!drop_oldest()) {
			uncount(b);
			return false;
		}
	return true;
}

/* As good as new, but for what is registered: that stays as it is. */
static bool settle(struct big_block *b)
{
	b->flags &= BIG_LEAD | BIG_HUGE;
	if (b->pin != 0)
		return true;
	if (!pages_settle(b->base, b->bytes))
		return false;
	b->flags |= BIG_WIPED;
	if (!(b->flags & BIG_HUGE)) {
		pages_huge(b->base, b->bytes);
		b->flags |= BIG_HUGE;
	}
	return true;
}

bool kept_put(struct big_block *b)
{
	uintptr_t in;
	bool keep = pages_dense(b->base, b->bytes, &in);

	if (atomic_load_explicit(&child, memory_order_relaxed))
		kept_drop_all(false);
	learn(b->bytes, b->flags & BIG_ZEROED, keep);
	keep = keep && settle(b) && room_for(b);
	if (!keep) {
		if (blocks_may(b, BLOCKS_GOES, false))
			return false;
		count(b); /* it cannot go yet */
		trimmer_hurry();
	}
	b->node = in ? pages_node(in) : 0;
	b->since = now_ms();
	enter(b);
	trimmer_wake();
	return true;
}

/* ---- the trimmer's ---- */

size_t kept_round(uint64_t idle_ms, uint64_t lazy_ms)
{
	uint32_t high = atomic_load_explicit(&blocks_high, memory_order_relaxed);
	uint64_t now = now_ms();

	for (uint32_t i = 0; i < high; i++) {
		struct big_block *b = &blocks_table[i];
		uint64_t age = now - b->since;
		bool lazy = age >= lazy_ms && b->pin == 0 && !(b->flags & BIG_LAZY);
		if (atomic_load_explicit(&b->state, memory_order_relaxed) != BIG_KEPT || (age < idle_ms && !lazy) ||
			!blocks_swap(b, BIG_KEPT, BIG_BUSY))
			continue;
		age = now -
			  b->since; /* it may have been handed out and freed meanwhile, and `since` be later than `now` */
		if ((int64_t)age >= (int64_t)idle_ms && blocks_may(b, BLOCKS_GOES, true)) {
			drop(b);
			continue;
		}
		if ((int64_t)age >= (int64_t)lazy_ms && b->pin == 0) {
			pages_lazy(b->base, b->bytes);
			b->flags |= BIG_LAZY;
		}
		put_back(b);
	}
	return kept_bytes();
}

void kept_press(bool is)
{
	atomic_store_explicit(&pressed, is, memory_order_relaxed);
}

bool kept_pressed(void)
{
	return atomic_load_explicit(&pressed, memory_order_relaxed);
}

size_t kept_bytes(void)
{
	return atomic_load(&bytes_kept);
}

/* ---- life ---- */

void kept_start(size_t most)
{
	atomic_store_explicit(&most_kept, most, memory_order_relaxed);
}

void kept_stop(void)
{
	atomic_store_explicit(&most_kept, 0, memory_order_relaxed);
}

void kept_fork_child(void)
{
	if (kept_bytes() > 0)
		atomic_store_explicit(&child, true, memory_order_relaxed);
}
