/* gate.c - see gate.h. */
#include "gate.h"

struct hostmem_gate hostmem_gate __attribute__((aligned(64))) = {.min = 0, .limit = UINTPTR_MAX};

_Static_assert(sizeof(hostmem_gate) <= 64, "one cache line");

/* Constructor's thread or earlier: one. */
static int all;

void gate_known(int all_addresses)
{
	all = all_addresses;
	if (!all) /* there is no block yet */
		atomic_store_explicit(&hostmem_gate.limit, 0, memory_order_release);
	atomic_store_explicit(&hostmem_gate.min, SIZE_MAX, memory_order_release);
}

void gate_open(size_t min)
{
	if (atomic_load_explicit(&hostmem_gate.min, memory_order_acquire) == 0)
		return;
	/* Who hands out a block has seen `min`, and so this; who frees it has it from there. */
	if (!all)
		atomic_store_explicit(&hostmem_gate.limit, GATE_LEAD_MOST + 1, memory_order_release);
	atomic_store_explicit(&hostmem_gate.min, min, memory_order_release);
}

void gate_shut(void)
{
	if (atomic_load_explicit(&hostmem_gate.min, memory_order_acquire) != 0)
		atomic_store_explicit(&hostmem_gate.min, SIZE_MAX, memory_order_release);
}
