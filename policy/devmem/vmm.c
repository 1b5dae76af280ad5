#define _GNU_SOURCE
#include "vmm.h"

#include "calls.h"
#include "oom.h"
#include "vmm_calls.h"

bool vmm_driver_complete(void)
{
	return REAL_HAS(cuMemAddressReserve) && REAL_HAS(cuMemAddressFree) && REAL_HAS(cuMemCreate) &&
		   REAL_HAS(cuMemRelease) && REAL_HAS(cuMemMap) && REAL_HAS(cuMemUnmap) && REAL_HAS(cuMemSetAccess) &&
		   REAL_HAS(cuMemGetAccess) && REAL_HAS(cuMemGetAllocationGranularity) &&
		   REAL_HAS(cuThreadExchangeStreamCaptureMode) && REAL_HAS(cuEventCreate) &&
		   REAL_HAS(cuEventRecord) && REAL_HAS(cuEventQuery) && REAL_HAS(cuEventDestroy_v2) &&
		   REAL_HAS(cuStreamWaitEvent) && REAL_HAS(cuCtxRecordEvent) && REAL_HAS(cuCtxPushCurrent_v2) &&
		   REAL_HAS(cuCtxPopCurrent_v2) && REAL_HAS(cuCtxGetDevice) && REAL_HAS(cuCtxSynchronize) &&
		   REAL_HAS(cuDevicePrimaryCtxGetState) && REAL_HAS(cuDevicePrimaryCtxRetain) &&
		   REAL_HAS(cuDevicePrimaryCtxRelease_v2) && REAL_HAS(cuDeviceGetAttribute) &&
		   REAL_HAS(cuMemGetInfo_v2);
}

static int code(CUresult r)
{
	return r == CUDA_ERROR_OUT_OF_MEMORY ? HEAP_NO_MEMORY : (int)r;
}

/* ---- addresses and chunks ---- */

static int reserve(void *arg, size_t bytes, uint64_t *va)
{
	struct vmm_device *dev = arg;
	CUdeviceptr at = 0;
	CUresult r = RELAXED(REAL(cuMemAddressReserve)(&at, bytes, dev->backend.grain, 0, 0));
	*va = at;
	return code(r);
}

static int unreserve(void *arg, uint64_t va, size_t bytes)
{
	(void)arg;
	return code(RELAXED(REAL(cuMemAddressFree)(va, bytes)));
}

/* Not for GPUDirect RDMA: the driver's own pools are not either, and their memory says so when asked. */
static CUmemAllocationProp chunk_prop(const struct vmm_device *dev)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev->ordinal},
	};
}

static int chunk_create(void *arg, size_t bytes, uint64_t *handle)
{
	struct vmm_device *dev = arg;
	CUmemAllocationProp prop = chunk_prop(dev);
	CUmemGenericAllocationHandle h = 0;
	uint64_t since = events_begin();
	CUresult r = RELAXED(REAL(cuMemCreate)(&h, bytes, &prop, 0));
	events_end(EVENT_DEVMEM_MISS, since, bytes, r != CUDA_SUCCESS);
	*handle = h;
	if (r == CUDA_SUCCESS)
		oom_watch(dev->ordinal);
	return code(r);
}

static int chunk_release(void *arg, uint64_t handle)
{
	(void)arg;
	uint64_t since = events_begin();
	CUresult r = RELAXED(REAL(cuMemRelease)(handle));
	events_end(EVENT_DEVMEM_FREE, since, 0, r != CUDA_SUCCESS);
	return code(r);
}

/* The driver's answer is about the current context's device. */
static size_t available(void *arg)
{
	struct vmm_device *dev = arg;
	CUdevice current;
	size_t left, total;
	if (REAL(cuCtxGetDevice)(&current) != CUDA_SUCCESS || current != dev->ordinal ||
		RELAXED(REAL(cuMemGetInfo_v2)(&left, &total)) != CUDA_SUCCESS)
		return SIZE_MAX;
	return left;
}

