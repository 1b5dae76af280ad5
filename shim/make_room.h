/*
 * make_room.h - after a driver call that found no memory: true, what libturbo kept was given back,
 * and the call is to be made again. Keeps errno.
 */
#ifndef TURBO_MAKE_ROOM_H
#define TURBO_MAKE_ROOM_H

#include <cuda.h>
#include <stdbool.h>

#include "guard.h"
#include "../policy/devmem/devmem.h"

/* `room` was begun before the call was made first. `device` -1: the current context's. */
static inline bool made_room(CUresult status, struct devmem_room *room, int device)
{
	bool made;

	if (__builtin_expect(status != CUDA_ERROR_OUT_OF_MEMORY, 1))
		return false;
	if (__atomic_load_n(&devmem_mode, __ATOMIC_RELAXED) == DEVMEM_OFF || guard_inside())
		return false;
	guard_enter();
	made = devmem_make_room(room, device);
	guard_leave();
	return made;
}

#endif
