/*
 * sim_pool.h - pools of the stream-ordered allocator. sim.lock held for all.
 */
#ifndef SIM_POOL_H
#define SIM_POOL_H

#include "sim_internal.h"

#pragma GCC visibility push(hidden)

#define SIM_POOL_UNIT 512 /* of blocks */
#define SIM_POOL_BINS 160

/* Memory that a pool has of the driver, cut into blocks. Goes back whole. */
struct sim_segment {
	struct sim_pool *pool;
	uintptr_t base;
	size_t size;
	struct sim_phys *phys;
	int busy; /* blocks in use or being freed; 0: one free block is all of it */
	struct sim_segment **link, *next;
};

enum sim_block_state {
	BLOCK_FREE,
	BLOCK_PENDING, /* freed, and its stream has not come to the free */
	BLOCK_USED,
};

struct sim_block {
	uintptr_t base;
	size_t size;
	enum sim_block_state state;
	bool observed;            /* free: the host has waited for something since it was freed */
	unsigned long long freer; /* not in use: id of the stream that freed it; 0: several */
	struct sim_segment *segment;
	struct sim_range *range;         /* in use: the allocation; pending: what queued work may use */
	struct sim_pool_free *freed;     /* pending */
	struct sim_block *same_free;     /* pending: list of freed's blocks */
	struct sim_block *left, *right;  /* neighbours in the segment */
	struct sim_block **bin, *in_bin; /* not in use: list of its size */
};

/* One cuMemFreeAsync, until its stream comes to it. */
struct sim_pool_free {
	struct sim_op *op;
	struct sim_block *blocks; /* what is left of the freed block; may be none */
};

struct sim_pool {
	struct sim_device *dev;
	bool program;    /* from cuMemPoolCreate */
	bool destroyed;  /* goes with its last block */
	uint32_t access; /* devices that reach it, a bit each */
	uint32_t read_only;
	uint64_t max_size; /* 0: no limit */
	int follow_events, opportunistic, internal;
	uint64_t threshold;
	uint64_t reserved, reserved_high, used, used_high;
	struct sim_segment *segments;
	struct sim_block *bins[SIM_POOL_BINS];
	struct sim_pool *next; /* of all */
};

struct sim_pool *sim_pool_first(void);
/* An allocation for stream s. */
CUresult sim_pool_alloc(struct sim_pool *p, size_t size, struct sim_stream *s, uintptr_t *out);
/* Queues the free of an allocation on s. */
CUresult sim_pool_free_on(struct sim_range *r, struct sim_stream *s);
/* Frees it now: cuMemFree. */
void sim_pool_free_now(struct sim_range *r);
/* Its stream has come to the free. */
void sim_pool_freed(struct sim_pool_free *f);
/* Gives free segments back until no more than `keep` bytes are reserved; `below`: also when
 * that leaves less. True when something was given back. */
bool sim_pool_release(struct sim_pool *p, uint64_t keep, bool below);
/* More memory of the driver, one free block of at least that size; NULL: there is none. */
struct sim_block *sim_pool_grow(struct sim_pool *p, size_t size);
/* Lists of blocks that are not in use, by size. */
int sim_bin_of(size_t size);
void sim_bin_put(struct sim_pool *p, struct sim_block *b);
void sim_bin_take(struct sim_block *b);
/* The host has waited for work of the device. */
void sim_pool_host_waited(struct sim_device *dev);
void sim_pool_end_if_unused(struct sim_pool *p); /* a pool that was destroyed */
void sim_pool_forget(struct sim_pool *p);
bool sim_pool_reaches(const struct sim_range *r, uint32_t device_bit);

#pragma GCC visibility pop
#endif
