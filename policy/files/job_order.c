/* job_order.c - see job_impl.h: a program that comes through a tree in an order that can be told. */
#include <string.h>

#include "job_impl.h"

#define SPREAD 16u  /* files between two that are opened one after the other: several workers take turns */
#define AHEAD 4096u /* files in which the program is looked for */

/* Where the files that the program opened last are in the tree's present order. */
static unsigned positions(const struct job *j, uint32_t at[JOB_LAST])
{
	uint64_t wanted[JOB_LAST];
	unsigned count = 0, found = 0;
	char path[PATH_MAX];

	for (unsigned i = 0; i < JOB_LAST; i++)
		if (j->last[i][0])
			wanted[count++] = job_hash(j->last[i]);
	for (uint32_t f = 0; f < j->tree.files && found < count; f++) {
		if (!tree_path(&j->tree, f, path, sizeof(path)))
			continue;
		uint64_t hash = job_hash(path);
		for (unsigned i = 0; i < count; i++)
			if (hash == wanted[i])
				at[found++] = f;
	}
	return found;
}

/* In this order they lie close to each other. `at` is in ascending order. */
static bool is_order(struct job *j)
{
	uint32_t at[JOB_LAST];
	unsigned found = positions(j, at);

	if (found < JOB_LAST / 2 || at[found - 1] - at[0] > found * SPREAD)
		return false;
	atomic_store_explicit(&j->reached, at[found - 1], memory_order_relaxed);
	atomic_store_explicit(&j->next, at[found - 1], memory_order_relaxed);
	return true;
}

bool job_find_order(struct job *j)
{
	if (is_order(j)) /* as the directories list them */
		return true;
	tree_sort_names(&j->tree);
	return is_order(j);
}

static void find(struct job *j, uint64_t newest)
{
	uint32_t from = atomic_load_explicit(&j->reached, memory_order_relaxed);
	char path[PATH_MAX];

	for (uint32_t f = from; f < j->tree.files && f < from + AHEAD; f++)
		if (tree_path(&j->tree, f, path, sizeof(path)) && job_hash(path) == newest) {
			atomic_store_explicit(&j->reached, f, memory_order_relaxed);
			return;
		}
}

void job_follow(struct job *j)
{
	uint64_t newest = atomic_load_explicit(&j->newest, memory_order_relaxed);

	if (atomic_exchange_explicit(&j->following, true, memory_order_acquire))
		return;
	if (newest != j->followed)
		find(j, newest);
	j->followed = newest;
	atomic_store_explicit(&j->following, false, memory_order_release);
}
