/*
 * bound.h - how much tier A may keep on each device.
 *
 * By default 2 % of the device's memory (deferred: 25 %), or TURBO_DEVMEM_CACHE_MB. In mode
 * cache the default is shared by all processes of this user that keep memory on the device: each
 * writes what it keeps into a slot of a small file in /dev/shm, named after user and device.
 * Without the file each process has the bound for itself. Any thread; no locks.
 */
#ifndef TURBO_DEVMEM_BOUND_H
#define TURBO_DEVMEM_BOUND_H

#include <cuda.h>
#include <stddef.h>

/* cuda_ready: the options are read. */
void bound_start(void);
/* A device is used for the first time: its size, and its UUID for the file's name (NULL: it has
 * none that we could ask for). Again: nothing. */
void bound_device(int device, size_t bytes, const CUuuid *uuid);

/* Bytes kept by this process. */
void bound_add(int device, size_t bytes);
void bound_sub(int device, size_t bytes);
size_t bound_kept(int device);
/* Bytes that this process may keep on the device now. */
size_t bound_room(int device);

/* Gives the slots back (exit). */
void bound_stop(void);
void bound_fork_child(void);

#endif
