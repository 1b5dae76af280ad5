/*
 * sim_copy.h - what the copy files share: sides of a copy, and issuing one.
 */
#ifndef SIM_COPY_H
#define SIM_COPY_H

#include "sim_internal.h"

#pragma GCC visibility push(hidden)

enum sim_side { SIDE_BAD, SIDE_PAGEABLE, SIDE_PINNED, SIDE_MANAGED, SIDE_DEVICE };

/* What [addr, addr + n) is; SIDE_BAD when it is not wholly one thing. Lock held. */
enum sim_side sim_side_of(uintptr_t addr, size_t n);

/* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is set there. Lock held. */
bool sim_synchronous(uintptr_t addr);

static inline bool sim_side_host(enum sim_side s)
{
	return s == SIDE_PAGEABLE || s == SIDE_PINNED || s == SIDE_MANAGED;
}

/*
 * Issues a copy on s with the driver's rules: when a pageable source is read, and when
 * the call may return. `sync`: the synchronous calls' rules. Lock held (dropped while
 * waiting).
 */
CUresult sim_copy_issue(struct sim_stream *s, const struct sim_copy *box, enum sim_side src,
						enum sim_side dst, bool sync);

#pragma GCC visibility pop
#endif
