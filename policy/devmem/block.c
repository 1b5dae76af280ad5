/* block.c - blocks by address: shards of a hash table, and the store that blocks come from. */
#define _GNU_SOURCE
#include "block.h"

#include <pthread.h>
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

bool block_insert(struct block *b)
{
	struct shard *shard = shard_of(b->base);
	struct block *old, *added;
	pthread_mutex_lock(&shard->lock);
	HASH_FIND(hh, shard->blocks, &b->base, sizeof(b->base), old);
	if (old) {
		HASH_DEL(shard->blocks, old);
		__atomic_fetch_or(&old->flags, BLOCK_STALE, __ATOMIC_RELAXED);
	}
	HASH_ADD(hh, shard->blocks, base, sizeof(b->base), b);
	HASH_FIND(hh, shard->blocks, &b->base, sizeof(b->base), added);
	pthread_mutex_unlock(&shard->lock);
	return added == b;
}

void block_remove(struct block *b)
{
	struct shard *shard = shard_of(b->base);
	struct block *there;
	pthread_mutex_lock(&shard->lock);
	HASH_FIND(hh, shard->blocks, &b->base, sizeof(b->base), there);
	if (there == b)
		HASH_DEL(shard->blocks, b);
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

/* The child takes no call: only the locks must be usable, should anything come by. */
void block_fork_child(void)
{
	for (unsigned i = 0; i < SHARDS; i++)
		pthread_mutex_init(&shards[i].lock, NULL);
	pthread_mutex_init(&store.lock, NULL);
}
