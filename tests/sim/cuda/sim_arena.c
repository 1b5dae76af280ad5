/*
 * sim_arena.c - the bytes of device memory.
 *
 * A device's memory is one sparse memfd, mapped whole, far larger than the memory that it may
 * hold: a buddy allocator cuts it. Another process opens the file below /proc/PID/fd and maps
 * what it was given a handle of (sim_ipc_mem.c), so that nothing is left behind however a
 * process ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim_internal.h"

#define PAGE_ORDER 12
#define ORDERS 48
#define SPAN (64ull << 30) /* at least; and no less than 8 times the memory */
#define FILL 0xcd          /* fresh memory, its first bytes */
#define FILL_MAX (16u << 10)
#define GIVE_BACK (64u << 10) /* from here on a freed block's pages go */
#define HIGH_FD 512           /* away from where programs look */
#define NONE UINT32_MAX

/* Guarded by sim.lock. The three arrays have an entry a page; pages of them that are never
 * used are never there. */
struct sim_arena {
	int fd;
	unsigned char *map; /* the file, from its first byte */
	uint64_t span;      /* bytes of blocks, after the table of exports */
	uint32_t *next, *prev;
	uint8_t *order; /* of the free block that begins here, plus one */
	uint32_t head[ORDERS];
};

/* A raw system call: the sanitizers' interceptors would set up shadow memory for all of it. */
static void *map_raw(uint64_t size, int flags, int fd)
{
	long at = syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, 0L);
	return at == -1 ? NULL : (void *)at;
}

static void push(struct sim_arena *a, uint32_t page, int order)
{
	a->order[page] = (uint8_t)(order + 1);
	a->prev[page] = NONE;
	a->next[page] = a->head[order];
	if (a->head[order] != NONE)
		a->prev[a->head[order]] = page;
	a->head[order] = page;
}

static void take(struct sim_arena *a, uint32_t page, int order)
{
	a->order[page] = 0;
	if (a->prev[page] == NONE)
		a->head[order] = a->next[page];
	else
		a->next[a->prev[page]] = a->next[page];
	if (a->next[page] != NONE)
		a->prev[a->next[page]] = a->prev[page];
}

static int order_of(uint64_t size)
{
	int order = PAGE_ORDER;
	while ((1ull << order) < size)
		order++;
	return order - PAGE_ORDER;
}

static int memory_file(uint64_t size)
{
	int fd = memfd_create("sim_device_memory", MFD_CLOEXEC);
	int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
	if (high >= 0) {
		close(fd);
		fd = high;
	}
	if (fd >= 0 && ftruncate(fd, (off_t)size)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

struct sim_arena *sim_arena_new(void)
{
	struct sim_arena *a = calloc(1, sizeof *a);
	if (!a)
		return NULL;
	a->span = SPAN;
	while (a->span < sim_conf.mem_bytes * 8)
		a->span *= 2;
	uint64_t pages = a->span >> PAGE_ORDER;
	a->fd = memory_file(SIM_ARENA_HEAD + a->span);
	if (a->fd >= 0)
		a->map = map_raw(SIM_ARENA_HEAD + a->span, MAP_SHARED, a->fd);
	a->next = map_raw(pages * 9, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (!a->map || !a->next)
		return NULL; /* cuInit fails */
	a->prev = a->next + pages;
	a->order = (uint8_t *)(a->prev + pages);
	for (int i = 0; i < ORDERS; i++)
		a->head[i] = NONE;
	push(a, 0, order_of(a->span));
	return a;
}

void *sim_arena_head(struct sim_arena *a)
{
	return a->map;
}

int sim_arena_fd(const struct sim_arena *a)
{
	return a->fd;
}

/* Offset in the file, or 0. */
static uint64_t arena_alloc(struct sim_arena *a, uint64_t size)
{
	int want = order_of(size), order = want;
	while (order < ORDERS && a->head[order] == NONE)
		order++;
	if (order == ORDERS)
		return 0;
	uint32_t page = a->head[order];
	take(a, page, order);
	while (order-- > want)
		push(a, page + (1u << order), order);
	return SIM_ARENA_HEAD + ((uint64_t)page << PAGE_ORDER);
}

static void arena_free(struct sim_arena *a, uint64_t at, uint64_t size)
{
	int order = order_of(size), top = order_of(a->span);
	uint32_t page = (uint32_t)((at - SIM_ARENA_HEAD) >> PAGE_ORDER);
	if (size >= GIVE_BACK)
		madvise(a->map + at, size, MADV_REMOVE);
	for (; order < top; order++) {
		uint32_t buddy = page ^ (1u << order);
		if (a->order[buddy] != order + 1)
			break;
		take(a, buddy, order);
		page &= ~(1u << order);
	}
	push(a, page, order);
}

/* ---- blocks of bytes ---- */

struct sim_phys *sim_phys_new(struct sim_device *dev, size_t size)
{
	struct sim_phys *phys = calloc(1, sizeof *phys);
	if (!phys || (dev && !sim_charge(dev, size))) {
		free(phys);
		return NULL;
	}
	if (dev) {
		phys->off = arena_alloc(dev->arena, size);
		phys->bytes = phys->off ? dev->arena->map + phys->off : NULL;
	} else {
		phys->bytes = map_raw(size, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	}
	if (!phys->bytes) {
		if (dev)
			sim_uncharge(dev, size);
		free(phys);
		return NULL;
	}
	sim_fill_bytes(phys->bytes, FILL, size < FILL_MAX ? size : FILL_MAX);
	phys->refs = 1;
	phys->size = size;
	phys->dev = dev;
	return phys;
}

struct sim_phys *sim_phys_map(int fd, uint64_t off, size_t size)
{
	struct sim_phys *phys = calloc(1, sizeof *phys);
	size_t whole = (size + 4095) / 4096 * 4096;
	void *at = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, (off_t)off);
	if (!phys || at == MAP_FAILED) {
		free(phys);
		if (at != MAP_FAILED)
			munmap(at, whole);
		return NULL;
	}
	phys->refs = 1;
	phys->size = size;
	phys->bytes = at;
	return phys;
}

void sim_phys_put(struct sim_phys *phys)
{
	if (--phys->refs)
		return;
	if (phys->dev) {
		sim_export_gone(phys);
		arena_free(phys->dev->arena, phys->off, phys->size);
		sim_uncharge(phys->dev, phys->size);
	} else {
		munmap(phys->bytes, (phys->size + 4095) / 4096 * 4096);
	}
	free(phys);
}