/* Some of what is mapped now, for vmm_device_alive(). The heap makes one call at a time. */
static void sample(struct vmm_device *dev, uint64_t gone, uint64_t come)
{
	for (unsigned i = 0; gone && i < VMM_SAMPLES; i++)
		if (atomic_load_explicit(&dev->sample[i], memory_order_relaxed) == gone)
			atomic_store_explicit(&dev->sample[i], 0, memory_order_relaxed);
	if (come)
		atomic_store_explicit(&dev->sample[dev->samples++ % VMM_SAMPLES], come, memory_order_relaxed);
}

static int map(void *arg, uint64_t va, size_t bytes, uint64_t handle)
{
	CUresult r = RELAXED(REAL(cuMemMap)(va, bytes, 0, handle, 0));
	if (r == CUDA_SUCCESS)
		sample(arg, 0, va);
	return code(r);
}

static int unmap(void *arg, uint64_t va, size_t bytes)
{
	CUresult r = RELAXED(REAL(cuMemUnmap)(va, bytes));
	if (r == CUDA_SUCCESS)
		sample(arg, va, 0);
	return code(r);
}

/* ---- access ---- */

static unsigned access_list(struct vmm_device *dev, CUmemAccessDesc *out)
{
	pthread_mutex_lock(&dev->lock);
	unsigned n = dev->accesses;
	for (unsigned i = 0; i < n; i++)
		out[i] = dev->access[i];
	pthread_mutex_unlock(&dev->lock);
	return n;
}

static int give_access(void *arg, uint64_t va, size_t bytes)
{
	CUmemAccessDesc desc[VMM_PEERS];
	unsigned n = access_list(arg, desc);
	return code(RELAXED(REAL(cuMemSetAccess)(va, bytes, desc, n)));
}

/* Lock held. The device's own entry is the first and stays as it is; one that is revoked stays with
 * no rights, or memory that it reaches now would stay reachable. */
static bool note_access(struct vmm_device *dev, const CUmemAccessDesc *desc)
{
	unsigned i = 0;
	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE || desc->location.id == dev->ordinal)
		return false;
	while (i < dev->accesses && dev->access[i].location.id != desc->location.id)
		i++;
	if (i == VMM_PEERS)
		return false;
	if (i == dev->accesses)
		dev->access[dev->accesses++] = *desc;
	dev->access[i].flags = desc->flags;
	return true;
}

bool vmm_device_access(struct vmm_device *dev, const CUmemAccessDesc *desc, size_t count)
{
	bool changed = false;
	pthread_mutex_lock(&dev->lock);
	for (size_t i = 0; i < count; i++)
		changed |= note_access(dev, &desc[i]);
	pthread_mutex_unlock(&dev->lock);
	return changed;
}

bool vmm_device_alive(struct vmm_device *dev)
{
	CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev->ordinal};
	unsigned long long flags;
	for (unsigned i = 0; i < VMM_SAMPLES; i++) {
		uint64_t va = atomic_load_explicit(&dev->sample[i], memory_order_relaxed);
		if (va && REAL(cuMemGetAccess)(&flags, &here, va) != CUDA_SUCCESS)
			return false;
	}
	return true;
}

void vmm_device_forget(struct vmm_device *dev)
{
	for (unsigned i = 0; i < VMM_SAMPLES; i++)
		atomic_store_explicit(&dev->sample[i], 0, memory_order_relaxed);
}

/* ---- the device ---- */

static int attribute(CUdevice_attribute what, int device)
{
	int v = 0;
	return REAL(cuDeviceGetAttribute)(&v, what, device) == CUDA_SUCCESS ? v : 0;
}

bool vmm_device_init(struct vmm_device *dev, int ordinal)
{
	size_t grain = 0;
	if (!attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, ordinal))
		return false;
	dev->ordinal = ordinal;
	CUmemAllocationProp prop = chunk_prop(dev);
	if (REAL(cuMemGetAllocationGranularity)(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
		return false;
	pthread_mutex_init(&dev->lock, NULL);
	dev->access[0] =
		(CUmemAccessDesc){.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	dev->accesses = 1;
	dev->backend = (struct heap_backend){
		.arg = dev,
		.grain = grain,
		.reserve = reserve,
		.unreserve = unreserve,
		.chunk_create = chunk_create,
		.chunk_release = chunk_release,
		.available = available,
		.map = map,
		.unmap = unmap,
		.access = give_access,
	};
	vmm_marks_init(&dev->backend);
	return true;
}
