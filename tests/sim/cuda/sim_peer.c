/*
 * sim_peer.c - which device reaches whose memory.
 *
 * Mapped memory (cuMemMap) is reached by the devices that cuMemSetAccess named. Of other memory
 * every device reaches every other's, unless SIM_PEER=strict: then kernels need
 * cuCtxEnablePeerAccess, or for memory of a pool cuMemPoolSetAccess. Copies need neither.
 */
#include "sim_internal.h"
#include "sim_pool.h"

bool sim_peer_reaches(const struct sim_ctx *ctx, const struct sim_range *r)
{
	uint32_t bit = 1u << ctx->dev->ordinal;
	if (r->kind == MEM_VMM)
		return r->may_read & bit;
	if (!sim_conf.peer_strict || r->kind != MEM_DEVICE || r->dev == ctx->dev || r->imported)
		return true;
	if (r->async)
		return sim_pool_reaches(r, bit);
	return ctx->peers & 1ull << r->dev->ordinal;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
	SIM_ENTER(cuDeviceCanAccessPeer, S_DEV);
	if (!sim_device_get(dev) || !sim_device_get(peer))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!can)
		return CUDA_ERROR_INVALID_VALUE;
	*can = dev != peer;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute which, CUdevice src, CUdevice dst)
{
	SIM_ENTER(cuDeviceGetP2PAttribute, S_DEV);
	if (!sim_device_get(src) || !sim_device_get(dst) || src == dst)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value || (unsigned)which < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
		which > CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED)
		return CUDA_ERROR_INVALID_VALUE;
	*value = which != CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK;
	return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned int flags)
{
	SIM_ENTER(cuCtxEnablePeerAccess, S_CTX);
	struct sim_ctx *peer = (struct sim_ctx *)handle, *ctx = sim_current();
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_ctx_valid(peer) || peer->dev == ctx->dev)
		return CUDA_ERROR_INVALID_CONTEXT;
	uint64_t bit = 1ull << peer->dev->ordinal;
	sim_lock();
	bool enabled = ctx->peers & bit;
	ctx->peers |= bit;
	sim_unlock();
	return enabled ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext handle)
{
	SIM_ENTER(cuCtxDisablePeerAccess, S_CTX);
	struct sim_ctx *peer = (struct sim_ctx *)handle, *ctx = sim_current();
	if (!sim_ctx_valid(peer))
		return CUDA_ERROR_INVALID_CONTEXT;
	uint64_t bit = 1ull << peer->dev->ordinal;
	sim_lock();
	bool enabled = ctx->peers & bit;
	ctx->peers &= ~bit;
	sim_unlock();
	return enabled ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
