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

#define SIM_ARENA_HEAD (1u << 20) /* of a device's file: the table of exports (sim_ipc_mem.c) */

struct sim_phys { /* bytes behind device addresses */
	int refs;
	unsigned char *bytes;
	size_t size;
	struct sim_device *dev; /* charged for it; NULL: host memory, or another process's */
	uint64_t off;           /* in the device's file; 0: in none */
	unsigned exported;      /* slot in the table of exports, plus one; 0: was not exported */
	CUmemAllocationProp prop;
	struct sim_handle *handle; /* that the program has of it (sim_vmm.c); NULL: none */
};

struct sim_range {
	uintptr_t base;
	size_t size;  /* that the device reaches */
	size_t asked; /* by the program, when that is less; else 0 */
	enum sim_kind kind;
	unsigned flags;
	unsigned long long id;
	struct sim_ctx *ctx;
	struct sim_device *dev;
	struct sim_phys *phys; /* device memory */
	size_t phys_off;
	uintptr_t va_base; /* VMM: the reservation it lies in */
	size_t va_size;
	uint32_t may_read, may_write; /* VMM: devices with access, a bit each (cuMemSetAccess) */
	bool async;                   /* stream-ordered: of a pool or a graph */
	bool freeing;                 /* freed, but queued work may use it: no memory as the program sees it */
	bool sync_memops;
	struct sim_import *imported; /* from cuIpcOpenMemHandle; else NULL */
	struct sim_pool *pool;
	struct sim_block *block;        /* of the pool */
	const struct sim_graph *graph;  /* whose allocation it is; only to compare */
	struct sim_range **link, *next; /* list of all */
};

/* All lock held. A range lasts until it is removed. */
struct sim_range *sim_range_find(uintptr_t addr);
struct sim_range *sim_range_live(uintptr_t addr); /* not what is being freed */
struct sim_range *sim_range_overlap(uintptr_t base, size_t size);
struct sim_range *sim_range_add(const struct sim_range *range); /* NULL: overlaps */
void sim_range_remove(struct sim_range *range);                 /* remembered as freed */
struct sim_range *sim_range_first(void);                        /* of the list; newest first */
void sim_range_freeing(struct sim_range *range);                /* and counted no longer */
bool sim_range_was_freed(uintptr_t addr);

/* Bytes of it as the program knows it. */
static inline size_t sim_range_size(const struct sim_range *r)
{
	return r->asked ? r->asked : r->size;
}

static inline bool sim_kind_device(enum sim_kind k)
{
	return k == MEM_DEVICE || k == MEM_VMM;
}

/* Memory of a device (NULL: of the host). NULL: out of memory. */
struct sim_phys *sim_phys_new(struct sim_device *dev, size_t size);
/* A piece of another process's file. */
struct sim_phys *sim_phys_map(int fd, uint64_t off, size_t size);
void sim_phys_put(struct sim_phys *phys);
/* True when work that is queued or running names an address of [base, base + size). */
bool sim_pending_use(uintptr_t base, size_t size);
/* True when a kernel of ctx may use the range (sim_peer.c). */
bool sim_peer_reaches(const struct sim_ctx *ctx, const struct sim_range *r);
uintptr_t sim_va_take(struct sim_device *dev, size_t size, size_t align); /* 0: none left */
/* End of what occupies [at, at + size), or 0: ranges and reservations (sim_vmm.c). */
uintptr_t sim_va_conflict(uintptr_t at, size_t size);
bool sim_vmm_reserved(uintptr_t at, uintptr_t *base, size_t *size); /* cuMemAddressReserve */
CUresult sim_device_alloc(struct sim_device *dev, struct sim_ctx *ctx, size_t size, uintptr_t *out);
/* Addresses that are occupied, whatever the table says. */
void sim_va_hold(uintptr_t base, size_t size);
void sim_va_release(uintptr_t base, size_t size);
uintptr_t sim_va_held(uintptr_t at, size_t size); /* end of what overlaps, or 0 */
void sim_release_range(struct sim_range *range);  /* frees what the range owns, then removes it */

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
/* Byte by byte: sanitizers see neither. */
void sim_fill_bytes(void *dst, int value, size_t n);
/* Plain byte copy that no sanitizer instruments: what a DMA engine does. */
void sim_bytes(void *dst, const void *src, size_t n);
bool sim_in_device_space(uintptr_t addr);

struct sim_arena *sim_arena_new(void); /* NULL: out of memory */
void *sim_arena_head(struct sim_arena *a);
int sim_arena_fd(const struct sim_arena *a);
/* Memory of other processes (sim_ipc_mem.c). */
bool sim_import_alive(const struct sim_import *import); /* false: its owner has freed it */
void sim_import_put(struct sim_import *import);
void sim_export_gone(struct sim_phys *phys); /* handles of it open nothing any more */

/* How much of a device is used (sim_account.c). */
bool sim_account_join(void); /* SIM_SHARED; false: cannot be done */
bool sim_charge(struct sim_device *dev, uint64_t size);
void sim_uncharge(struct sim_device *dev, uint64_t size);
uint64_t sim_free_bytes(struct sim_device *dev);

#pragma GCC visibility pop

#endif
