/* cache_batch.c - see cache_batch.h. */
#define _GNU_SOURCE
#include "cache_batch.h"

#include <pthread.h>
#include <sys/mman.h>

#define SLAB_BATCHES 32

static struct {
	pthread_mutex_t lock;
	struct batch *free;
} store = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void slab_add(void)
{
	size_t bytes = SLAB_BATCHES * sizeof(struct batch);
	struct batch *slab = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (slab == MAP_FAILED)
		return;
	for (unsigned i = 0; i < SLAB_BATCHES; i++) {
		slab[i].next = store.free;
		store.free = &slab[i];
	}
}

void batch_clear(struct batch *b)
{
	b->next = NULL;
	b->n = 0;
	b->bytes = 0;
	b->fence.n = 0;
}

struct batch *batch_new(void)
{
	pthread_mutex_lock(&store.lock);
	if (!store.free)
		slab_add();
	struct batch *b = store.free;
	if (b)
		store.free = b->next;
	pthread_mutex_unlock(&store.lock);
	if (b)
		batch_clear(b);
	return b;
}

void batch_drop(struct batch *b)
{
	pthread_mutex_lock(&store.lock);
	b->next = store.free;
	store.free = b;
	pthread_mutex_unlock(&store.lock);
}

void batch_fork_child(void)
{
	pthread_mutex_init(&store.lock, NULL);
}

void batch_append(struct batch_list *list, struct batch *b)
{
	b->next = NULL;
	if (list->last)
		list->last->next = b;
	else
		list->first = b;
	list->last = b;
}

struct batch *batch_remove_first(struct batch_list *list)
{
	struct batch *b = list->first;
	list->first = b->next;
	if (!list->first)
		list->last = NULL;
	return b;
}
