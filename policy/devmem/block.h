/*
 * block.h - the table of tier A: every cuMemAlloc that the policy has seen and the driver
 * still holds, by its exact base address.
 *
 * A block is in the table from the driver's allocation to just before the driver's free, also
 * while nobody uses it. Its memory is never given back to the system, so a pointer from
 * block_find() may be looked at later: under its space's lock, and only while `base` and `space`
 * are what they were.
 */
#ifndef TURBO_DEVMEM_BLOCK_H
#define TURBO_DEVMEM_BLOCK_H

#define HASH_NONFATAL_OOM 1 /* uthash ends the process otherwise */
#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

enum block_state {
	BLOCK_LIVE,    /* the program's */
	BLOCK_BARRIER, /* in the program's cuMemFree, which waits for the device */
	BLOCK_PENDING, /* freed, and its fence has not passed (deferred) */
	BLOCK_CACHED,  /* nobody's: may be handed out at once */
	BLOCK_GONE,    /* on its way to the driver */
};

enum block_flag {
	BLOCK_KEEP_OUT = 1, /* really freed when the program frees it: somebody else may see this memory */
	BLOCK_STALE = 2,    /* the driver has handed its address out anew: it was freed unseen */
};

struct space; /* cache_space.h: the context that owns it */

struct block {
	/* Constant while in the table. */
	CUdeviceptr base;
	size_t size; /* bytes that the driver gave */
	struct space *space;
	/* Guarded by the space's lock. */
	enum block_state state;
	uint32_t bin;                /* index into the space's bins while CACHED */
	size_t asked;                /* bytes that the program asked for; 0 unless LIVE */
	uint64_t since;              /* CLOCK_MONOTONIC, ns: when it became CACHED */
	struct block *prev, *next;   /* its bin's list, its batch's list, a list of victims */
	struct block *older, *newer; /* all that are CACHED, by `since` */
	/* Atomic, relaxed: set and read by the calls that answer for the driver. */
	unsigned flags;
	/* What CU_POINTER_ATTRIBUTE_BUFFER_ID must answer, which the program never sees twice;
	 * 0: the driver's own answer. Atomic, relaxed. */
	unsigned long long buffer_id;
	UT_hash_handle hh; /* guarded by the table */
};

/* What the answering calls need to know of a block. */
struct block_view {
	size_t asked, size;
	enum block_state state;
	unsigned flags;
	unsigned long long buffer_id;
	CUcontext ctx;
	int device;
};

/* Takes a block from the table's store, not in the table yet; NULL: no memory. Any thread. */
struct block *block_new(void);
/* Gives back one that is not in the table. */
void block_drop(struct block *block);

/* False: no memory. One that is there already with that base was freed by a way that we do not
 * see: it becomes BLOCK_STALE and leaves the table. Any thread, no lock held. */
bool block_insert(struct block *block);
void block_remove(struct block *block);
struct block *block_find(CUdeviceptr base);
/* Copies what is known of the block with that base; false: none. Takes its space's lock. */
bool block_look(CUdeviceptr base, struct block_view *out);
/* Sets flags of a live block; false: none. */
bool block_flag(CUdeviceptr base, unsigned flags);
/* Takes every block of a dead context out of the table and drops it. */
void block_forget(const struct space *space);
/* Blocks in the table. */
size_t block_count(void);
/* Bytes that the driver gave for the blocks of a device in the table; relaxed. */
size_t block_bytes(int device);

struct block_census {
	size_t live, live_bytes; /* the program's, as it asked for them */
	size_t largest;
	size_t kept, kept_bytes; /* freed by the program, not by the driver */
};
/* Looks at every block of a device: for reports. Takes the table's locks, one after another. */
void block_census(int device, struct block_census *out);
void block_fork_child(void);

#endif
