/*
 * sim_memset.c - filling memory, and the values that streams write and wait for.
 */
#include "sim_copy.h"

static CUresult fill(bool per_thread, CUdeviceptr dst, size_t pitch, unsigned unit, uint32_t value,
					 size_t width, size_t height, CUstream stream, bool sync)
{
	if (!width || !height)
		return CUDA_SUCCESS;
	if (dst % unit || (height > 1 && pitch < width * unit))
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_stream *s;
	struct sim_op *op = NULL;
	sim_lock();
	CUresult result = sim_stream_get(stream, per_thread, &s);
	enum sim_side side = sim_side_of(dst, (height - 1) * pitch + width * unit);
	if (result == CUDA_SUCCESS && (side == SIDE_BAD || side == SIDE_PAGEABLE))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS) {
		struct sim_cmd *cmd = sim_cmd_new(CMD_SET);
		cmd->set = (struct sim_set){
			.dst = dst,
			.pitch = pitch,
			.width = width,
			.height = height,
			.unit = unit,
			.value = value,
			.async = !sync,
		};
		result = sim_submit(s, cmd, &op);
	}
	/* On device memory the synchronous calls do not wait either. */
	if (op && sync && (side != SIDE_DEVICE || sim_synchronous(dst)))
		sim_op_wait(op);
	sim_op_put(op);
	sim_unlock();
	return result;
}

#define SYNC S_CTX
#define LINE(bits, type)                                                                                     \
	SIM_TWIN(cuMemsetD##bits##_v2, _ptds, SYNC, (CUdeviceptr d, type v, size_t n), fill, d, 0, bits / 8, v,  \
			 n, 1, NULL, true)                                                                               \
	SIM_TWIN(cuMemsetD##bits##Async, _ptsz, S_DEV, (CUdeviceptr d, type v, size_t n, CUstream s), fill, d,   \
			 0, bits / 8, v, n, 1, s, false)                                                                 \
	SIM_TWIN(cuMemsetD2D##bits##_v2, _ptds, SYNC, (CUdeviceptr d, size_t pitch, type v, size_t w, size_t h), \
			 fill, d, pitch, bits / 8, v, w, h, NULL, true)                                                  \
	SIM_TWIN(cuMemsetD2D##bits##Async, _ptsz, S_DEV,                                                         \
			 (CUdeviceptr d, size_t pitch, type v, size_t w, size_t h, CUstream s), fill, d, pitch,          \
			 bits / 8, v, w, h, s, false)

LINE(8, unsigned char)
LINE(16, unsigned short)
LINE(32, unsigned int)

/* ---- cuStreamWaitValue, cuStreamWriteValue, cuStreamBatchMemOp ---- */

struct mem_op {
	bool write;
	struct sim_value v;
};

static CUresult mem_op_check(const struct mem_op *op)
{
	size_t size = op->v.wide ? 8 : 4;
	if (op->v.addr % size)
		return CUDA_ERROR_INVALID_VALUE;
	const unsigned known =
		op->write ? CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER : 3u | CU_STREAM_WAIT_VALUE_FLUSH;
	if (op->v.flags & ~known)
		return CUDA_ERROR_INVALID_VALUE;
	enum sim_side side = sim_side_of(op->v.addr, size);
	return side == SIDE_BAD || side == SIDE_PAGEABLE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult mem_ops(bool per_thread, CUstream stream, const struct mem_op *ops, unsigned count)
{
	struct sim_stream *s;
	sim_lock();
	CUresult result = sim_stream_get(stream, per_thread, &s);
	for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = mem_op_check(&ops[i]);
	for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++) {
		struct sim_cmd *cmd = sim_cmd_new(ops[i].write ? CMD_WRITE_VALUE : CMD_WAIT_VALUE);
		cmd->value = ops[i].v;
		result = sim_submit(s, cmd, NULL);
	}
	sim_unlock();
	return result;
}

static CUresult one(bool per_thread, CUstream s, bool write, bool wide, CUdeviceptr addr, uint64_t value,
					unsigned flags)
{
	struct mem_op op = {.write = write, .v = {.addr = addr, .value = value, .flags = flags, .wide = wide}};
	return mem_ops(per_thread, s, &op, 1);
}

#define VALUE(what, bits, write)                                                                            \
	SIM_TWIN(cuStream##what##Value##bits##_v2, _ptsz, S_DEV,                                                \
			 (CUstream s, CUdeviceptr a, cuuint##bits##_t v, unsigned flags), one, s, write, bits == 64, a, \
			 v, flags)                                                                                      \
	SIM_TWIN(cuStream##what##Value##bits, _ptsz, S_DEV,                                                     \
			 (CUstream s, CUdeviceptr a, cuuint##bits##_t v, unsigned flags), one, s, write, bits == 64, a, \
			 v, flags)

VALUE(Wait, 32, false)
VALUE(Wait, 64, false)
VALUE(Write, 32, true)
VALUE(Write, 64, true)

#define BATCH_MAX 256

static CUresult batch(bool per_thread, CUstream s, unsigned count, const CUstreamBatchMemOpParams *p,
					  unsigned flags)
{
	struct mem_op ops[BATCH_MAX];
	if (count > BATCH_MAX || !p || flags)
		return CUDA_ERROR_INVALID_VALUE;
	unsigned n = 0;
	for (unsigned i = 0; i < count; i++) {
		bool wide = p[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
					p[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
		bool write = p[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
					 p[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
		if (p[i].operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES ||
			p[i].operation == CU_STREAM_MEM_OP_BARRIER)
			continue; /* everything is in order here */
		if (!write && p[i].operation != CU_STREAM_MEM_OP_WAIT_VALUE_32 && !wide)
			return CUDA_ERROR_INVALID_VALUE;
		ops[n++] = (struct mem_op){
			.write = write,
			.v = {.addr = write ? p[i].writeValue.address : p[i].waitValue.address,
				  .value = !wide ? p[i].waitValue.value : p[i].waitValue.value64,
				  .flags = write ? p[i].writeValue.flags : p[i].waitValue.flags,
				  .wide = wide},
		};
	}
	return mem_ops(per_thread, s, ops, n);
}
SIM_TWIN(cuStreamBatchMemOp_v2, _ptsz, S_DEV,
		 (CUstream s, unsigned n, CUstreamBatchMemOpParams *p, unsigned flags), batch, s, n, p, flags)
SIM_TWIN(cuStreamBatchMemOp, _ptsz, S_DEV,
		 (CUstream s, unsigned n, CUstreamBatchMemOpParams *p, unsigned flags), batch, s, n, p, flags)
