/*
 * nccl_register.c - memory that NCCL is told to register: it is shown to other ranks and network
 * cards until it is deregistered, so the policy must not hand it out to anybody else.
 *
 * NCCL's slots stay empty because copies of it come and go (copies.h), so the bodies go on as the
 * count stubs do: to the copy that the call is for. nccl.h may be missing at build time; handles
 * are pointers and results are ints in every version.
 */
#include <stddef.h>
#include <stdint.h>

#include "guard.h"
#include "hooks.h"
#include "real.h"
#include "stats.h"
#include "../policy/devmem/devmem.h"
#include "../policy/nccl/coalesce.h"

/* Before the call: it may wait for other ranks, and fails seldom. */
static void keep_out(void *buffer, size_t bytes)
{
	if (__atomic_load_n(&devmem_mode, __ATOMIC_RELAXED) == DEVMEM_OFF || guard_inside())
		return;
	guard_enter();
	devmem_keep_out((CUdeviceptr)(uintptr_t)buffer, bytes);
	guard_leave();
}

typedef int register_fn(void *comm, void *buffer, size_t bytes, void **handle);
typedef int window_fn(void *comm, void *buffer, size_t bytes, void **window, int flags);

#define REGISTER(symbol)                                                            \
	TURBO_EXPORT int symbol(void *comm, void *buffer, size_t bytes, void **handle); \
	TURBO_EXPORT int symbol(void *comm, void *buffer, size_t bytes, void **handle)  \
	{                                                                               \
		void *real = real_resolve_lazy(HOOK_##symbol, __builtin_return_address(0)); \
		stats_call(HOOK_##symbol);                                                  \
		keep_out(buffer, bytes);                                                    \
		(void)coalesce_before_nccl(comm);                                           \
		return ((register_fn *)real)(comm, buffer, bytes, handle);                  \
	}

#define WINDOW(symbol)                                                                         \
	TURBO_EXPORT int symbol(void *comm, void *buffer, size_t bytes, void **window, int flags); \
	TURBO_EXPORT int symbol(void *comm, void *buffer, size_t bytes, void **window, int flags)  \
	{                                                                                          \
		void *real = real_resolve_lazy(HOOK_##symbol, __builtin_return_address(0));            \
		stats_call(HOOK_##symbol);                                                             \
		keep_out(buffer, bytes);                                                               \
		(void)coalesce_before_nccl(comm);                                                      \
		return ((window_fn *)real)(comm, buffer, bytes, window, flags);                        \
	}

REGISTER(ncclCommRegister)
REGISTER(pncclCommRegister)
WINDOW(ncclCommWindowRegister)
WINDOW(pncclCommWindowRegister)
