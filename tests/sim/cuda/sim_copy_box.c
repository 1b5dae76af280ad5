/*
 * sim_copy_box.c - 2D and 3D copies between linear memory (no arrays), and batches.
 */
#include "sim_copy.h"

/* One side of a box: address of its first byte, and the layout. */
struct side {
	CUmemorytype type;
	uintptr_t base;
	size_t x, y, z, pitch, rows;
};

static struct side side_of(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y,
						   size_t z, size_t pitch, size_t rows)
{
	uintptr_t base = type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : (uintptr_t)device;
	return (struct side){type, base, x, y, z, pitch, rows};
}

static bool resolve(struct side *s, size_t width, size_t height, size_t depth, enum sim_side *kind)
{
	if (s->type != CU_MEMORYTYPE_HOST && s->type != CU_MEMORYTYPE_DEVICE && s->type != CU_MEMORYTYPE_UNIFIED)
		return false;
	if (!s->pitch)
		s->pitch = s->x + width;
	if (!s->rows)
		s->rows = s->y + height;
	if (s->pitch < s->x + width || s->rows < height)
		return false;
	s->base += s->x + s->pitch * (s->y + s->rows * s->z);
	size_t span = ((depth - 1) * s->rows + height - 1) * s->pitch + width;
	*kind = sim_side_of(s->base, span);
	if (*kind == SIDE_BAD || (s->type == CU_MEMORYTYPE_HOST && *kind == SIDE_DEVICE))
		return false;
	return s->type != CU_MEMORYTYPE_DEVICE || *kind != SIDE_PAGEABLE;
}

static CUresult box_copy(bool per_thread, struct side dst, struct side src, size_t width, size_t height,
						 size_t depth, CUstream stream, bool sync)
{
	if (!width || !height || !depth)
		return CUDA_SUCCESS;
	struct sim_stream *s;
	enum sim_side from, to;
	sim_lock();
	CUresult result = sim_stream_get(stream, per_thread, &s);
	if (result == CUDA_SUCCESS &&
		(!resolve(&src, width, height, depth, &from) || !resolve(&dst, width, height, depth, &to)))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS) {
		struct sim_copy box = {
			.dst = dst.base,
			.src = src.base,
			.width = width,
			.height = height,
			.depth = depth,
			.dst_pitch = dst.pitch,
			.src_pitch = src.pitch,
			.dst_slice = dst.pitch * dst.rows,
			.src_slice = src.pitch * src.rows,
		};
		result = sim_copy_issue(s, &box, from, to, sync);
	}
	sim_unlock();
	return result;
}

static CUresult copy2d(bool per_thread, const CUDA_MEMCPY2D *c, CUstream stream, bool sync)
{
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	return box_copy(
		per_thread,
		side_of(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes, c->dstY, 0, c->dstPitch, 0),
		side_of(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcXInBytes, c->srcY, 0, c->srcPitch, 0),
		c->WidthInBytes, c->Height, 1, stream, sync);
}

static CUresult copy3d(bool per_thread, const CUDA_MEMCPY3D *c, CUstream stream, bool sync)
{
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	return box_copy(per_thread,
					side_of(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes, c->dstY, c->dstZ,
							c->dstPitch, c->dstHeight),
					side_of(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcXInBytes, c->srcY, c->srcZ,
							c->srcPitch, c->srcHeight),
					c->WidthInBytes, c->Height, c->Depth, stream, sync);
}

static CUresult copy3d_peer(bool per_thread, const CUDA_MEMCPY3D_PEER *c, CUstream stream, bool sync)
{
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	return box_copy(per_thread,
					side_of(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes, c->dstY, c->dstZ,
							c->dstPitch, c->dstHeight),
					side_of(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcXInBytes, c->srcY, c->srcZ,
							c->srcPitch, c->srcHeight),
					c->WidthInBytes, c->Height, c->Depth, stream, sync);
}

#define SYNC S_CTX
SIM_TWIN(cuMemcpy2D_v2, _ptds, SYNC, (const CUDA_MEMCPY2D *c), copy2d, c, NULL, true)
SIM_TWIN(cuMemcpy2DUnaligned_v2, _ptds, SYNC, (const CUDA_MEMCPY2D *c), copy2d, c, NULL, true)
SIM_TWIN(cuMemcpy2DAsync_v2, _ptsz, S_DEV, (const CUDA_MEMCPY2D *c, CUstream s), copy2d, c, s, false)
SIM_TWIN(cuMemcpy3D_v2, _ptds, SYNC, (const CUDA_MEMCPY3D *c), copy3d, c, NULL, true)
SIM_TWIN(cuMemcpy3DAsync_v2, _ptsz, S_DEV, (const CUDA_MEMCPY3D *c, CUstream s), copy3d, c, s, false)
SIM_TWIN(cuMemcpy3DPeer, _ptds, SYNC, (const CUDA_MEMCPY3D_PEER *c), copy3d_peer, c, NULL, true)
SIM_TWIN(cuMemcpy3DPeerAsync, _ptsz, S_DEV, (const CUDA_MEMCPY3D_PEER *c, CUstream s), copy3d_peer, c, s,
		 false)

/* ---- batches: each copy by itself, in order ---- */

static CUresult batch(bool per_thread, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
					  size_t attributes, size_t *fail, CUstream stream)
{
	if (!dsts || !srcs || !sizes || !count || !attributes)
		return CUDA_ERROR_INVALID_VALUE;
	/* The legacy default stream is not allowed. */
	if (stream == CU_STREAM_LEGACY || (!stream && !per_thread))
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_stream *s;
	sim_lock();
	CUresult result = sim_stream_get(stream, per_thread, &s);
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		enum sim_side from = sim_side_of(srcs[i], sizes[i]), to = sim_side_of(dsts[i], sizes[i]);
		struct sim_copy box = {.dst = dsts[i], .src = srcs[i], .width = sizes[i], .height = 1, .depth = 1};
		result = !sizes[i] || from == SIDE_BAD || to == SIDE_BAD ? CUDA_ERROR_INVALID_VALUE
																 : sim_copy_issue(s, &box, from, to, false);
		if (result != CUDA_SUCCESS && fail)
			*fail = i;
	}
	sim_unlock();
	return result;
}

SIM_TWIN(cuMemcpyBatchAsync_v2, _ptsz, S_DEV,
		 (CUdeviceptr * d, CUdeviceptr *s, size_t *n, size_t count, CUmemcpyAttributes *attrs, size_t *index,
		  size_t attributes, CUstream st),
		 batch, d, s, n, count, attrs &&index ? attributes : 0, NULL, st)
SIM_TWIN(cuMemcpyBatchAsync, _ptsz, S_DEV,
		 (CUdeviceptr * d, CUdeviceptr *s, size_t *n, size_t count, CUmemcpyAttributes *attrs, size_t *index,
		  size_t attributes, size_t *fail, CUstream st),
		 batch, d, s, n, count, attrs &&index ? attributes : 0, fail, st)
