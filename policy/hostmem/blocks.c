/* blocks.c - see blocks.h. */
#define _GNU_SOURCE
#include "blocks.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "stats.h"

#define PLACES 4096u
#define PROBES 64u
/* A block may be larger than what is asked for by one part of so many, and by BLOCKS_ALIGN. */
#define WASTE 8
/* Clearing by hand moves 10 GB/s, faulting small pages in 1.5 (169 ms for 256 MiB on the machine of BENCHMARKS.md); beyond,
 * memory that the program may never touch would be touched. Huge pages are as fast fresh. */
#define CLEAR_MOST ((size_t)256 << 20)

enum { FREE, USED, KEPT };

/* `address` is stored last and cleared first, under the lock; read without it. The rest: the lock, but that `bytes` and `state`
 * of a block that the program has are read by who has it. */
static struct block {
	_Atomic uintptr_t address; /* release, acquire */
	_Atomic size_t bytes;      /* of the mapping */
	_Atomic int state;
	int node;
	uint64_t since; /* kept since, ms */
} table[PLACES];

_Atomic size_t blocks_min = SIZE_MAX;
_Atomic bool blocks_any;
_Atomic uint32_t blocks_kept_some;

static _Atomic uint32_t lock;  /* futex: 0 free, 1 taken, 2 taken and waited for */
static size_t kept, kept_most; /* the lock */
static bool broken;            /* in a forked child: constant there */
/* Sizes, by their binary logarithm, of which blocks were at least half in memory when they were freed. Relaxed. */
static _Atomic uint64_t dense;

/* ---- the lock: held for some stores and a look over the table, never over a system call that can wait ---- */

