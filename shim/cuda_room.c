/*
 * cuda_room.c - allocations that are the driver's alone: when it has no memory for one, what libturbo
 * keeps is given back and the call is made once more.
 *
 * Memory that the program has freed must not be missing where it would be there without libturbo: in mappings of
 * the program's own (NCCL's buffers are such), managed and pitched memory, and graphs.
 */
#include <cuda.h>
#include <errno.h>

#include "guard.h"
#include "real.h"
#include "stats.h"
#include "../policy/devmem/devmem.h"

/* `device` -1: the current context's. */
static bool made_room(CUresult status, int device)
{
	bool made;
	int saved = errno;

	if (__builtin_expect(status != CUDA_ERROR_OUT_OF_MEMORY, 1))
		return false;
	if (__atomic_load_n(&devmem_mode, __ATOMIC_RELAXED) == DEVMEM_OFF || guard_inside())
		return false;
	guard_enter();
	made = devmem_make_room(device);
	guard_leave();
	errno = saved;
	return made;
}

#define ROOM(symbol, params, args, device)  \
	TURBO_EXPORT CUresult symbol params     \
	{                                       \
		CUresult status;                    \
		stats_call(HOOK_##symbol);          \
		status = REAL_GET(symbol) args;     \
		if (made_room(status, device))      \
			status = REAL_GET(symbol) args; \
		return status;                      \
	}

#define DEVICE_OF(prop) \
	((prop) && (prop)->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? (prop)->location.id : -1)

ROOM(cuMemCreate,
	 (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *prop,
	  unsigned long long flags),
	 (handle, bytes, prop, flags), DEVICE_OF(prop))
ROOM(cuMemAllocManaged, (CUdeviceptr * ptr, size_t bytes, unsigned int flags), (ptr, bytes, flags), -1)
ROOM(cuMemAllocPitch_v2,
	 (CUdeviceptr * ptr, size_t *pitch, size_t width, size_t height, unsigned int element),
	 (ptr, pitch, width, height, element), -1)

ROOM(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags),
	 (exec, graph, flags), -1)
#define INSTANTIATE_PARAMS (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS * params)
ROOM(cuGraphInstantiateWithParams, INSTANTIATE_PARAMS, (exec, graph, params), -1)
ROOM(cuGraphInstantiateWithParams_ptsz, INSTANTIATE_PARAMS, (exec, graph, params), -1)
ROOM(cuGraphUpload, (CUgraphExec exec, CUstream stream), (exec, stream), -1)
ROOM(cuGraphUpload_ptsz, (CUgraphExec exec, CUstream stream), (exec, stream), -1)
ROOM(cuGraphLaunch, (CUgraphExec exec, CUstream stream), (exec, stream), -1)
ROOM(cuGraphLaunch_ptsz, (CUgraphExec exec, CUstream stream), (exec, stream), -1)
