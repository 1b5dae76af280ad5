/*
 * blocks.c - the table of blocks, and from an address to its block.
 *
 * No two blocks share a granule of the address space: each begins at the beginning of one (the page of a BIG_LEAD lies in the
 * granule before, which is not entered for it), so a map from granules to entries finds the block of any address.
 */
#define _GNU_SOURCE
#include "blocks.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "gate.h"
#include "kept.h"
#include "log.h"
#include "pages.h"
#include "stats.h"

struct big_block blocks_table[BLOCKS_MOST];
_Atomic uint32_t blocks_high;
_Atomic bool blocks_any;

static _Atomic(blocks_hook *) hook;

/* ---- from granules to entries ---- */

#define GRANULE_BITS 21
#define LEAF_BITS 14
#define ADDRESS_BITS 48
#define LEAVES (1u << (ADDRESS_BITS - GRANULE_BITS - LEAF_BITS))
#define LEAF_GRANULES (1u << LEAF_BITS)

/* Number of an entry + 1, or 0. Release after the entry is filled; acquire. */
struct leaf {
	_Atomic uint16_t entry[LEAF_GRANULES];
};
/* Never taken away. Release, acquire. */
static _Atomic(struct leaf *) root[LEAVES];
_Static_assert(BLOCKS_MOST < UINT16_MAX, "an entry's number in a leaf");

static struct leaf *leaf_of(uintptr_t address)
{
	return atomic_load_explicit(&root[address >> (GRANULE_BITS + LEAF_BITS)], memory_order_acquire);
}

