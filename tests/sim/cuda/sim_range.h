/*
 * sim_range.h - the table of memory that the driver knows, and the bytes behind addresses.
 *
 * Filled by sim_mem.c, sim_host.c, sim_pool.c and sim_vmm.c. Included by sim_internal.h.
 */
#ifndef SIM_RANGE_H
#define SIM_RANGE_H

#include "sim_internal.h"

#pragma GCC visibility push(hidden)

enum sim_kind { MEM_DEVICE = 1, MEM_VMM, MEM_MANAGED, MEM_PINNED, MEM_REGISTERED };

struct sim_phys { /* bytes behind device addresses */
	int refs;
	unsigned char *bytes;
	size_t size;
	struct sim_device *dev; /* charged for it; NULL: host memory */
	CUmemAllocationProp prop;
};

struct sim_range {
	uintptr_t base;
	size_t size;
	enum sim_kind kind;
	unsigned flags;
	unsigned long long id;
	struct sim_ctx *ctx;
	struct sim_device *dev;
	struct sim_phys *phys; /* device memory */
	size_t phys_off;
	uintptr_t va_base; /* VMM: the reservation it lies in */
	size_t va_size;
	bool accessible; /* VMM: cuMemSetAccess was called */
	bool async;      /* from cuMemAllocAsync */
	bool imported;   /* from cuIpcOpenMemHandle */
	struct sim_pool *pool;
};

/* All lock held. Pointers into the table last until the lock is dropped. */
struct sim_range *sim_range_find(uintptr_t addr);
struct sim_range *sim_range_overlap(uintptr_t base, size_t size);
struct sim_range *sim_range_add(const struct sim_range *range); /* NULL: overlaps */
void sim_range_remove(struct sim_range *range);                 /* remembered as freed */
struct sim_range *sim_range_at(size_t index);                   /* NULL past the end */
bool sim_range_was_freed(uintptr_t addr);

static inline bool sim_kind_device(enum sim_kind k)
{
	return k == MEM_DEVICE || k == MEM_VMM;
}

struct sim_phys *sim_phys_new(struct sim_device *dev, size_t size); /* NULL: out of memory */
void sim_phys_put(struct sim_phys *phys);
uintptr_t sim_va_take(struct sim_device *dev, size_t size, size_t align); /* 0: none left */
/* End of what occupies [at, at + size), or 0: ranges and reservations (sim_vmm.c). */
uintptr_t sim_va_conflict(uintptr_t at, size_t size);
bool sim_vmm_reserved(uintptr_t at, uintptr_t *base, size_t *size); /* cuMemAddressReserve */
CUresult sim_device_alloc(struct sim_ctx *ctx, size_t size, struct sim_pool *pool, bool async,
						  uintptr_t *out);
void sim_release_range(struct sim_range *range); /* frees what the range owns, then removes it */

/*
 * Bytes behind a program address, for at most *n bytes (shortened to what is contiguous).
 * Device memory: a reference on *phys keeps them alive. Host memory: *phys is NULL and the
 * address itself is returned. NULL: no such device memory, or not accessible.
 */
unsigned char *sim_translate(uintptr_t addr, size_t *n, struct sim_phys **phys);
/* As sim_translate in a loop, copying; false when either side is bad. No lock held. */
bool sim_move(uintptr_t dst, uintptr_t src, size_t n);
/* The device has read a word that the host wrote with release order: what the host did before
 * is seen by whatever the device does next (and ThreadSanitizer knows it). No lock held. */
void sim_see(uintptr_t addr);
/* Plain byte copy that no sanitizer instruments: what a DMA engine does. */
void sim_bytes(void *dst, const void *src, size_t n);
bool sim_in_device_space(uintptr_t addr);

#pragma GCC visibility pop

#endif
