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
 * held across a backend call. HEAP.md says how it works.
 */
#ifndef TURBO_HEAP_H
#define TURBO_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the heap needs of the world. All return 0 or an error code that heap_alloc() passes on;
 * HEAP_NO_MEMORY from chunk_create(), map() or access() starts the miss order's next step. The
 * heap never makes two of these calls at the same time, but for mark_block(), and it never
 * holds a lock that a hit, a free or heap_find() takes. A call may come back for heap_usage() (but in
 * heap_create()), for nothing else. */
struct heap_backend {
	void *arg;
	size_t grain; /* chunk sizes and map addresses are multiples of it; 2 MiB on NVIDIA GPUs */
	int (*reserve)(void *arg, size_t bytes, uint64_t *va);
	int (*unreserve)(void *arg, uint64_t va, size_t bytes);
	int (*chunk_create)(void *arg, size_t bytes, uint64_t *handle);
	int (*chunk_release)(void *arg, uint64_t handle);
	/* May be NULL. About how much chunk_create() could still give; SIZE_MAX: not known. */
	size_t (*available)(void *arg);
	/* The whole chunk at `va`; a chunk may be mapped at several addresses. */
	int (*map)(void *arg, uint64_t va, size_t bytes, uint64_t handle);
	int (*unmap)(void *arg, uint64_t va, size_t bytes); /* what one map() mapped */
	/* Read and write for the device and for its peers, one call over neighbouring mappings. */
	int (*access)(void *arg, uint64_t va, size_t bytes);
	/* A mark is a point in a stream's order. `stream` is what heap_stream_open() was given. An
	 * error (the stream is being captured, say) leaves that stream's free blocks to itself. */
	int (*mark)(void *arg, void *stream, void **mark);
	int (*mark_done)(void *arg, void *mark, bool *done);
	int (*mark_wait)(void *arg, void *stream, void *mark); /* the stream waits for it */
	int (*mark_block)(void *arg, void *mark, uint64_t ns); /* this thread waits, at most that long */
	void (*mark_drop)(void *arg, void *mark);
	/* May be NULL. Memory is short by `bytes`: give up what else is kept. True: some was given up. */
	bool (*pressure)(void *arg, size_t bytes);
};

enum { HEAP_OK = 0, HEAP_NO_MEMORY = -1, HEAP_UNKNOWN = -2, HEAP_INVALID = -3 };

struct heap;        /* one device */
struct heap_stream; /* the blocks that belong to one stream's order */

/* What may be chosen; 0 takes the default. HEAP.md has the figures behind the defaults. */
struct heap_tune {
	size_t chunk;      /* physical memory comes in chunks of at most this size, a multiple of the grain */
	unsigned chunks;   /* which is made smaller until the whole device is at least so many chunks */
	size_t small;      /* smaller requests have chunks of one grain to themselves; 1 MiB to a grain */
	unsigned bins;     /* free blocks that a stream keeps in front of the heap */
	unsigned views;    /* stitched views that are kept, in use or not */
	uint64_t block_ns; /* the longest that one call waits for the device when memory is out */
};

/* May the miss order make one stream wait for another (pool attribute
 * REUSE_ALLOW_INTERNAL_DEPENDENCIES) or look whether a mark has passed (…OPPORTUNISTIC)? */
enum heap_reuse { HEAP_REUSE_DONE = 1, HEAP_REUSE_WAIT = 2 };

/* NULL: no host memory or no addresses. Both kinds of reuse are on. `backend` is copied. */
struct heap *heap_create(const struct heap_backend *backend, size_t device_bytes);
struct heap *heap_create_tuned(const struct heap_backend *backend, size_t device_bytes,
							   const struct heap_tune *tune);
/* The device must be done with everything and no other call may be under way. Unmaps and releases all,
 * closes the streams that are open. No backend call after heap_abandon(). */
void heap_destroy(struct heap *heap);
/* The context died: forget everything, call nothing. Allocations fail with HEAP_INVALID from
 * now on, frees with HEAP_UNKNOWN. */
