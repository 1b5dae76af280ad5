/*
 * room.h - the driver has no memory for a call: what libturbo keeps goes back, and the call is
 * made again.
 *
 * A program that never asks for more than there is must not hear that there is no more, however
 * its threads take turns. So it is not enough to give back once: another thread may be on its way to the
 * driver with what it took out of the cache, or may have freed something since. A call is made again
 * as long as anything has come back since it was made last.
 */
#ifndef TURBO_DEVMEM_ROOM_H
#define TURBO_DEVMEM_ROOM_H

#include <stddef.h>

#include "devmem.h"

/* Blocks of these bytes have left a cache for the driver; later they are with it, or it has not taken them. Any
 * thread. */
void room_leaving(size_t bytes);
void room_left(size_t bytes);
void room_refused(size_t bytes);
/* Something is with the driver now that was never said to be leaving. */
void room_came(void);

/*
 * The driver has answered CUDA_ERROR_OUT_OF_MEMORY to a call made after devmem_room_begin(): gives back
 * `bytes`, and from the second time on all that is kept on the device (-1: the current context's, and when
 * nothing comes of that, of every device). What the device may still use is waited for, at most a minute;
 * other threads' frees at most two seconds. True: something has come back, and the call should be made again.
 * Any thread, inside the guard, no lock held. May be called during a capture.
 */
bool room_more(struct devmem_room *room, int device, size_t bytes);

/* The fork handler. */
void room_fork_child(void);

#endif
