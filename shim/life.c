/* life.c - the state of life.h. */
#include "life.h"

#include "elfsym_fork.h"
#include "log.h"
#include "options.h"
#include "real.h"
#include "stats.h"
#include "../policy/policy.h"

/* CUDA_GOING: one thread is telling the policies. CUDA_GONE: a forked child's inheritance. */
enum cuda_state { CUDA_NONE, CUDA_GOING, CUDA_READY, CUDA_GONE };

static bool active; /* constant after the constructor */
static int engaged; /* relaxed: set once, nothing is published by it */
static int cuda;    /* enum cuda_state; release when READY, so that a reader sees what policies set up */

void life_start(bool is_active, bool is_engaged)
{
	active = is_active;
	engaged = is_active && is_engaged;
}

bool life_active(void)
{
	return active;
}

bool life_engaged(void)
{
	return __atomic_load_n(&engaged, __ATOMIC_RELAXED);
}

bool life_cuda(void)
{
	return __atomic_load_n(&cuda, __ATOMIC_ACQUIRE) == CUDA_READY;
}

bool life_is_forked_child(void)
{
	return __atomic_load_n(&cuda, __ATOMIC_RELAXED) == CUDA_GONE;
}

bool life_clear_deepbind(void)
{
	return life_engaged() && option_get(OPT_DEEPBIND) == 1;
}

void life_cuda_ready(void)
{
	int expected = CUDA_NONE;

	if (!active ||
		!__atomic_compare_exchange_n(&cuda, &expected, CUDA_GOING, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	if (!real_bind(HOOK_LIB_CUDA) && !elfsym_walkable()) { /* a forked child */
		log_info("the loader's list cannot be read in this child: everything passes through");
		return;
	}
	__atomic_store_n(&engaged, 1, __ATOMIC_RELAXED);
	stats_publish();
	policies_cuda_ready();
	log_debug("cuInit succeeded: engaged");
	__atomic_store_n(&cuda, CUDA_READY, __ATOMIC_RELEASE);
}

void life_fork_child(void)
{
	if (__atomic_load_n(&cuda, __ATOMIC_RELAXED) != CUDA_NONE)
		__atomic_store_n(&cuda, CUDA_GONE, __ATOMIC_RELAXED);
}
