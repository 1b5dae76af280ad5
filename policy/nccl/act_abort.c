/* act_abort.c - see act_abort.h. */
#include "act_abort.h"

#include <stddef.h>
#include <string.h>

#include "guard.h"
#include "real.h"
#include "thread.h"

typedef int group_fn(void);
typedef int abort_fn(void *comm);

static struct act_abort all[ACT_ABORTS];
static unsigned count;
static _Atomic unsigned open; /* threads that have not come back */

static group_fn *start_of(const struct act_abort *a)
{
	return (group_fn *)real_resolve_lazy(HOOK_ncclGroupStart, a->caller);
}

static void abort_one(const struct act_abort *a)
{
	((abort_fn *)real_resolve_lazy(HOOK_ncclCommAbort, a->caller))(a->handle);
}

/* Those of one copy of NCCL in one group. */
static void abort_of_copy(unsigned first)
{
	group_fn *start = start_of(&all[first]);

	start();
	for (unsigned i = first; i < count; i++)
		if (all[i].handle && start_of(&all[i]) == start) {
			abort_one(&all[i]);
			if (i != first)
				all[i].handle = NULL;
		}
	((group_fn *)real_resolve_lazy(HOOK_ncclGroupEnd, all[first].caller))();
}

static void *abort_grouped(void *arg)
{
	(void)arg;
	guard_enter(); /* never leaves: whatever this thread calls is ours */
	for (unsigned i = 0; i < count; i++)
		if (all[i].handle)
			abort_of_copy(i);
	atomic_fetch_sub_explicit(&open, 1, memory_order_release);
	return NULL;
}

static void *abort_alone(void *arg)
{
	guard_enter();
	abort_one(arg);
	atomic_fetch_sub_explicit(&open, 1, memory_order_release);
	return NULL;
}

bool act_abort_start(const struct act_abort *list, unsigned n, bool grouped)
{
	bool started = true;

	count = n < ACT_ABORTS ? n : ACT_ABORTS;
	memcpy(all, list, count * sizeof(*list));
	if (grouped) {
		atomic_store_explicit(&open, 1, memory_order_relaxed);
		return thread_start("turbo-abort", abort_grouped, NULL);
	}
	atomic_store_explicit(&open, count, memory_order_relaxed);
	for (unsigned i = 0; i < count; i++)
		started &= thread_start("turbo-abort", abort_alone, &all[i]);
	return started;
}

bool act_abort_done(void)
{
	return atomic_load_explicit(&open, memory_order_acquire) == 0;
}
