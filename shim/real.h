/*
 * real.h - the real functions behind the hooks.
 *
 * A provider is the first loaded object, in load order, that is libcuda.so, libnccl.so or
 * libcupti.so by its DT_SONAME or file name. real_fn[id] is the provider's own function once
 * it is known. Until then slots of hook and count symbols hold hook_lazy, which resolves the
 * call that came in and goes on to the real function; slots of pass symbols are NULL.
 * A slot never holds a pointer into libturbo but hook_lazy and the "not found" functions.
 *
 * Slots of NCCL stay hook_lazy: several copies may come and go, see copies.h.
 */
#ifndef TURBO_REAL_H
#define TURBO_REAL_H

#include <stdbool.h>
#include <stdint.h>

#include "hooks.h"

/* Written under the loader's list lock, with release order; read by the count stubs and by
 * REAL() on any thread. */
extern void *real_fn[HOOK_COUNT];

/* stubs_*.S: what an unbound slot holds. Only a count stub may jump to it (it passes its id in
 * a register), so C code never calls a slot without looking: use REAL(). */
extern void hook_lazy(void) __attribute__((visibility("hidden")));

/*
 * The provider's function; binds first when need be. Never NULL, never our own: when the
 * provider lacks the symbol, or none is loaded, a function that takes any arguments and
 * answers with the library's error (CUDA_ERROR_NOT_FOUND, ncclInvalidUsage,
 * CUPTI_ERROR_NOT_SUPPORTED). Any thread; errno and dlerror are kept.
 */
void *real_resolve(enum hook_id id);

/* NULL while the slot is unbound. */
static inline void *real_bound(enum hook_id id)
{
	void *fn = __atomic_load_n(&real_fn[id], __ATOMIC_ACQUIRE);

	return fn == (void *)hook_lazy ? NULL : fn;
}

static inline void *real_get(enum hook_id id)
{
	void *fn = real_bound(id);

	return __builtin_expect(!fn, 0) ? real_resolve(id) : fn;
}

/*
 * Real function by its exact symbol name, typed after the header:
 *     REAL(cuMemcpyHtoD_v2)(dst, src, n)
 * Sources that use it are compiled with __CUDA_API_VERSION_INTERNAL, so cuda.h
 * declares every symbol under its own name and renames none.
 */
#define REAL(sym) ((__typeof__(&sym))real_get(HOOK_##sym))
#define REAL_GET(sym) REAL(sym)

/* True when the provider is known and has the symbol: REAL(sym) does what its name says. */
#define REAL_HAS(sym) (real_has(HOOK_##sym))
bool real_has(enum hook_id id);

/* The provider's function, or NULL while there is none. */
void *real_provider_fn(enum hook_id id);

/*
 * Find the provider of `lib` among the loaded objects and fill its slots.
 * Idempotent, any thread, makes no dl* call (so dlerror is untouched); returns
 * false while no provider is loaded. Some 10 ns when no object was loaded since the last
 * call; a walk over the new ones otherwise. A provider that was unloaded is let go.
 */
bool real_bind(enum hook_lib lib);

/* Loaded copies of `lib` at the last real_bind(). */
unsigned real_copies(enum hook_lib lib);

/* Row whose real function is `fn`, or NULL: routing by pointer identity. No lock. Where a
 * provider gives several names one address: a hooked name first, then the shortest. */
const struct hook_row *real_row_of(const void *fn);

/* True for an address in libturbo.so itself. */
bool real_is_own(const void *address);

/* Objects unloaded so far: what was learnt about an address range holds while this stays. */
uint64_t real_unloads(void);

/* Empty the slots of a provider that was unloaded: before a dlopen, or what it loads would call
 * through them, and before cuInit. Some 10 ns, nothing while no provider is known. */
void real_drop_unloaded(void);

/* For hook_lazy: the function that a call of `id` from `caller` is for. */
void *real_resolve_lazy(enum hook_id id, const void *caller);

/* fork.c, in the child: async-signal-safe. */
void real_fork_child(void);

#endif
