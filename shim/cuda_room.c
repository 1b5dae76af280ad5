/*
 * cuda_room.c - calls that are the driver's alone and take device memory: when it has none, what libturbo
 * keeps is given back and the call is made once more.
 *
 * Memory that the program has freed must not be missing where it would be there without libturbo: in mappings of
 * the program's own (NCCL's buffers are such), managed and pitched memory, arrays, graphs, code, streams and contexts.
 */
#include <cuda.h>

#include "doors.h"
#include "guard.h"
#include "make_room.h"
#include "real.h"
#include "stats.h"
#include "../policy/devmem/devmem.h"
#include "../policy/hostmem/pinned.h"

/* `device` -1: the current context's. */
#define ROOM(symbol, params, args, device) ROOM_AND(symbol, params, args, device, (void)0)
/* `then`: when the call has succeeded. */
#define ROOM_AND(symbol, params, args, device, then) ROOM_DOOR(symbol, params, args, device, (void)0, then)

/* `door`: what it is for pending all-gathers. */
#define ROOM_DOOR(symbol, params, args, device, door, then) \
	TURBO_EXPORT CUresult symbol params                     \
	{                                                       \
		CUresult status;                                    \
		struct devmem_room room;                            \
		stats_call(HOOK_##symbol);                          \
		door;                                               \
		room = devmem_room_begin();                         \
		do {                                                \
			status = REAL_GET(symbol) args;                 \
		} while (made_room(status, &room, device));         \
		if (status == CUDA_SUCCESS)                         \
			then;                                           \
		return status;                                      \
	}

#define DEVICE_OF(prop) \
	((prop) && (prop)->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? (prop)->location.id : -1)

/* ---- memory ---- */

ROOM(cuMemCreate,
	 (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *prop,
	  unsigned long long flags),
	 (handle, bytes, prop, flags), DEVICE_OF(prop))
/* Page tables. */
ROOM(cuMemMap,
	 (CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
	  unsigned long long flags),
	 (ptr, bytes, offset, handle, flags), -1)
ROOM_DOOR(cuMemSetAccess, (CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *access, size_t count),
		  (ptr, bytes, access, count), -1, DOOR_WAITS(), (void)0)
ROOM(cuMemAllocManaged, (CUdeviceptr * ptr, size_t bytes, unsigned int flags), (ptr, bytes, flags), -1)
ROOM(cuMemAllocPitch_v2,
	 (CUdeviceptr * ptr, size_t *pitch, size_t width, size_t height, unsigned int element),
	 (ptr, pitch, width, height, element), -1)
ROOM(cuArrayCreate_v2, (CUarray * array, const CUDA_ARRAY_DESCRIPTOR *what), (array, what), -1)
ROOM(cuArray3DCreate_v2, (CUarray * array, const CUDA_ARRAY3D_DESCRIPTOR *what), (array, what), -1)
ROOM(cuMipmappedArrayCreate,
	 (CUmipmappedArray * array, const CUDA_ARRAY3D_DESCRIPTOR *what, unsigned int levels),
	 (array, what, levels), -1)

/* ---- graphs; others: cuda_graph.c ---- */

ROOM_DOOR(cuGraphUpload, (CUgraphExec exec, CUstream stream), (exec, stream), -1,
		  DOOR_STREAM_OF(cuGraphUpload, stream), (void)0)
ROOM_DOOR(cuGraphUpload_ptsz, (CUgraphExec exec, CUstream stream), (exec, stream), -1,
		  DOOR_STREAM_OF(cuGraphUpload_ptsz, stream), (void)0)

/* ---- code ---- */

ROOM(cuModuleLoad, (CUmodule * module, const char *file), (module, file), -1)
ROOM(cuModuleLoadData, (CUmodule * module, const void *image), (module, image), -1)
ROOM(cuModuleLoadDataEx,
	 (CUmodule * module, const void *image, unsigned int count, CUjit_option *options, void **values),
	 (module, image, count, options, values), -1)
ROOM(cuModuleLoadFatBinary, (CUmodule * module, const void *image), (module, image), -1)
#define LIBRARY_PARAMS(what)                                                                   \
	(CUlibrary * library, what, CUjit_option * jit, void **jit_values, unsigned int jit_count, \
	 CUlibraryOption *options, void **values, unsigned int count)
#define LIBRARY_ARGS(what) (library, what, jit, jit_values, jit_count, options, values, count)
ROOM(cuLibraryLoadData, LIBRARY_PARAMS(const void *code), LIBRARY_ARGS(code), -1)
ROOM(cuLibraryLoadFromFile, LIBRARY_PARAMS(const char *file), LIBRARY_ARGS(file), -1)

/* ---- streams and contexts ---- */

/* Its work may use any pinned memory. */
static void context_made(void)
{
	if (guard_inside())
		return;
	guard_enter();
	pinned_context_made();
	guard_leave();
}

static void stream_made(CUstream stream, unsigned int flags)
{
	if (doors_on())
		doors_stream_made(stream, flags);
}

ROOM_AND(cuStreamCreate, (CUstream * stream, unsigned int flags), (stream, flags), -1,
		 stream_made(*stream, flags))
ROOM_AND(cuStreamCreateWithPriority, (CUstream * stream, unsigned int flags, int priority),
		 (stream, flags, priority), -1, stream_made(*stream, flags))
ROOM_DOOR(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value), -1, DOOR_WAITS(), (void)0)
ROOM_AND(cuCtxCreate_v2, (CUcontext * ctx, unsigned int flags, CUdevice device), (ctx, flags, device), device,
		 context_made())
ROOM_AND(cuCtxCreate_v3,
		 (CUcontext * ctx, CUexecAffinityParam *affinity, int count, unsigned int flags, CUdevice device),
		 (ctx, affinity, count, flags, device), device, context_made())
/* Headers before CUDA 12.5 do not have it. */
struct CUctxCreateParams_st;
CUresult CUDAAPI cuCtxCreate_v4(CUcontext *ctx, struct CUctxCreateParams_st *params, unsigned int flags,
								CUdevice device);
ROOM_AND(cuCtxCreate_v4,
		 (CUcontext * ctx, struct CUctxCreateParams_st *params, unsigned int flags, CUdevice device),
		 (ctx, params, flags, device), device, context_made())
ROOM(cuDevicePrimaryCtxRetain, (CUcontext * ctx, CUdevice device), (ctx, device), device)
