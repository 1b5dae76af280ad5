/* block.c - blocks by address: shards of a hash table, and the store that blocks come from. */
#define _GNU_SOURCE
#include "block.h"

#include <pthread.h>
#include <sys/mman.h>
#include <stdlib.h>

#include "cache_space.h"

#define SHARDS 16 /* the top four bits of the hash */
#define SLAB_BYTES ((size_t)256 << 10)

/* Blocks are at least 512 bytes apart; large ones 2 MiB. uthash takes a bucket from the low
 * bits, the shard comes from the high ones. Short chains: a step in one is a cache miss. */
#undef HASH_FUNCTION
#define HASH_FUNCTION(key, length, hash) ((void)(length), (hash) = hash_of(*(const CUdeviceptr *)(key)))
#undef HASH_BKT_CAPACITY_THRESH
#define HASH_BKT_CAPACITY_THRESH 3U

static unsigned hash_of(CUdeviceptr base)
{
	return (unsigned)((base >> 9) * 0x9e3779b97f4a7c15ull >> 32);
}

static struct shard {
	pthread_mutex_t lock; /* guards `blocks` and the handles in it; nothing else is taken under it */
	struct block *blocks;
} __attribute__((aligned(64))) shards[SHARDS] = {[0 ... SHARDS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

/* Bytes of each device's blocks in the table. Relaxed: a figure, not an order. */
static size_t device_bytes[SPACE_DEVICES];

static struct {
	pthread_mutex_t lock;
	struct block *free; /* linked by `next` */
} store = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct shard *shard_of(CUdeviceptr base)
{
	return &shards[hash_of(base) >> 28];
}

/* ---- the store ---- */

static void slab_add(void)
{
	struct block *slab = calloc(1, SLAB_BYTES); /* not mmap: leak checkers look through it */
	if (!slab)
		return;
	for (size_t i = 0; i < SLAB_BYTES / sizeof(*slab); i++) {
		slab[i].next = store.free;
		store.free = &slab[i];
	}
}

struct block *block_new(void)
{
	pthread_mutex_lock(&store.lock);
	if (!store.free)
		slab_add();
	struct block *b = store.free;
	if (b)
		store.free = b->next;
	pthread_mutex_unlock(&store.lock);
	if (b) {
		b->state = BLOCK_LIVE;
		b->asked = 0;
		b->prev = b->next = b->older = b->newer = NULL;
		b->flags = 0;
		b->buffer_id = 0;
	}
	return b;
}

void block_drop(struct block *b)
{
	pthread_mutex_lock(&store.lock);
	b->next = store.free;
	store.free = b;
	pthread_mutex_unlock(&store.lock);
}

/* ---- the table ---- */

/* The block has come into the table or left it. */
static void account(const struct block *b, bool in)
{
	__atomic_fetch_add(&device_bytes[b->space->device], in ? b->size : -b->size, __ATOMIC_RELAXED);
}

size_t block_bytes(int device)
{
	return device >= 0 && device < SPACE_DEVICES ? __atomic_load_n(&device_bytes[device], __ATOMIC_RELAXED)
												 : 0;
}

bool block_insert(struct block *b)
{
	struct shard *shard = shard_of(b->base);
	struct block *old, *added;
	pthread_mutex_lock(&shard->lock);
	HASH_FIND(hh, shard->blocks, &b->base, sizeof(b->base), old);
	if (old) {
		HASH_DEL(shard->blocks, old);
		account(old, false);
		__atomic_fetch_or(&old->flags, BLOCK_STALE, __ATOMIC_RELAXED);
	}
	HASH_ADD(hh, shard->blocks, base, sizeof(b->base), b);
	HASH_FIND(hh, shard->blocks, &b->base, sizeof(b->base), added);
	if (added == b)
		account(b, true);
	pthread_mutex_unlock(&shard->lock);
	return added == b;
}

void block_remove(struct block *b)
{
	struct shard *shard = shard_of(b->base);
	struct block *there;
	pthread_mutex_lock(&shard->lock);
	HASH_FIND(hh, shard->blocks, &b->base, sizeof(b->base), there);
	if (there == b) {
		HASH_DEL(shard->blocks, b);
		account(b, false);
	}
	pthread_mutex_unlock(&shard->lock);
}

struct block *block_find(CUdeviceptr base)
{
	struct shard *shard = shard_of(base);
	struct block *b;
	pthread_mutex_lock(&shard->lock);
	HASH_FIND(hh, shard->blocks, &base, sizeof(base), b);
	pthread_mutex_unlock(&shard->lock);
	return b;
}

bool block_look(CUdeviceptr base, struct block_view *out)
{
	struct block *b = block_find(base);
	if (!b)
		return false;
	struct space *s = b->space;
	pthread_mutex_lock(&s->lock);
	bool same = b->base == base && b->space == s && b->state != BLOCK_GONE;
	if (same)
		*out = (struct block_view){
			.asked = b->asked,
			.size = b->size,
			.state = b->state,
			.flags = __atomic_load_n(&b->flags, __ATOMIC_RELAXED),
			.buffer_id = __atomic_load_n(&b->buffer_id, __ATOMIC_RELAXED),
			.ctx = atomic_load_explicit(&s->ctx, memory_order_relaxed),
			.device = s->device,
		};
	pthread_mutex_unlock(&s->lock);
	return same;
}

bool block_flag(CUdeviceptr base, unsigned flags)
{
	struct block *b = block_find(base);
	if (!b)
		return false;
	struct space *s = b->space;
	pthread_mutex_lock(&s->lock);
	bool live = b->base == base && b->space == s && b->state == BLOCK_LIVE;
	if (live)
		__atomic_fetch_or(&b->flags, flags, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&s->lock);
	return live;
}

void block_forget(const struct space *space)
{
	struct block *b, *next;
	for (unsigned i = 0; i < SHARDS; i++) {
		struct shard *shard = &shards[i];
		pthread_mutex_lock(&shard->lock);
		HASH_ITER (hh, shard->blocks, b, next) {
			if (b->space != space)
				continue;
			HASH_DEL(shard->blocks, b);
			account(b, false);
			block_drop(b);
		}
		pthread_mutex_unlock(&shard->lock);
	}
}

size_t block_count(void)
{
	size_t n = 0;
	for (unsigned i = 0; i < SHARDS; i++) {
		pthread_mutex_lock(&shards[i].lock);
		n += HASH_COUNT(shards[i].blocks);
		pthread_mutex_unlock(&shards[i].lock);
	}
	return n;
}

/* ---- reports ---- */

struct addresses {
	CUdeviceptr *base;
	size_t n, room;
};

/* The addresses in one shard: what a block holds is read under its space's lock, which comes
 * before the table's. */
static struct addresses addresses_in(struct shard *shard)
{
	struct addresses a = {NULL, 0, 0};
	struct block *b, *next;
	pthread_mutex_lock(&shard->lock);
	a.room = HASH_COUNT(shard->blocks);
	if (a.room)
		a.base =
			mmap(NULL, a.room * sizeof(*a.base), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (a.base != MAP_FAILED)
		HASH_ITER (hh, shard->blocks, b, next)
			a.base[a.n++] = b->base;
	pthread_mutex_unlock(&shard->lock);
	return a;
}

static void census_add(struct block_census *out, const struct block_view *v)
{
	if (v->state == BLOCK_LIVE) {
		out->live++;
		out->live_bytes += v->asked;
		if (v->asked > out->largest)
			out->largest = v->asked;
	} else {
		out->kept++;
		out->kept_bytes += v->size;
	}
}

void block_census(int device, struct block_census *out)
{
	struct block_view view;
	*out = (struct block_census){0};
	for (unsigned i = 0; i < SHARDS; i++) {
		struct addresses a = addresses_in(&shards[i]);
		for (size_t k = 0; k < a.n; k++)
			if (block_look(a.base[k], &view) && view.device == device)
				census_add(out, &view);
		if (a.n)
			munmap(a.base, a.room * sizeof(*a.base));
	}
}

/* The child takes no call: only the locks must be usable, should anything come by. */
void block_fork_child(void)
{
	for (unsigned i = 0; i < SHARDS; i++)
		pthread_mutex_init(&shards[i].lock, NULL);
	pthread_mutex_init(&store.lock, NULL);
}
