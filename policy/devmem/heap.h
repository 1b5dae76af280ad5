/*
 * heap.h - a stream-ordered heap over physical chunks that does not fragment.
 *
 * No CUDA here: a backend makes the calls, so the heap is tested with plain memory. Addresses
 * are device addresses and are never read or written by the host.
 *
 * A block freed on a stream may be handed out again on the same stream at once: the stream's
 * order keeps the two uses apart. Another stream gets it only after a mark recorded on the
 * freeing stream (at the earliest when somebody wants the block) has passed, or, where the
 * pool allows it, once the requesting stream has been told to wait for that mark.
 *
 * Thread rules: every function may be called from any thread. No lock of the hit path is
 * held across a backend call.
 */
#ifndef TURBO_HEAP_H
#define TURBO_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the heap needs of the world. All return 0 or an error code that heap_alloc() passes
 * on; HEAP_NO_MEMORY from chunk_create() starts the miss order's next step. */
struct heap_backend {
	void *arg;
	size_t grain; /* chunk sizes and map addresses are multiples of it; 2 MiB on NVIDIA GPUs */
	int (*reserve)(void *arg, size_t bytes, uint64_t *va);
	int (*unreserve)(void *arg, uint64_t va, size_t bytes);
	int (*chunk_create)(void *arg, size_t bytes, uint64_t *handle);
	int (*chunk_release)(void *arg, uint64_t handle);
	/* The whole chunk at `va`; a chunk may be mapped at several addresses. */
	int (*map)(void *arg, uint64_t va, size_t bytes, uint64_t handle);
	int (*unmap)(void *arg, uint64_t va, size_t bytes);
	/* Read and write for the device and for its peers, one call over neighbouring mappings. */
	int (*access)(void *arg, uint64_t va, size_t bytes);
	/* A mark is a point in a stream's order. `stream` is what heap_stream_open() was given. */
	int (*mark)(void *arg, void *stream, void **mark);
	int (*mark_done)(void *arg, void *mark, bool *done);
	int (*mark_wait)(void *arg, void *stream, void *mark); /* the stream waits for it */
	int (*mark_block)(void *arg, void *mark, uint64_t ns); /* this thread waits, at most that long */
	void (*mark_drop)(void *arg, void *mark);
};

enum { HEAP_OK = 0, HEAP_NO_MEMORY = -1, HEAP_UNKNOWN = -2, HEAP_INVALID = -3 };

struct heap;        /* one device */
struct heap_stream; /* the blocks that belong to one stream's order */

/* May the miss order make one stream wait for another (pool attribute
 * REUSE_ALLOW_INTERNAL_DEPENDENCIES) or look whether a mark has passed (…OPPORTUNISTIC)? */
enum heap_reuse { HEAP_REUSE_DONE = 1, HEAP_REUSE_WAIT = 2 };

struct heap *heap_create(const struct heap_backend *backend, size_t device_bytes);
void heap_destroy(struct heap *heap); /* no driver call when `backend` is gone: heap_abandon() first */
void heap_abandon(struct heap *heap); /* the context died: forget everything, call nothing */
void heap_reuse_set(struct heap *heap, unsigned reuse);

struct heap_stream *heap_stream_open(struct heap *heap, void *stream);
/* The stream is about to be destroyed: a mark is recorded and its blocks become everybody's. */
void heap_stream_close(struct heap_stream *stream);

int heap_alloc(struct heap_stream *stream, size_t bytes, uint64_t *va);
/* HEAP_UNKNOWN: not a live block of this heap (never was, or freed already). `stream` may be
 * another than the block's: the program has ordered the streams itself. */
int heap_free(struct heap *heap, struct heap_stream *stream, uint64_t va);
/* The program has waited for all work of the device: everything freed before is free for all. */
void heap_synchronized(struct heap *heap);

/* The live block that contains `va`. */
bool heap_find(struct heap *heap, uint64_t va, uint64_t *base, size_t *bytes);

/* Give physical memory back until at most `keep` bytes are reserved; returns bytes given back.
 * Only chunks whose last use has passed. */
size_t heap_trim(struct heap *heap, size_t keep);

struct heap_usage {
	size_t live, live_high;         /* bytes the program holds (rounded up to 512) */
	size_t reserved, reserved_high; /* physical memory */
	uint64_t hits, misses, steals, stitches, view_hits, trims, driver_calls;
};
void heap_usage(struct heap *heap, struct heap_usage *out);
void heap_usage_reset_high(struct heap *heap, bool live, bool reserved);

/* Every invariant, O(blocks); aborts with a message. For tests. */
void heap_check(struct heap *heap);

#endif