static void lock_take(void)
{
	uint32_t none = 0;

	if (atomic_compare_exchange_strong_explicit(&lock, &none, 1, memory_order_acquire, memory_order_relaxed))
		return;
	while (atomic_exchange_explicit(&lock, 2, memory_order_acquire) != 0)
		syscall(SYS_futex, &lock, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static void lock_give(void)
{
	if (atomic_exchange_explicit(&lock, 0, memory_order_release) == 2)
		syscall(SYS_futex, &lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* ---- small things ---- */

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int this_node(void)
{
	unsigned cpu, node = 0;

	return syscall(SYS_getcpu, &cpu, &node, NULL) == 0 ? (int)node : 0;
}

static unsigned log_of(size_t bytes)
{
	return 63u - (unsigned)__builtin_clzl(bytes);
}

static bool is_dense(size_t bytes)
{
	return atomic_load_explicit(&dense, memory_order_relaxed) >> log_of(bytes) & 1;
}

static unsigned place_of(uintptr_t address)
{
	return (unsigned)((address >> 21) * UINT64_C(0x9e3779b97f4a7c15) >> 52);
}

static struct block *find(const void *address)
{
	unsigned first = place_of((uintptr_t)address);

	for (unsigned i = 0; i < PROBES; i++) {
		struct block *b = &table[(first + i) % PLACES];
		if (atomic_load_explicit(&b->address, memory_order_acquire) == (uintptr_t)address)
			return b;
	}
	return NULL;
}

/* The lock. */
static struct block *place_for(uintptr_t address)
{
	unsigned first = place_of(address);

	for (unsigned i = 0; i < PROBES; i++) {
		struct block *b = &table[(first + i) % PLACES];
		if (atomic_load_explicit(&b->address, memory_order_relaxed) == 0)
			return b;
	}
	return NULL;
}

/* ---- mappings ---- */

static void *map(size_t bytes)
{
	char *all = mmap(NULL, bytes + BLOCKS_ALIGN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before;

	if (all == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)all & (BLOCKS_ALIGN - 1);
	if (before)
		munmap(all, before);
	if (BLOCKS_ALIGN - before)
		munmap(all + before + bytes, BLOCKS_ALIGN - before);
	/* Blocks that were only touched here and there stay as small as they would be without us. */
	if (is_dense(bytes))
		madvise(all + before, bytes, MADV_HUGEPAGE);
	return all + before;
}

/* Whether half of it or more is in memory, by a sample. */
static bool half_resident(char *address, size_t bytes)
{
	enum { SAMPLES = 64 };
	unsigned char page;
	unsigned in = 0;
	size_t step = bytes / SAMPLES / 4096 * 4096;

	for (unsigned i = 0; i < SAMPLES; i++)
		in += mincore(address + i * step, 4096, &page) == 0 && (page & 1);
	return in * 2 >= SAMPLES;
}

/* ---- taking ---- */

/* The smallest kept block that fits, on this node. The lock. */
static struct block *best_kept(size_t bytes, int node)
{
	struct block *best = NULL;
	size_t most = bytes + bytes / WASTE + BLOCKS_ALIGN;

	for (unsigned i = 0; kept && i < PLACES; i++) {
		struct block *b = &table[i];
		size_t has = atomic_load_explicit(&b->bytes, memory_order_relaxed);
		if (atomic_load_explicit(&b->state, memory_order_relaxed) == KEPT && b->node == node &&
			has >= bytes && has <= most &&
			(!best || has < atomic_load_explicit(&best->bytes, memory_order_relaxed)))
			best = b;
	}
	return best;
}

/* The system's own zeros, in huge pages where blocks of this size fill. */
static void fresh(void *address, size_t has, size_t bytes)
{
	if (is_dense(bytes))
		madvise(address, has, MADV_HUGEPAGE);
	madvise(address, has, MADV_DONTNEED);
}

static void *take_kept(size_t bytes, bool zeroed)
{
	int node = this_node();
	struct block *b;
	size_t has = 0;

	lock_take();
	b = best_kept(bytes, node);
	if (b) {
		has = atomic_load_explicit(&b->bytes, memory_order_relaxed);
		atomic_store_explicit(&b->state, USED, memory_order_relaxed);
		kept -= has;
	}
	lock_give();
	if (!b)
		return NULL;
	void *address = (void *)atomic_load_explicit(&b->address, memory_order_relaxed);
	stats_add(STATS_HOSTMEM_BYTES, -(uint64_t)has);
	stats_add(STATS_HOSTMEM_HITS, 1);
	if (zeroed && bytes <= CLEAR_MOST && !is_dense(bytes))
		memset(address, 0, bytes);
	else if (zeroed)
		fresh(address, has, bytes);
	return address;
}

static void *take_new(size_t bytes)
{
	void *address = map(bytes);
	struct block *b;

	if (!address && blocks_trim(0) == 0)
		address = map(bytes);
	if (!address)
		return NULL;
	lock_take();
	b = place_for((uintptr_t)address);
	if (b) {
		atomic_store_explicit(&b->bytes, bytes, memory_order_relaxed);
		atomic_store_explicit(&b->state, USED, memory_order_relaxed);
		b->node = this_node();
		atomic_store_explicit(&b->address, (uintptr_t)address, memory_order_release);
		atomic_store_explicit(&blocks_any, true, memory_order_release);
	}
	lock_give();
	if (!b) {
		munmap(address, bytes);
		return NULL;
	}
	stats_add(STATS_HOSTMEM_MISSES, 1);
	return address;
}

void *blocks_take(size_t bytes, bool zeroed)
{
	int saved = errno;
	void *address;

	if (broken || bytes > SIZE_MAX / 4)
		return NULL;
	bytes = (bytes + BLOCKS_ALIGN - 1) & ~(BLOCKS_ALIGN - 1);
	address = take_kept(bytes, zeroed);
	if (!address)
		address = take_new(bytes);
	errno = saved;
	return address;
}

/* ---- giving ---- */

size_t blocks_size(const void *address)
{
	struct block *b = find(address);

	return b && atomic_load_explicit(&b->state, memory_order_relaxed) == USED
			   ? atomic_load_explicit(&b->bytes, memory_order_relaxed)
			   : 0;
}

/* Out of the table and unmapped. Not the lock: the block is nobody's any more. */
static void release(struct block *b, void *address, size_t bytes)
{
	/* First out of the table: the address may be another mapping's at once. */
	lock_take();
	atomic_store_explicit(&b->state, FREE, memory_order_relaxed);
	atomic_store_explicit(&b->address, 0, memory_order_release);
	lock_give();
	munmap(address, bytes);
	stats_add(STATS_HOSTMEM_RELEASED, bytes);
}

bool blocks_give(void *address)
{
	struct block *b = find(address);
	int saved = errno;
	bool keep, first = false;
	size_t bytes;

	if (!b || atomic_load_explicit(&b->state, memory_order_relaxed) != USED)
		return false;
	bytes = atomic_load_explicit(&b->bytes, memory_order_relaxed);
	if (broken) { /* what was the parent's goes back, and the table stays as it is */
		atomic_store_explicit(&b->address, 0, memory_order_release);
		munmap(address, bytes);
		errno = saved;
		return true;
	}
	if (half_resident(address, bytes))
		atomic_fetch_or_explicit(&dense, UINT64_C(1) << log_of(bytes), memory_order_relaxed);
	lock_take();
	keep = kept + bytes <= kept_most;
	if (keep) {
		first = kept == 0;
		kept += bytes;
		b->since = now_ms();
		atomic_store_explicit(&b->state, KEPT, memory_order_relaxed);
	}
	lock_give();
	if (keep)
		stats_add(STATS_HOSTMEM_BYTES, bytes);
	else
		release(b, address, bytes);
	if (first) {
		atomic_fetch_add_explicit(&blocks_kept_some, 1, memory_order_release);
		syscall(SYS_futex, &blocks_kept_some, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
	errno = saved;
	return true;
}

void *blocks_resize(void *address, size_t bytes)
{
	struct block *b = find(address), *to;
	int saved = errno;
	size_t has = b ? atomic_load_explicit(&b->bytes, memory_order_relaxed) : 0;
	void *moved;

	if (!b || bytes > SIZE_MAX / 4)
		return NULL;
	bytes = (bytes + BLOCKS_ALIGN - 1) & ~(BLOCKS_ALIGN - 1);
	if (bytes <= has && bytes >= has / 2)
		return address;
	/* Pages move to a new mapping: no byte is copied, what was never touched stays so. */
	moved = map(bytes);
	if (!moved) {
		errno = saved;
		return NULL;
	}
	size_t less = bytes < has ? bytes : has;
	lock_take();
	to = place_for((uintptr_t)moved);
	if (to) {
		atomic_store_explicit(&to->bytes, bytes, memory_order_relaxed);
		atomic_store_explicit(&to->state, USED, memory_order_relaxed);
		to->node = b->node;
		atomic_store_explicit(&to->address, (uintptr_t)moved, memory_order_release);
	}
	lock_give();
	if (!to || mremap(address, less, less, MREMAP_MAYMOVE | MREMAP_FIXED, moved) == MAP_FAILED) {
		if (to)
			release(to, moved, bytes);
		else
			munmap(moved, bytes);
		errno = saved;
		return NULL;
	}
	/* mremap has unmapped what it moved; the rest goes with the entry. */
	lock_take();
	atomic_store_explicit(&b->state, FREE, memory_order_relaxed);
	atomic_store_explicit(&b->address, 0, memory_order_release);
	lock_give();
	if (has > less)
		munmap((char *)address + less, has - less);
	errno = saved;
	return moved;
}

/* ---- giving back ---- */

size_t blocks_trim(uint64_t idle_ms)
{
	uint64_t now = now_ms();
	size_t left;

	for (unsigned i = 0; i < PLACES; i++) {
		struct block *b = &table[i];
		void *address = NULL;
		size_t bytes = 0;
		if (atomic_load_explicit(&b->state, memory_order_relaxed) != KEPT)
			continue;
		lock_take();
		if (atomic_load_explicit(&b->state, memory_order_relaxed) == KEPT && now - b->since >= idle_ms) {
			address = (void *)atomic_load_explicit(&b->address, memory_order_relaxed);
			bytes = atomic_load_explicit(&b->bytes, memory_order_relaxed);
			kept -= bytes;
			atomic_store_explicit(&b->state, USED, memory_order_relaxed); /* ours, for a moment */
		}
		lock_give();
		if (address) {
			stats_add(STATS_HOSTMEM_BYTES, -(uint64_t)bytes);
			release(b, address, bytes);
		}
	}
	lock_take();
	left = kept;
	lock_give();
	return left;
}

/* ---- life ---- */

void blocks_start(size_t min, size_t most)
{
	kept_most = most;
	atomic_store(&blocks_min, min);
}

void blocks_stop(void)
{
	atomic_store(&blocks_min, SIZE_MAX);
}

void blocks_fork_child(void)
{
	if (atomic_load(&lock) != 0) {
		broken = true;
		atomic_store(&blocks_min, SIZE_MAX);
		atomic_store(&lock, 0);
	}
}
