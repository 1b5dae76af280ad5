#define _GNU_SOURCE
#include "route.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"
#include "stats.h"

/* What the driver knows of an address; all zero for pageable memory. */
struct pointer_info {
	unsigned type; /* CUmemorytype */
	int managed;
	int device;
	CUdeviceptr start; /* of the allocation, or of the VMM reservation */
	size_t bytes;
};

static bool ask(CUdeviceptr p, struct pointer_info *info)
{
	*info = (struct pointer_info){0};
	CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
								  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
								  CU_POINTER_ATTRIBUTE_RANGE_SIZE};
	void *where[] = {&info->type, &info->managed, &info->device, &info->start, &info->bytes};
	/* The plural form answers zeroes for pageable memory where the singular one
	 * raises an API error that a debugger or profiler would show. */
	return REAL(cuPointerGetAttributes)(5, what, where, p) == CUDA_SUCCESS;
}

/*
 * False where reading would fault: a freed device pointer, which the driver answers with
 * an error, or a page that the program's fault handler repairs. The kernel reads the
 * eight bytes before it refuses the first argument; nothing changes.
 */
static bool readable(CUdeviceptr p)
{
	return syscall(SYS_rt_sigprocmask, -1, p & ~(CUdeviceptr)7, NULL, 8) != -1 || errno != EFAULT;
}

/* Looks at both ends only: what is between is the program's word. */
static bool pageable(CUdeviceptr p, size_t bytes)
{
	struct pointer_info first, last;
	return p && bytes && ask(p, &first) && !first.type && !first.managed && ask(p + bytes - 1, &last) &&
		   !last.type && !last.managed && readable(p) && readable(p + bytes - 1);
}

static bool on_device(CUdeviceptr p, size_t bytes, const struct pointer_info *info, int device)
{
	return info->type == CU_MEMORYTYPE_DEVICE && !info->managed && info->device == device &&
		   p >= info->start && p - info->start <= info->bytes && bytes <= info->bytes - (p - info->start);
}

bool route_pointers(struct copy_call *call, const struct copy_ring *ring)
{
	struct pointer_info info;
	if (call->dir == COPY_UNIFIED) {
		if (!ask(call->dst, &info)) {
			stats_add(STATS_COPY_PASS_NOT_DEVICE, 1);
			return false;
		}
		call->dir = info.type == CU_MEMORYTYPE_DEVICE ? COPY_H2D : COPY_D2H;
	}
	CUdeviceptr dev = call->dir == COPY_H2D ? call->dst : call->src;
	CUdeviceptr host = call->dir == COPY_H2D ? call->src : call->dst;
	if (!pageable(host, call->bytes)) {
		stats_add(STATS_COPY_PASS_NOT_PAGEABLE, 1);
		return false;
	}
	if (!ask(dev, &info) || !on_device(dev, call->bytes, &info, ring->device)) {
		stats_add(STATS_COPY_PASS_NOT_DEVICE, 1);
		return false;
	}
	return true;
}