static bool leaf_make(uintptr_t address)
{
	struct leaf *none = NULL, *leaf;

	if (leaf_of(address))
		return true;
	leaf = mmap(NULL, sizeof(*leaf), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (leaf == MAP_FAILED)
		return false;
	if (!atomic_compare_exchange_strong_explicit(&root[address >> (GRANULE_BITS + LEAF_BITS)], &none, leaf,
												 memory_order_acq_rel, memory_order_acquire))
		munmap(leaf, sizeof(*leaf));
	return true;
}

/* The granules that a mapping [base, base + bytes) has entered. */
static uintptr_t first_granule(uintptr_t base)
{
	return (base + GATE_GRANULE - 1) >> GRANULE_BITS;
}
static uintptr_t end_granule(uintptr_t base, size_t bytes)
{
	return (base + bytes + GATE_GRANULE - 1) >> GRANULE_BITS;
}

static void enter(uintptr_t from, uintptr_t end, uint16_t value)
{
	for (uintptr_t g = from; g < end; g++)
		atomic_store_explicit(&leaf_of(g << GRANULE_BITS)->entry[g % LEAF_GRANULES], value,
							  memory_order_release);
}

static uint16_t number_of(const struct big_block *b)
{
	return (uint16_t)(b - blocks_table + 1);
}

/* The block's mapping is, or will be, at `base`. False: no memory. */
static bool cover(const struct big_block *b, uintptr_t base, size_t bytes)
{
	for (uintptr_t g = first_granule(base); g < end_granule(base, bytes);
		 g = (g / LEAF_GRANULES + 1) * LEAF_GRANULES)
		if (!leaf_make(g << GRANULE_BITS))
			return false;
	enter(first_granule(base), end_granule(base, bytes), number_of(b));
	return true;
}

/* Before the addresses are given up: the next moment they may be another thread's. */
static void uncover(uintptr_t base, size_t bytes)
{
	enter(first_granule(base), end_granule(base, bytes), 0);
}

static struct big_block *find(const void *address)
{
	uintptr_t a = (uintptr_t)address;
	struct leaf *leaf = a >> ADDRESS_BITS ? NULL : leaf_of(a);
	unsigned n =
		leaf ? atomic_load_explicit(&leaf->entry[(a >> GRANULE_BITS) % LEAF_GRANULES], memory_order_acquire)
			 : 0;

	return n ? &blocks_table[n - 1] : NULL;
}

struct big_block *blocks_at(const void *address)
{
	struct big_block *b = find(address);

	if (!b || atomic_load_explicit(&b->state, memory_order_acquire) != BIG_USED)
		return NULL;
	return (uintptr_t)address - blocks_begin(b) < blocks_end(b) - blocks_begin(b) ? b : NULL;
}

/* ---- entries ---- */

bool blocks_swap(struct big_block *b, enum big_state from, enum big_state to)
{
	uint32_t is = from;

	return atomic_compare_exchange_strong_explicit(&b->state, &is, to, memory_order_acq_rel,
												   memory_order_relaxed);
}

static void set_state(struct big_block *b, enum big_state state)
{
	atomic_store_explicit(&b->state, state, memory_order_release);
}

static struct big_block *entry_new(void)
{
	uint32_t high = atomic_load_explicit(&blocks_high, memory_order_relaxed);

	for (uint32_t i = 0; i < high; i++)
		if (atomic_load_explicit(&blocks_table[i].state, memory_order_relaxed) == BIG_NONE &&
			blocks_swap(&blocks_table[i], BIG_NONE, BIG_BUSY))
			return &blocks_table[i];
	while (high < BLOCKS_MOST) {
		if (!atomic_compare_exchange_weak_explicit(&blocks_high, &high, high + 1, memory_order_relaxed,
												   memory_order_relaxed))
			continue;
		/* Another thread may have been faster, by the loop above. */
		if (blocks_swap(&blocks_table[high], BIG_NONE, BIG_BUSY))
			return &blocks_table[high];
		high = atomic_load_explicit(&blocks_high, memory_order_relaxed);
	}
	return NULL;
}

void blocks_each(void (*visit)(struct big_block *b, void *arg), void *arg)
{
	uint32_t high = atomic_load_explicit(&blocks_high, memory_order_relaxed);

	for (uint32_t i = 0; i < high; i++) {
		uint32_t state = atomic_load_explicit(&blocks_table[i].state, memory_order_acquire);
		if (state == BIG_USED || state == BIG_KEPT)
			visit(&blocks_table[i], arg);
	}
}

void blocks_set_hook(blocks_hook *to)
{
	atomic_store_explicit(&hook, to, memory_order_release);
}

bool blocks_may(struct big_block *b, enum blocks_why why, bool helper)
{
	blocks_hook *ask;

	if (atomic_load_explicit(&b->pin, memory_order_acquire) == 0)
		return true;
	ask = atomic_load_explicit(&hook, memory_order_acquire);
	return ask && ask(b, why, helper);
}

/* ---- mappings ---- */

/* malloc_chunk of glibc's malloc/malloc.c, of one that is a mapping: how far it lies behind the mapping's beginning, and
 * how long it is, with IS_MMAPPED. */
static void write_header(struct big_block *b)
{
	size_t *user = (size_t *)blocks_begin(b);
	size_t before = blocks_begin(b) - 2 * sizeof(size_t) - b->base;

	user[-2] = before;
	user[-1] = (b->bytes - before) | 2;
}

void blocks_release(struct big_block *b)
{
	uncover(b->base, b->bytes);
	pages_unmap(b->base, b->bytes);
	b->base = 0;
	b->bytes = 0;
	atomic_store_explicit(&b->user, 0, memory_order_relaxed);
	set_state(b, BIG_NONE);
}

static bool cut(struct big_block *b, size_t bytes)
{
	uintptr_t keep = end_granule(b->base, bytes), end = end_granule(b->base, b->bytes);

	enter(keep, end, 0);
	if (munmap((void *)(b->base + bytes), b->bytes - bytes) != 0) {
		enter(keep, end, number_of(b));
		return false;
	}
	b->bytes = bytes;
	return true;
}

static bool grow_here(struct big_block *b, size_t bytes)
{
	size_t old = b->bytes;

	if (mremap((void *)b->base, old, bytes, 0) == MAP_FAILED)
		return false;
	if (!cover(b, b->base, bytes)) {
		munmap((void *)(b->base + old), bytes - old);
		return false;
	}
	b->bytes = bytes;
	return true;
}

static bool move(struct big_block *b, size_t bytes)
{
	uintptr_t from = b->base, to = pages_reserve(bytes, b->flags & BIG_LEAD ? pages_size() : 0);

	if (!to)
		return false;
	if (!cover(b, to, bytes)) {
		pages_unmap(to, bytes);
		return false;
	}
	uncover(from, b->bytes);
	if (mremap((void *)from, b->bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)to) == MAP_FAILED) {
		cover(b, from, b->bytes);
		uncover(to, bytes);
		pages_unmap(to, bytes);
		return false;
	}
	atomic_store_explicit(&b->user, blocks_begin(b) - from + to, memory_order_relaxed);
	b->base = to;
	b->bytes = bytes;
	return true;
}

