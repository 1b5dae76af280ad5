/*
 * guard.h - the per-thread word that keeps libturbo out of its own calls.
 *
 * Every hook body asks guard_inside() first and passes the call through when a
 * libturbo frame is already on this thread. Initial-exec TLS, 16 bytes: a
 * preload library must not eat the loader's static TLS reserve.
 */
#ifndef TURBO_GUARD_H
#define TURBO_GUARD_H

#include <stdbool.h>
#include <stdint.h>

struct turbo_tls {
	uint32_t depth; /* > 0: this thread is inside libturbo */
	uint32_t walks; /* > 0: this thread walks the loader's list (elfsym_fork.c) */
	int64_t lane;   /* address of the counter lane that is this thread's alone; 0: none yet;
	                   < 0: it counts in the shared one (stats.h). Read by the count stubs at offset 8. */
};

extern __thread struct turbo_tls turbo_tls __attribute__((tls_model("initial-exec")));

static inline bool guard_inside(void)
{
	return turbo_tls.depth != 0;
}
static inline void guard_enter(void)
{
	turbo_tls.depth++;
}
static inline void guard_leave(void)
{
	turbo_tls.depth--;
}

#endif