void heap_abandon(struct heap *heap);
void heap_reuse_set(struct heap *heap, unsigned reuse);

/* NULL: no host memory. The handle is good until heap_stream_close(). */
struct heap_stream *heap_stream_open(struct heap *heap, void *stream);
/* The stream is about to be destroyed: a mark is recorded on it and its free blocks become
 * everybody's once that has passed. Blocks allocated on it live on; free them on another stream. */
void heap_stream_close(struct heap_stream *stream);

/* HEAP_INVALID for 0 bytes. The address is a multiple of 512. */
int heap_alloc(struct heap_stream *stream, size_t bytes, uint64_t *va);
/* HEAP_UNKNOWN: not a live block of this heap (never was, or freed already). `stream` may be
 * another than the block's: the program has ordered the streams itself. Never calls the backend. */
int heap_free(struct heap *heap, struct heap_stream *stream, uint64_t va);

/* Around a wait of the program for all work of the device (`stream` NULL) or of one stream: a token is
 * taken before the wait begins; what was freed before that is free for all once the wait has ended.
 * (Blocks freed by other threads during the wait are not.) Neither call enters the backend. */
uint64_t heap_sync_begin(struct heap *heap);
void heap_synchronized(struct heap *heap, struct heap_stream *stream, uint64_t token);

/* The address lies within what the heap has reserved (a live block or not). Lock-free. */
bool heap_owns(const struct heap *heap, uint64_t va);
/* The live block that contains `va`; its size is the requested one rounded up to 512. */
bool heap_find(struct heap *heap, uint64_t va, uint64_t *base, size_t *bytes);

/* What the program may be told of the live block that contains `va`; false: there is none, or `va` lies
 * beyond what was asked for. `id` is given to no other block of this process, ever. */
struct heap_view_of {
	uint64_t base, id;
	size_t asked;
};
bool heap_look(struct heap *heap, uint64_t va, struct heap_view_of *out);

/* Give physical memory back until at most `keep` bytes are reserved; returns bytes given back.
 * Only chunks whose last use has passed, which is waited for `ns` at most. */
size_t heap_trim(struct heap *heap, size_t keep, uint64_t ns);
#define HEAP_TRIM_NS 5000000ull /* that is enough for streams that have nothing to do */

/* Memory is out for somebody else: all is given back that can be. If that is nothing, streams are waited for
 * until something is, as long as one heap_alloc() would. To be called again while it helps. */
size_t heap_make_room(struct heap *heap);

/* Calls access() again over all that is mapped: the peers have changed. The first error ends it. */
int heap_access_again(struct heap *heap);

struct heap_usage {
	/* Bytes that the program holds (rounded up to 512). `live_high` is exact while at most six streams are
	 * open. With more it may count, for each of them, a block of up to 64 MiB that it has just freed,
	 * and in all 4 MiB or 1/128 of `reserved`, whichever is more. */
	size_t live, live_high;
	size_t reserved, reserved_high; /* physical memory */
	size_t binned;                  /* free blocks kept in front of the heap */
	size_t views, chunks;           /* mapped now, in number */
	uint64_t hits;                  /* allocations served by a stream's own bins */
	uint64_t misses;                /* all others */
	uint64_t steals;                /* blocks that held memory freed on another stream */
	uint64_t waits;                 /* mark_wait() calls */
	uint64_t stitches, view_hits;   /* views made; views used again */
	uint64_t trims;                 /* chunks given back */
	uint64_t blocks;                /* mark_block() calls */
	uint64_t driver_calls;          /* all backend calls */
	uint64_t map_calls;             /* of these, on chunks and mappings */
};
/* May be called from within a backend call. */
void heap_usage(struct heap *heap, struct heap_usage *out);
void heap_usage_reset_high(struct heap *heap, bool live, bool reserved);

/* Looks at every invariant, O(blocks). NULL: all hold; else the one that does not. For tests. */
const char *heap_check(struct heap *heap);

#endif
