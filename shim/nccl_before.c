/*
 * nccl_before.c - calls of NCCL that nobody records, but that all-gathers which wait must not come after: memory goes, a
 * communicator stands still, or other ranks make the call, too.
 */
#include "nccl_record.h"

#define BEFORE(symbol, of, params, args) \
	TURBO_EXPORT int symbol params;      \
	TURBO_EXPORT int symbol params       \
	{                                    \
		NCCL_BODY(symbol, int, params);  \
		(void)coalesce_before_nccl(of);  \
		return real args;                \
	}
#define BEFORE_BOTH(symbol, ...) \
	BEFORE(symbol, __VA_ARGS__)  \
	BEFORE(p##symbol, __VA_ARGS__)

BEFORE_BOTH(ncclMemFree, NULL, (void *memory), (memory))
BEFORE_BOTH(ncclCommDeregister, comm, (void *comm, void *handle), (comm, handle))
BEFORE_BOTH(ncclCommWindowDeregister, comm, (void *comm, void *window), (comm, window))
BEFORE_BOTH(ncclDevCommCreate, comm, (void *comm, const void *requirements, void *made),
			(comm, requirements, made))
BEFORE_BOTH(ncclDevCommDestroy, comm, (void *comm, const void *made), (comm, made))
BEFORE_BOTH(ncclCommSuspend, comm, (void *comm, int flags), (comm, flags))
BEFORE_BOTH(ncclCommResume, comm, (void *comm), (comm))
