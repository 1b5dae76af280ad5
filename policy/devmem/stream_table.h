/*
 * stream_table.h - from a stream handle to the blocks in that stream's order.
 *
 * One entry for each stream and each device whose memory is allocated or freed on it. Finding one takes
 * no lock and calls no driver function for streams made by the program, and one (cuStreamGetId,
 * 20 ns) for the default streams, which a handle alone does not name.
 */
#ifndef TURBO_DEVMEM_STREAM_TABLE_H
#define TURBO_DEVMEM_STREAM_TABLE_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "stream_device.h"

struct stream_entry {
	/* What it is found by; 0 while it is nobody's. Relaxed: published by the table's slot, and a
	 * reader whose stream is being destroyed is the program's own race. */
	_Atomic uint64_t key;
	/* Constant while in the table. */
	bool home; /* the memory is the stream's own device's */
	bool per_thread;
	int thread; /* gettid() of a per-thread stream's owner */
	struct stream_device *dev;
	struct heap_stream *blocks;
	struct vmm_stream stream;
	struct stream_entry *next; /* in a list of those not in use; guarded by the table */
};

/* 0: the driver does not know the stream (no current context, say). */
uint64_t stream_key(CUstream stream, bool per_thread);

/* `dev` NULL: the entry of the stream's own device. NULL: not opened yet. Lock-free. */
struct stream_entry *stream_table_find(uint64_t key, const struct stream_device *dev);

/* Opens it if need be; NULL: the stream is not valid, its device is not served, or there are too many. */
struct stream_entry *stream_table_open(uint64_t key, CUstream stream, bool per_thread,
									   struct stream_device *dev);

/* Closes all entries of a stream that is about to be destroyed. */
void stream_table_close(CUstream stream);
/* Closes all entries of contexts that have gone, and, unless NULL, all of a device. */
void stream_table_sweep(const struct stream_device *dev);

#endif
