/* answers_peers.c - the pairs of answers_peers.h. Few, changed at the program's start. */
#include "answers_peers.h"

#include <pthread.h>

struct pair {
	CUcontext owner, accessor;
};

#define PAIRS 1024
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* never held across a driver call */
static struct pair pairs[PAIRS];
static unsigned pair_count; /* written under the lock; read without it, relaxed, to see whether it is 0 */
static bool overflowed;     /* under the lock: pairs are missing, so nobody's peers are known */

/* Lock held. */
static struct pair *find(CUcontext owner, CUcontext accessor)
{
	for (unsigned i = 0; i < pair_count; i++)
		if (pairs[i].owner == owner && pairs[i].accessor == accessor)
			return &pairs[i];
	return NULL;
}

/* Lock held. */
static void set_count(unsigned count)
{
	__atomic_store_n(&pair_count, count, __ATOMIC_RELAXED);
}

/* Lock held. */
static void drop(struct pair *pair)
{
	*pair = pairs[pair_count - 1];
	set_count(pair_count - 1);
}

void peers_set(CUcontext owner, CUcontext accessor, bool enabled)
{
	if (!owner || !accessor || owner == accessor)
		return;
	pthread_mutex_lock(&lock);
	struct pair *pair = find(owner, accessor);
	if (!enabled && pair) {
		drop(pair);
	} else if (enabled && !pair && pair_count < PAIRS) {
		pairs[pair_count] = (struct pair){owner, accessor};
		set_count(pair_count + 1);
	} else if (enabled && !pair) {
		overflowed = true;
	}
	pthread_mutex_unlock(&lock);
}

size_t peers_of(CUcontext owner, CUcontext *peers, size_t room)
{
	size_t count = 0;

	/* Relaxed: a program that frees before it knows that another thread has enabled access
	 * does not know of that thread's kernels either. */
	if (__atomic_load_n(&pair_count, __ATOMIC_RELAXED) == 0)
		return 0;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < pair_count; i++) {
		if (pairs[i].owner != owner)
			continue;
		if (count < room)
			peers[count] = pairs[i].accessor;
		count++;
	}
	if (overflowed)
		count = room + 1;
	pthread_mutex_unlock(&lock);
	return count;
}

void peers_forget(CUcontext ctx)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < pair_count;) {
		if (pairs[i].owner == ctx || pairs[i].accessor == ctx)
			drop(&pairs[i]);
		else
			i++;
	}
	pthread_mutex_unlock(&lock);
}

void peers_fork_child(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	set_count(0);
}