bool blocks_reshape(struct big_block *b, size_t bytes)
{
	if (bytes < b->bytes)
		return cut(b, bytes);
	return bytes == b->bytes || grow_here(b, bytes) || move(b, bytes);
}

/* ---- taking ---- */

/* Where glibc would have put it, from the beginning of a page: a program that sums from an aligned address on gets the same
 * bits. False: not here. */
static bool want_of(struct big_want *w, size_t bytes, size_t align)
{
	if (align > GATE_GRANULE || bytes > (size_t)1 << (ADDRESS_BITS - 2))
		return false;
	w->lead = align > GATE_LEAD_MOST ? BIG_LEAD : 0;
	w->offset = w->lead ? pages_size() : align <= 16 ? 16 : align < 64 ? 64 : align;
	w->bytes = pages_round(w->offset + bytes);
	return true;
}

static struct big_block *map_new(const struct big_want *w)
{
	struct big_block *b = entry_new();

	if (!b)
		return NULL;
	b->base = pages_map(w->bytes, w->lead ? pages_size() : 0);
	if (b->base && !cover(b, b->base, w->bytes)) {
		pages_unmap(b->base, w->bytes);
		b->base = 0;
	}
	if (!b->base) {
		set_state(b, BIG_NONE);
		return NULL;
	}
	b->bytes = w->bytes;
	b->flags = w->lead;
	atomic_store_explicit(&b->pin, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&b->stamp, 1, memory_order_relaxed);
	atomic_store_explicit(&blocks_any, true, memory_order_release);
	stats_add(STATS_HOSTMEM_MISSES, 1);
	return b;
}

void *blocks_take(size_t bytes, size_t align, bool zeroed)
{
	struct big_want want;
	struct big_block *b;
	int saved = errno;
	bool clear = zeroed;

	if (!want_of(&want, bytes, align))
		return NULL;
	b = kept_take(&want, zeroed);
	if (!b) {
		b = map_new(&want);
		if (!b && kept_drop_all(false))
			b = map_new(&want);
		clear = false;
		if (b)
			kept_new(b, zeroed);
	}
	errno = saved;
	if (!b)
		return NULL;
	uintptr_t user = b->base + want.offset;
	atomic_store_explicit(&b->user, user, memory_order_relaxed);
	if (clear)
		memset((void *)user, 0, bytes);
	write_header(b);
	set_state(b, BIG_USED);
	return (void *)user;
}

/* ---- giving ---- */

static struct big_block *beginning_at(const void *address)
{
	struct big_block *b = find(address);

	return b && blocks_begin(b) == (uintptr_t)address ? b : NULL;
}

size_t blocks_size(const void *address)
{
	struct big_block *b = beginning_at(address);

	return b && atomic_load_explicit(&b->state, memory_order_acquire) == BIG_USED
			   ? blocks_end(b) - blocks_begin(b)
			   : 0;
}

bool blocks_give(void *address)
{
	struct big_block *b = beginning_at(address);
	int saved = errno;

	if (!b)
		return false;
	if (!blocks_swap(b, BIG_USED, BIG_BUSY)) {
		log_once(LOG_WARN, "hostmem: a block of memory was freed twice; the second time is ignored");
		errno = saved;
		return true;
	}
	if (!kept_put(b))
		blocks_release(b);
	errno = saved;
	return true;
}

void *blocks_resize(void *address, size_t bytes)
{
	struct big_block *b = beginning_at(address);
	int saved = errno;
	size_t whole;
	bool fits;

	if (!b || bytes > (size_t)1 << (ADDRESS_BITS - 2) || !blocks_swap(b, BIG_USED, BIG_BUSY))
		return NULL;
	whole = pages_round(blocks_begin(b) - b->base + bytes);
	fits = whole <= b->bytes;
	if (whole != b->bytes && blocks_may(b, BLOCKS_GOES, false) && blocks_reshape(b, whole))
		fits = true;
	address = fits ? (void *)blocks_begin(b) : NULL;
	write_header(b);
	set_state(b, BIG_USED);
	errno = saved;
	return address;
}
