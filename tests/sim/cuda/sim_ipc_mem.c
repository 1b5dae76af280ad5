/*
 * sim_ipc_mem.c - device memory that processes share by cuIpcGetMemHandle.
 *
 * A handle names the exporting process, its device's file (sim_arena.c) and a piece of it. The
 * file begins with the table of exports: who opens a handle, and who uses what it opened, looks
 * there whether the memory is still the one that was exported.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim_internal.h"

#define MAGIC 0x6d656d69u
#define EXPORTS (SIM_ARENA_HEAD / sizeof(uint64_t))

struct handle {
	uint32_t magic;
	int32_t pid, fd, device;
	uint64_t inode, off, size;
	uint64_t id; /* of the allocation: in its slot as long as it lives */
	uint32_t slot;
};
_Static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "a handle holds it");

struct sim_import {
	struct handle handle;
	unsigned opened;
	const uint64_t *table; /* the exporter's, mapped */
};

/* ---- exporting; sim.lock held ---- */

static uint64_t *own_table(const struct sim_phys *phys)
{
	return sim_arena_head(phys->dev->arena);
}

/* 0: the table is full. */
static unsigned slot_take(struct sim_phys *phys, uint64_t id)
{
	static unsigned next[SIM_MAX_DEVICES];
	uint64_t *table = own_table(phys);
	for (unsigned tries = 0; tries < EXPORTS && !phys->exported; tries++) {
		unsigned slot = next[phys->dev->ordinal]++ % EXPORTS;
		if (__atomic_load_n(&table[slot], __ATOMIC_RELAXED))
			continue;
		__atomic_store_n(&table[slot], id, __ATOMIC_RELEASE);
		phys->exported = slot + 1;
	}
	return phys->exported;
}

void sim_export_gone(struct sim_phys *phys)
{
	if (phys->exported)
		__atomic_store_n(&own_table(phys)[phys->exported - 1], 0, __ATOMIC_RELEASE);
	phys->exported = 0;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr ptr)
{
	SIM_ENTER(cuIpcGetMemHandle, S_CTX);
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	struct stat st;
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_range *r = sim_range_live(ptr);
	/* An address inside the allocation stands for the allocation. */
	if (r && r->kind == MEM_DEVICE && !r->async && !r->imported) {
		int fd = sim_arena_fd(r->dev->arena);
		struct handle h = {MAGIC, getpid(), fd, r->dev->ordinal, 0, r->phys->off, r->size, r->id, 0};
		result = CUDA_SUCCESS;
		if (!slot_take(r->phys, r->id))
			result = CUDA_ERROR_OUT_OF_MEMORY;
		else if (fstat(fd, &st))
			result = CUDA_ERROR_OPERATING_SYSTEM; /* the program has closed it */
		if (result == CUDA_SUCCESS) {
			h.inode = st.st_ino;
			h.slot = r->phys->exported - 1;
			memset(out, 0, sizeof *out);
			memcpy(out, &h, sizeof h);
		}
	}
	sim_unlock();
	return result;
}

/* ---- importing ---- */

bool sim_import_alive(const struct sim_import *import)
{
	return __atomic_load_n(&import->table[import->handle.slot], __ATOMIC_ACQUIRE) == import->handle.id;
}

static struct sim_range *find_open(const struct handle *h, const struct sim_ctx *ctx)
{
	for (struct sim_range *r = sim_range_first(); r; r = r->next)
		if (r->imported && r->ctx == ctx && !memcmp(&r->imported->handle, h, sizeof *h))
			return r;
	return NULL;
}

/* -1: the process or its memory is gone, or it was never there. */
static int file_open(const struct handle *h)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)h->pid, (int)h->fd);
	/* Whatever took the descriptor's number since must not be disturbed by being opened. */
	if (stat(path, &st) || !S_ISREG(st.st_mode) || st.st_ino != h->inode || h->off < SIM_ARENA_HEAD ||
		h->off + h->size > (uint64_t)st.st_size)
		return -1;
	return open(path, O_RDWR | O_CLOEXEC);
}

static struct sim_import *import_new(const struct handle *h, int fd)
{
	struct sim_import *import = calloc(1, sizeof *import);
	void *table = mmap(NULL, SIM_ARENA_HEAD, PROT_READ, MAP_SHARED, fd, 0);
	if (!import || table == MAP_FAILED) {
		free(import);
		if (table != MAP_FAILED)
			munmap(table, SIM_ARENA_HEAD);
		return NULL;
	}
	import->handle = *h;
	import->opened = 1;
	import->table = table;
	return import;
}

void sim_import_put(struct sim_import *import)
{
	munmap((void *)import->table, SIM_ARENA_HEAD);
	free(import);
}

/* Lock held. */
static CUresult import(const struct handle *h, struct sim_device *dev, int fd, CUdeviceptr *out)
{
	struct sim_import *im = import_new(h, fd);
	if (!im)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!sim_import_alive(im)) {
		sim_import_put(im);
		return CUDA_ERROR_INVALID_VALUE;
	}
	struct sim_phys *phys = sim_phys_map(fd, h->off, h->size);
	uintptr_t at = phys ? sim_va_take(dev, h->size, SIM_GRANULARITY) : 0;
	if (!at) {
		if (phys)
			sim_phys_put(phys);
		sim_import_put(im);
		return CUDA_ERROR_MAP_FAILED;
	}
	struct sim_range range = {
		.base = at,
		.size = h->size,
		.kind = MEM_DEVICE,
		.ctx = sim_current(),
		.dev = dev,
		.phys = phys,
		.imported = im,
	};
	sim_range_add(&range);
	*out = at;
	return CUDA_SUCCESS;
}

static CUresult open_handle(CUdeviceptr *out, const CUipcMemHandle *handle, unsigned flags)
{
	struct handle h;
	memcpy(&h, handle, sizeof h);
	struct sim_device *dev = sim_device_get(h.device);
	if (!out || flags & ~(unsigned)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || h.magic != MAGIC || !dev ||
		h.slot >= EXPORTS || !h.size)
		return CUDA_ERROR_INVALID_VALUE;
	if (h.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	CUresult result = CUDA_SUCCESS;
	sim_lock();
	struct sim_range *r = find_open(&h, sim_current());
	if (r && sim_import_alive(r->imported)) {
		r->imported->opened++;
		*out = r->base;
	} else {
		int fd = file_open(&h);
		result = fd < 0 ? CUDA_ERROR_INVALID_VALUE : import(&h, dev, fd, out);
		if (fd >= 0)
			close(fd);
	}
	sim_unlock();
	return result;
}
SIM_FN(cuIpcOpenMemHandle, S_CTX, (CUdeviceptr * out, CUipcMemHandle handle, unsigned flags),
	   open_handle(out, &handle, flags))
SIM_FN(cuIpcOpenMemHandle_v2, S_CTX, (CUdeviceptr * out, CUipcMemHandle handle, unsigned flags),
	   open_handle(out, &handle, flags))

/* The last close waits for the device, as whatever unmaps memory of cuMemAlloc does. */
CUresult cuIpcCloseMemHandle(CUdeviceptr ptr)
{
	SIM_ENTER(cuIpcCloseMemHandle, S_CTX);
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_range *r = sim_range_live(ptr);
	if (r && r->base == ptr && r->imported) {
		result = CUDA_SUCCESS;
		if (--r->imported->opened == 0) {
			sim_device_stop_and_drain(r->dev);
			sim_release_range(r);
		}
	}
	sim_unlock();
	return result;
}
