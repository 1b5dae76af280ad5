/*
 * real.h - the real functions behind the hooks.
 *
 * real_fn[id] is the provider's own function once the provider is known. Until
 * then slots of counted symbols hold the lazy stub, which resolves on first
 * call. A slot is written once with release order and never with a pointer
 * into libturbo itself.
 */
#ifndef TURBO_REAL_H
#define TURBO_REAL_H

#include <stdbool.h>

#include "hooks.h"

extern void *real_fn[HOOK_COUNT];

/*
 * Real function by its exact symbol name, typed after the header:
 *     REAL(cuMemcpyHtoD_v2)(dst, src, n)
 * Sources that use it are compiled with __CUDA_API_VERSION_INTERNAL, so cuda.h
 * declares every symbol under its own name and renames none.
 */
#define REAL(sym) ((__typeof__(&sym))__atomic_load_n(&real_fn[HOOK_##sym], __ATOMIC_ACQUIRE))

/* True when the provider has the symbol (so REAL(sym) may be called). */
#define REAL_HAS(sym) (real_has(HOOK_##sym))
bool real_has(enum hook_id id);

/*
 * Find the provider of `lib` among the loaded objects and fill its slots.
 * Idempotent, any thread, makes no dl* call (so dlerror is untouched); returns
 * false while no provider is loaded. Costs a walk only when objects were loaded
 * since the last one.
 */
bool real_bind(enum hook_lib lib);

/*
 * Resolve one symbol for a call that came in through an exported symbol;
 * returns a function that answers with the library's "not found" error when the
 * provider lacks it. Never NULL, never our own.
 */
void *real_resolve(enum hook_id id);

/*
 * real_fn[id], bound first if it is not: for bodies that a direct link may enter before
 * the provider was seen. Never NULL, never our own (see real_resolve).
 */
void *real_get(enum hook_id id);
#define REAL_GET(sym) ((__typeof__(&sym))real_get(HOOK_##sym))

/* Row whose real function is `fn`, or NULL: routing by pointer identity. */
const struct hook_row *real_row_of(const void *fn);

#endif
